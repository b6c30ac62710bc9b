//! Checks of documents: their length, their links, and contents that do not belong into them.

use super::{Findings, Tree};
use std::path::Path;

/// Lines that `ARCHITECTURE.md` may have; longer pages are not read.
const ARCHITECTURE: usize = 250;

pub(super) fn check(tree: &Tree) -> Findings {
    let mut findings = Vec::new();
    let architecture = tree.read("ARCHITECTURE.md");
    if architecture.is_empty() || architecture.lines().count() > ARCHITECTURE {
        findings.push(format!("ARCHITECTURE.md is missing, or longer than {ARCHITECTURE} lines"));
    }
    for name in tree.crates() {
        if !architecture.contains(&format!("`{name}`")) && !architecture.contains(&format!("{name}/")) {
            findings.push(format!("ARCHITECTURE.md does not know crates/{name}"));
        }
    }
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
    let is_large = |file: &&String| tree.root.join(file).metadata().is_ok_and(|file| file.len() > 1_000_000);
    findings.extend(tree.files.iter().filter(is_large).map(|file| format!("{file} is larger than 1 MB")));
    findings
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
