//! Checks of documents: their length, their links, and contents that do not belong into them.

use super::{Findings, Tree};
use std::collections::BTreeSet;
use std::path::Path;

/// Lines that `ARCHITECTURE.md` may have; longer pages are not read.
const ARCHITECTURE: usize = 450;

/// Crates that every half uses, or that use every half: they lie in `crates/` itself.
const OUTSIDE: &[&str] = &["event", "filter", "proc", "quantity", "terminal", "command", "cli"];

pub(super) fn check(tree: &Tree) -> Findings {
    let mut findings = Vec::new();
    let architecture = tree.read("ARCHITECTURE.md");
    if architecture.is_empty() || architecture.lines().count() > ARCHITECTURE {
        findings.push(format!("ARCHITECTURE.md is missing, or longer than {ARCHITECTURE} lines"));
    }
    findings.extend(misplaced(&folders(&architecture), &tree.crates()));
    for (file, text) in tree.texts(&["md", "rs", "c", "h", "cpp", "toml", "in"]) {
        if file.starts_with("xtask/") {
            continue;
        }
        for mark in ["TODO", "FIXME", "XXX"] {
            if text.contains(mark) {
                findings.push(format!("{file} has a {mark}: make it an issue"));
            }
        }
        if file.ends_with(".md") {
            findings.extend(dead_links(&tree.root, file, &text));
        }
    }
    findings.extend(pictures(tree));
    let is_large = |file: &&String| tree.root.join(file).metadata().is_ok_and(|file| file.len() > 1_000_000);
    findings.extend(tree.files.iter().filter(is_large).map(|file| format!("{file} is larger than 1 MB")));
    findings
}

/// The folders of the crates that the page's table lists: a row that names a folder, such as `recording/`, stands
/// before its crates, and `cli` in no folder.
fn folders(page: &str) -> BTreeSet<String> {
    let section = page.split_once("## The crates").map_or("", |(_, behind)| behind);
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let mut group = "";
    let mut folders = BTreeSet::new();
    for cell in cells {
        let Some(name) = cell.split('`').nth(1) else { continue };
        match name.strip_suffix('/') {
            Some(name) => group = name,
            None if OUTSIDE.contains(&name) => drop(folders.insert(name.to_owned())),
            None => drop(folders.insert(format!("{group}/{name}"))),
        }
    }
    folders
}

/// Crates in another folder than on the page, and rows without a crate.
fn misplaced(listed: &BTreeSet<String>, found: &BTreeSet<&str>) -> Findings {
    let unlisted = found.iter().filter(|folder| !listed.contains(**folder));
    let unlisted =
        unlisted.map(|folder| format!("crates/{folder}: not in ARCHITECTURE.md's table of crates"));
    let absent = listed.iter().filter(|folder| !found.contains(folder.as_str()));
    let absent =
        absent.map(|folder| format!("ARCHITECTURE.md's table of crates: there is no crates/{folder}"));
    unlisted.chain(absent).collect()
}

/// Number of pictures that `README.md` shows.
const PICTURES: usize = 2;

/// Pictures in `docs/pictures` that no page shows, and too few in `README.md`. That a shown one exists is checked with
/// the links.
fn pictures(tree: &Tree) -> Findings {
    let pages: Vec<String> = tree.texts(&["md"]).into_iter().map(|(_, text)| text).collect();
    let shown = tree.read("README.md").matches("](docs/pictures/").count();
    let few = (shown < PICTURES)
        .then(|| format!("README.md shows {shown} of docs/pictures, fewer than {PICTURES}"));
    let files = tree.files.iter().filter_map(|file| file.strip_prefix("docs/pictures/"));
    let unused = files.filter(|name| !pages.iter().any(|text| text.contains(&format!("pictures/{name})"))));
    few.into_iter().chain(unused.map(|name| format!("no page shows docs/pictures/{name}"))).collect()
}

/// Finds links to files that do not exist.
fn dead_links(root: &Path, file: &str, text: &str) -> Findings {
    let folder = root.join(file);
    let folder = folder.parent().unwrap_or(root);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local =
        targets.filter(|target| !target.contains("://") && !target.starts_with('#') && !target.is_empty());
    let missing = local.filter(|target| {
        let path = target.split('#').next().unwrap_or_default();
        !folder.join(path).exists()
    });
    missing.map(|target| format!("{file} links to {target}, which is not there")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_lies_in_the_folder_of_its_row() {
        let page = "## The crates\n\n| crate | purpose |\n|---|---|\n| `event` | a |\n| **`recording/`** | **b** |\n\
            | `ring` | c `d` |\n| `cli` | e |\n\n## More\n| `x` |\n";
        let listed = folders(page);
        assert_eq!(listed.iter().collect::<Vec<_>>(), ["cli", "event", "recording/ring"]);
        assert!(misplaced(&listed, &BTreeSet::from(["cli", "event", "recording/ring"])).is_empty());
        assert_eq!(
            misplaced(&listed, &BTreeSet::from(["cli", "event", "machine/ring"])),
            [
                "crates/machine/ring: not in ARCHITECTURE.md's table of crates",
                "ARCHITECTURE.md's table of crates: there is no crates/recording/ring"
            ]
        );
    }
}
