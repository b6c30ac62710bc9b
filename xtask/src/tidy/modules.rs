//! Modules: `foo.rs` beside the folder `foo`, never `foo/mod.rs`; and tables of modules in the documentation of crates,
//! which name each module that the file declares, and no other.

use super::code::{docs, lines, without_tests};
use super::{Findings, Tree};
use std::collections::BTreeSet;

/// The number of modules from which the root of a crate has a table of them.
const TABLE_FROM: usize = 3;
/// First cells of the heading of a table of modules.
const HEADINGS: &[&str] = &["| file |", "| module |"];

pub(super) fn check(tree: &Tree) -> Findings {
    let texts = tree.texts(&["rs"]);
    let folders: BTreeSet<&str> =
        texts.iter().filter_map(|(file, _)| Some(file.rsplit_once('/')?.0)).collect();
    let has_modules = |file: &str| {
        file.ends_with("/lib.rs") || file.strip_suffix(".rs").is_some_and(|module| folders.contains(module))
    };
    let misplaced = texts.iter().filter_map(|(file, _)| misplaced(file));
    let tables =
        texts.iter().filter(|(file, _)| has_modules(file)).flat_map(|(file, text)| compare(file, text));
    misplaced.chain(tables).collect()
}

/// Rejects a module that is named by its folder, except in integration tests, where cargo would take `foo.rs` for a
/// test.
fn misplaced(file: &str) -> Option<String> {
    let module = file.strip_suffix("/mod.rs").filter(|module| module.contains("/src/"))?;
    Some(format!("{file}: one way for modules: move it to {module}.rs"))
}

/// The differences between a file's table of modules and its declarations. A file without a table has none, unless it
/// is the root of a crate with several modules.
fn compare(file: &str, text: &str) -> Findings {
    let lines = lines(text);
    let declared: Vec<(usize, &str)> = without_tests(&lines)
        .into_iter()
        .filter_map(|(number, line)| Some((number, declared(&line.code)?)))
        .collect();
    let Some(listed) = listed(&lines) else {
        let needs_one = file.ends_with("/lib.rs") && declared.len() >= TABLE_FROM;
        let finding = format!(
            "{file}: a crate of {} modules has a table of them: add `| module | content |`",
            declared.len()
        );
        return Vec::from_iter(needs_one.then_some(finding));
    };
    let mut findings = Vec::new();
    for (number, module) in &declared {
        if !listed.iter().any(|(_, name)| name == module) {
            findings
                .push(format!("{file}:{number}: `{module}` is not in the table of modules above: add a row"));
        }
    }
    for (number, name) in &listed {
        if !declared.iter().any(|(_, module)| module == name) {
            findings.push(format!(
                "{file}:{number}: the table has `{name}`, and the file declares no such module: delete it"
            ));
        }
    }
    findings
}

/// The modules that the table lists, with their lines.
fn listed<'a>(lines: &[super::code::Line<'a>]) -> Option<Vec<(usize, &'a str)>> {
    let docs = docs(lines);
    let (doc, heading) = docs.iter().find_map(|doc| {
        let is_heading = |line: &&str| HEADINGS.iter().any(|heading| line.trim_start().starts_with(heading));
        Some((doc, doc.lines.iter().position(is_heading)?))
    })?;
    let rows = doc.lines.iter().enumerate().skip(heading + 2);
    let rows = rows.take_while(|(_, line)| line.trim_start().starts_with('|'));
    let names = rows.flat_map(|(index, row)| {
        let cell = row.split('|').nth(1).unwrap_or_default();
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(move |name| (doc.line + index, name.trim_start_matches("mod@")))
    });
    Some(names.collect())
}

/// The module that a line of code declares with `mod NAME;`.
fn declared(code: &str) -> Option<&str> {
    let code = code.trim().strip_suffix(';')?;
    let (before, name) = code.rsplit_once("mod ").unwrap_or_default();
    let is_visibility = before.is_empty() || before.starts_with("pub") && before.ends_with(' ');
    (is_visibility && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_lies_beside_its_folder() {
        let refused = "crates/recording/ring/src/read/mod.rs: one way for modules: move it to crates/recording/ring/src/read.rs";
        assert_eq!(misplaced("crates/recording/ring/src/read/mod.rs").as_deref(), Some(refused));
        assert_eq!(misplaced("crates/recording/ring/src/read.rs"), None);
        assert_eq!(misplaced("crates/understanding/analyze/tests/support/mod.rs"), None);
    }

    #[test]
    fn a_table_lists_what_the_file_declares() {
        let table =
            "//! A crate.\n//!\n//! | module | what it is |\n//! |---|---|\n//! | [`a`], `b` | `x` |\n";
        let code = "\npub mod a;\npub(crate) mod b;\n#[cfg(test)]\nmod tests;\n";
        assert!(compare("lib.rs", &format!("{table}{code}")).is_empty());
        assert_eq!(
            compare("lib.rs", &format!("{table}{code}mod c;\n")),
            ["lib.rs:11: `c` is not in the table of modules above: add a row"]
        );
        let found = compare("lib.rs", &format!("{table}\nmod a;\n"));
        assert_eq!(found, ["lib.rs:5: the table has `b`, and the file declares no such module: delete it"]);
        let bare = "//! A crate.\nmod a;\nmod b;\n";
        assert!(compare("src/lib.rs", bare).is_empty());
        assert_eq!(
            compare("src/lib.rs", &format!("{bare}mod c;\n")),
            ["src/lib.rs: a crate of 3 modules has a table of them: add `| module | content |`"]
        );
        assert!(
            compare("lib.rs", "//! | word | meaning |\n//! |---|---|\n//! | `x` | y |\nmod a;\n").is_empty()
        );
    }
}
