//! Size of crates in lines of code, without tests, comments and empty lines. One person should be able to keep a crate
//! in mind.

use super::code::{Line, Source, without_tests};
use super::ratchet::{Group, Measure};
use std::collections::BTreeMap;

/// Lines of code that a crate may have.
const MOST: usize = 5_000;

/// Counts the lines of code of each crate.
pub(super) fn check(sources: &[Source]) -> Measure {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_crate_code()) {
        groups.entry(source.room().to_owned()).or_default().count += count(&source.lines);
    }
    Measure {
        name: "lines",
        faults: "lines of code",
        remedy: "move a part with an interface of its own into a crate, and name it in ARCHITECTURE.md",
        free: MOST,
        bar: None,
        groups,
    }
}

fn count(lines: &[Line]) -> usize {
    without_tests(lines).iter().filter(|(_, line)| line.has_code()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::code::lines;

    #[test]
    fn code_counts_and_nothing_else_does() {
        let text = "//! Doc.\n\nuse a::b; // c\n/* d\n e */\nfn f() {\n    \"g\n\nh\";\n}\n#[cfg(test)]\nmod tests {\n    x\n}\n";
        assert_eq!(count(&lines(text)), 6);
    }
}
