//! Holds the workspace to its architecture: what `ARCHITECTURE.md` promises and no compiler checks.

pub mod contract;
mod edges;
mod orders;
mod sources;
mod texts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is wrong, where.
type Findings = Vec<String>;
type Check = fn() -> Findings;

/// Runs every check.
pub fn run() -> ExitCode {
    let checks: [(&str, Check); 5] = [
        ("edges between crates", edges::check),
        ("sources", sources::check),
        ("memory orders", orders::check),
        ("the contract of the shared memory", contract::check),
        ("texts", texts::check),
    ];
    let mut found = 0;
    for (name, check) in checks {
        let findings = check();
        println!("tidy: {name}: {}", if findings.is_empty() { "ok" } else { "not tidy" });
        for finding in &findings {
            println!("  {finding}");
        }
        found += findings.len();
    }
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The workspace's directory.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// All files below `directory`, but for what is built.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_symlink() || ["target", "build", ".git", "corpus"].iter().any(|skipped| name == *skipped) {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The files of the workspace with one of these endings, and their texts.
fn texts_of(endings: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let wanted = |path: &PathBuf| {
        let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned()).unwrap_or_default();
        endings.contains(&ending.as_str())
    };
    files(&root)
        .into_iter()
        .filter(wanted)
        .filter_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            let name = path.strip_prefix(&root).ok()?.to_string_lossy().into_owned();
            Some((name, text))
        })
        .collect()
}
