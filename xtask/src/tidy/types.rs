//! Public types: one name has one meaning in the whole workspace.

use super::code::{Line, Source, without_tests};
use super::ratchet::{Group, Measure};
use std::collections::{BTreeMap, BTreeSet};

/// Names that each crate may define for itself, with the reason.
const OF_EACH_CRATE: &[(&str, &str)] =
    &[("Error", "one enum of errors a crate, always named with its crate")];
/// Keywords in front of a type's name.
const KINDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Counts the crates that have a public type of a name, where there is more than one.
pub(super) fn check(sources: &[Source]) -> Measure {
    let mut found: BTreeMap<String, (BTreeSet<&str>, Vec<String>)> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_crate_code()) {
        for (line, name) in public_types(&source.lines) {
            let (crates, places) = found.entry(name.clone()).or_default();
            crates.insert(source.room());
            places.push(format!("{}:{line}: pub {name}", source.file));
        }
    }
    let is_shared = |(name, (crates, _)): &(String, (BTreeSet<&str>, Vec<String>))| {
        crates.len() > 1 && OF_EACH_CRATE.iter().all(|(own, _)| own != name)
    };
    let group = |(name, (crates, places)): (String, (BTreeSet<&str>, Vec<String>))| {
        (name, Group { count: crates.len(), places })
    };
    Measure {
        name: "same-type",
        faults: "crates with a public type of this name",
        remedy: "give each the name of what it is there",
        free: 1,
        bar: None,
        groups: found.into_iter().filter(is_shared).map(group).collect(),
    }
}

/// The public types that a file declares, with their lines.
fn public_types(lines: &[Line]) -> Vec<(usize, String)> {
    let declared = without_tests(lines).into_iter().filter_map(|(number, line)| {
        let mut words = line
            .code
            .trim_start()
            .strip_prefix("pub ")?
            .split_whitespace()
            .skip_while(|word| *word == "unsafe");
        let is_type = words.next().is_some_and(|kind| KINDS.contains(&kind));
        let name = words.next().filter(|_| is_type)?;
        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        // An associated type is named together with its owner: `T::Item`.
        (!line.code.starts_with(' ')).then(|| (number, name.to_owned()))
    });
    declared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::code::lines;

    #[test]
    fn public_types_are_found_and_others_are_not() {
        let text = "pub struct Ring<'a> {\n    pub head: u64,\n}\npub(crate) struct Own;\npub unsafe trait Plain {}\n\
            pub fn make() {}\nstruct Hidden;\npub enum Step { A }\n// pub struct Old;\n#[cfg(test)]\npub struct Test;\n";
        let found = public_types(&lines(text));
        assert_eq!(found, [(1, "Ring".to_owned()), (5, "Plain".to_owned()), (8, "Step".to_owned())]);
    }
}
