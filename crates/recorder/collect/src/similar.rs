//! Suggestions for misspelt names.

/// Lowest similarity of a suggested name, after Jaro and Winkler.
const LEAST: f64 = 0.85;
/// Maximum number of suggested names.
const MOST: usize = 3;
/// Ratio of lengths beyond which that similarity cannot be reached: comparing costs the product of both.
const MOST_TIMES_LONGER: usize = 4;

/// Returns the names most similar to `name`, best first: for "did you mean".
///
/// ```
/// use sordino_collect::similar;
/// assert_eq!(similar("motor:perod", ["net:tx", "motor:period"]), ["motor:period"]);
/// ```
pub fn similar<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let may_be = |other: &&str| {
        other.len() <= MOST_TIMES_LONGER * name.len() && name.len() <= MOST_TIMES_LONGER * other.len()
    };
    let likeness = |other: &str| strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase());
    let rated = names.into_iter().filter(may_be).map(|other| (likeness(other), other));
    let mut rated: Vec<(f64, &str)> = rated.filter(|(likeness, _)| *likeness > LEAST).collect();
    rated.sort_by(|(one, name), (other, other_name)| other.total_cmp(one).then(name.cmp(other_name)));
    rated.dedup();
    rated.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// Lists as many of `names` as fit into a line, and the number of further ones.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let mut names = names.into_iter();
    let first: Vec<&str> = names.by_ref().take(SHOWN).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first_and_few_of_them() {
        let names =
            ["motor:period", "motor:periods", "motor:phase", "net:tx", "motor:period", "Motor:Period"];
        assert_eq!(similar("motor:period", names)[..2], ["Motor:Period", "motor:period"]);
        assert_eq!(similar("motor:perod", names).len(), 3);
        assert!(similar("disk", names).is_empty() && similar("", names).is_empty());
        let long = "motor:perod".repeat(100);
        assert!(similar("motor:perod", [long.as_str()]).is_empty());
    }

    #[test]
    fn a_long_list_ends_with_a_number() {
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed(["a"; 10]), "a, a, a, a, a, a, a, a and 2 more");
    }
}
