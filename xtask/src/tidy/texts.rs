//! Texts: as short as they promise, about what is there, without what does not belong into them.

use super::{Findings, files, root, texts_of};
use std::fs;
use std::path::Path;

/// Lines that `ARCHITECTURE.md` may have: nobody reads more.
const ARCHITECTURE: usize = 250;

pub(super) fn check() -> Findings {
    let mut findings = Vec::new();
    let root = root();
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap_or_default();
    if architecture.is_empty() || architecture.lines().count() > ARCHITECTURE {
        findings.push(format!("ARCHITECTURE.md is missing, or longer than {ARCHITECTURE} lines"));
    }
    for entry in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !architecture.contains(&format!("`{name}`")) && !architecture.contains(&format!("{name}/")) {
            findings.push(format!("ARCHITECTURE.md does not know crates/{name}"));
        }
    }
    for (file, text) in texts_of(&["md", "rs", "c", "h", "cpp", "toml", "in"]) {
        if file.starts_with("xtask/") {
            continue;
        }
        for mark in ["TODO", "FIXME", "XXX"] {
            if text.contains(mark) {
                findings.push(format!("{file} has a {mark}: make it an issue"));
            }
        }
        if file.ends_with(".md") {
            findings.extend(dead_links(&root, &file, &text));
        }
    }
    let too_large =
        files(&root).into_iter().filter(|path| path.metadata().is_ok_and(|file| file.len() > 1_000_000));
    findings.extend(too_large.map(|path| format!("{} is larger than 1 MB", path.display())));
    findings
}

/// Links to files that are not there.
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
