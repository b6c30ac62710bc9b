//! Types of any visibility: one name has one meaning in the whole workspace.

use super::code::{Line, Source, without_tests};
use super::ratchet::{Group, Measure};
use std::collections::{BTreeMap, BTreeSet};

/// Names that each crate may define for itself, with the reason.
const OF_EACH_CRATE: &[(&str, &str)] =
    &[("Error", "one enum of errors a crate, always named with its crate")];
/// Keywords in front of a type's name.
const KINDS: &[&str] = &["struct", "enum", "trait", "type", "union"];
/// Folders of the crates whose types are counted.
const ROOTS: &[&str] = &["crates/", "adapters/", "tables/"];

/// Counts the crates that declare a type of a name, where there is more than one.
pub(super) fn check(sources: &[Source]) -> Measure {
    let mut found: BTreeMap<String, (BTreeSet<&str>, Vec<String>)> = BTreeMap::new();
    for source in sources {
        let Some(folder) = folder(source.file) else { continue };
        for (line, name) in types(&source.lines) {
            let (crates, places) = found.entry(name.clone()).or_default();
            crates.insert(folder);
            places.push(format!("{}:{line}: {name}", source.file));
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
        faults: "crates with a type of this name",
        remedy: "give each the name of what it is there",
        free: 1,
        bar: None,
        groups: found.into_iter().filter(is_shared).map(group).collect(),
    }
}

/// Counts the types of tests and benchmarks that have the name of a crate's type.
pub(super) fn of_tests(sources: &[Source]) -> Measure {
    let mut measure = Measure {
        name: "test-type",
        faults: "types of tests with the name of a crate's type",
        remedy: "give each the name of what it is in the test",
        free: 0,
        bar: None,
        groups: BTreeMap::new(),
    };
    let declared = |is_searched: fn(&str) -> bool| {
        let files = sources.iter().filter(move |source| is_searched(source.file));
        files.flat_map(|source| types(&source.lines).into_iter().map(move |found| (source, found)))
    };
    let of_crates: BTreeSet<String> =
        declared(|file| folder(file).is_some()).map(|(_, (_, name))| name).collect();
    for (source, (line, name)) in declared(is_of_tests).filter(|(_, (_, name))| of_crates.contains(name)) {
        measure.add(source.room(), format!("{}:{line}: {name}", source.file));
    }
    measure
}

/// Returns true for a file in Rust of tests or benchmarks.
fn is_of_tests(file: &str) -> bool {
    let is_apart = ["tests/", "benches/"].iter().any(|root| file.starts_with(root));
    let is_beside_a_crate =
        file.starts_with("crates/") && file.contains("/tests/") && !file.contains("/src/");
    file.ends_with(".rs") && (is_apart || is_beside_a_crate)
}

/// The folder of the crate that a source file belongs to; `None` for tests and other files.
fn folder(file: &str) -> Option<&str> {
    let (folder, below) = file.split_once("/src/")?;
    let is_code = below.ends_with(".rs") && below.rsplit('/').next() != Some("tests.rs");
    (is_code && ROOTS.iter().any(|root| file.starts_with(root))).then_some(folder)
}

/// The types that a file declares outside of tests, with their lines.
fn types(lines: &[Line]) -> Vec<(usize, String)> {
    let declared = without_tests(lines).into_iter().filter_map(|(number, line)| {
        let mut words = without_visibility(line.code.trim_start())
            .split_whitespace()
            .skip_while(|word| *word == "unsafe");
        let kind = words.next().filter(|kind| KINDS.contains(kind))?;
        let name = words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        // An associated type is named together with its owner: `T::Item`.
        let is_associated = kind == "type" && line.code.starts_with(' ');
        (!name.is_empty() && !is_associated).then(|| (number, name.to_owned()))
    });
    declared.collect()
}

/// The code behind `pub`, `pub(crate)` and the like.
fn without_visibility(code: &str) -> &str {
    let Some(rest) = code.strip_prefix("pub") else { return code };
    match rest.strip_prefix('(').and_then(|scope| scope.split_once(')')) {
        Some((_, declaration)) => declaration,
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::code::lines;

    #[test]
    fn types_of_any_visibility_are_found_and_those_of_tests_are_not() {
        let text = "pub struct Ring<'a> {\n    pub head: u64,\n}\npub(crate) struct Own;\npub unsafe trait Plain {}\n\
            pub fn make() {\n    struct Local(u8);\n}\nstruct Hidden;\npub(in crate::a) enum Step { A }\ntype Pair = (u8, u8);\n\
            // pub struct Old;\nimpl Iterator for Own {\n    type Item = u8;\n}\nstruct $name;\npublic struct;\n\
            #[cfg(test)]\npub struct Test;\n";
        let found = types(&lines(text));
        let found: Vec<(usize, &str)> = found.iter().map(|(line, name)| (*line, name.as_str())).collect();
        let expected =
            [(1, "Ring"), (4, "Own"), (5, "Plain"), (7, "Local"), (9, "Hidden"), (10, "Step"), (11, "Pair")];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_type_of_a_test_that_a_crate_has_too_is_found() {
        let texts = [
            ("crates/event/src/id.rs", "pub struct Cpu(pub u32);\n".to_owned()),
            ("crates/event/tests/ids.rs", "struct Own;\n\nenum Cpu {}\n".to_owned()),
            ("tests/src/scene.rs", "pub struct Scene;\n".to_owned()),
            ("benches/src/cost.rs", "struct Cpu;\n".to_owned()),
        ];
        let measure = of_tests(&Source::of(&texts));
        let places: Vec<&String> = measure.groups.values().flat_map(|group| &group.places).collect();
        assert_eq!(places, ["benches/src/cost.rs:1: Cpu", "crates/event/tests/ids.rs:3: Cpu"]);
    }

    #[test]
    fn types_belong_to_the_folder_of_their_crate() {
        assert_eq!(folder("crates/recording/ring/src/read/copy.rs"), Some("crates/recording/ring"));
        assert_eq!(folder("adapters/may/src/lib.rs"), Some("adapters/may"));
        assert_eq!(folder("tables/src/export.rs"), Some("tables"));
        let others = [
            "crates/recording/ring/src/a.h",
            "crates/recorder/dirfd/src/tests.rs",
            "crates/formats/ctf/tests/losses.rs",
            "tests/src/running.rs",
        ];
        assert_eq!(others.map(folder), [None; 4]);
    }
}
