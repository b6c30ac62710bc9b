//! Suggestions for a name that does not exist.

use crate::similar;
use sordino_event::text::printable;

/// Most names that a message lists.
const SHOWN: usize = 12;

/// Returns a suggestion for a name that is not among `names`: the nearest of them, or else the first of all; `None` if
/// there is none.
pub fn meant<'a>(unknown: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let names = each_once(names);
    let mut near = similar(unknown, names.iter().copied());
    if near.is_empty() {
        let bare =
            |name: &&&str| name.split_once(':').is_some_and(|(_, bare)| !similar(unknown, [bare]).is_empty());
        near = names.iter().filter(bare).copied().collect();
    }
    match (near.is_empty(), names.is_empty()) {
        (false, _) => Some(format!("did you mean {}?", list(&near))),
        (true, false) => Some(format!("there are {}", list(&names))),
        (true, true) => None,
    }
}

fn each_once<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the first names, and the number of the others.
pub fn list(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| printable(name)).collect();
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_shown_or_else_the_first_of_all() {
        let names = ["motor:period", "net:answer", "motor:period", "a\x1b:b"];
        assert_eq!(meant("motor:perod", names).as_deref(), Some("did you mean motor:period?"));
        assert_eq!(meant("zzz", names).as_deref(), Some(r"there are a\x1b:b, motor:period, net:answer"));
        assert_eq!(meant("zzz", []), None);
        let many: Vec<String> = (10..30).map(|number| format!("x{number}")).collect();
        let shown = meant("zzz", many.iter().map(String::as_str)).unwrap();
        assert!(shown.starts_with("there are x10, x11") && shown.ends_with("x21 and 8 more"), "{shown}");
    }
}
