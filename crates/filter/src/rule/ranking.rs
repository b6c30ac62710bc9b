//! The ranking of hits by the value of a field.

use super::{Rule, Rules, Unfit};
use crate::Invalid;

/// A field that ranks hits from the worst to the best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    /// The name of the field.
    pub field: String,
    /// True if the least of its values are the worst, instead of the greatest.
    pub least: bool,
}

impl Rules {
    /// Returns the ranking of the hits that these rules choose: by the field called `by`, or by the only field that
    /// they compare by less or greater. The least value is the worst if they require less than a bound, else the
    /// greatest.
    ///
    /// # Errors
    /// The first rule that does not determine the field, or determines another ranking than the rules before it.
    pub fn ranking(&self, by: Option<&str>) -> Result<Option<Ranking>, Unfit> {
        let mut common: Option<Ranking> = None;
        for rule in self.0.iter().filter(|rule| !rule.excludes) {
            let unfit = |message: String| rule.unfit(Invalid::new(rule.condition_place(), message));
            let ranking = rule.ranking(by).map_err(unfit)?;
            match &common {
                Some(before) if *before != ranking => {
                    let (before, other) = (before.describe(), ranking.describe());
                    return Err(unfit(format!(
                        "the worst is {other} here and {before} before: one of them is for all"
                    )));
                }
                _ => common = Some(ranking),
            }
        }
        Ok(common)
    }
}

impl Rule {
    fn ranking(&self, by: Option<&str>) -> Result<Ranking, String> {
        let mut bounds = self.condition.as_ref().map_or(Vec::new(), |(_, expression)| expression.bounds());
        bounds.sort_unstable();
        bounds.dedup();
        if let Some(by) = by {
            let least = bounds.contains(&(by, true)) && !bounds.contains(&(by, false));
            return Ok(Ranking { field: by.to_owned(), least });
        }
        match bounds[..] {
            [(field, least)] => Ok(Ranking { field: field.to_owned(), least }),
            [] => Err("no field is compared by < or > here: name the one by which a hit is bad".to_owned()),
            _ => Err("several bounds are compared here: name the field by which a hit is bad".to_owned()),
        }
    }

    /// Returns the place of the condition in the rule's text, or of the whole rule if it has none. It is counted from
    /// the condition, as [`Rule::unfit`] does.
    fn condition_place(&self) -> std::ops::Range<usize> {
        let start = self.condition.as_ref().map_or(0, |(start, _)| *start);
        let white = self.text[start..].len() - self.text[start..].trim_start().len();
        white..self.text.len() - start
    }
}

impl Ranking {
    fn describe(&self) -> String {
        format!("the {} {}", if self.least { "least" } else { "greatest" }, self.field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(rules: &str, by: Option<&str>) -> Result<Option<Ranking>, String> {
        Rules(Rule::list(rules).unwrap()).ranking(by).map_err(|unfit| unfit.picture())
    }

    fn ranked(field: &str, least: bool) -> Result<Option<Ranking>, String> {
        Ok(Some(Ranking { field: field.to_owned(), least }))
    }

    #[test]
    fn what_is_compared_tells_what_is_worse() {
        assert_eq!(ranking("a:b if late > 5us && kind == 3", None), ranked("late", false));
        assert_eq!(ranking("a:b if slack <= 5us, c:d if 3us > slack", None), ranked("slack", true));
        assert_eq!(ranking("a:b if 5 < late, !a:c", None), ranked("late", false));
        assert_eq!(ranking("a:b if x > 1 && y < 3", Some("y")), ranked("y", true));
        assert_eq!(ranking("a:b", Some("y")), ranked("y", false));
        assert_eq!(ranking("a:b if x < -5 || x > 5", Some("x")), ranked("x", false));
        assert_eq!(ranking("!a:b", None), Ok(None));
    }

    #[test]
    fn what_does_not_tell_is_shown() {
        for (rules, expected) in [
            ("a:b", "a:b\n^^^ no field is compared by < or > here"),
            ("a:b if !(x > 3)", "\n       ^^^^^^^^ no field"),
            ("a:b if x[1] > 3", "\n       ^^^^^^^^ no field"),
            ("a:b if x > 1 && y < 3", "\n       ^^^^^^^^^^^^^^ several bounds"),
            (
                "a:b if x > 1, a:c if y > 1",
                "a:c if y > 1\n       ^^^^^ the worst is the greatest y here and the greatest x before",
            ),
        ] {
            let picture = ranking(rules, None).unwrap_err();
            assert!(picture.contains(expected), "{picture}");
        }
    }
}
