//! Holds the workspace to its architecture: what `ARCHITECTURE.md` promises and no compiler checks.

pub mod contract;
mod edges;
mod orders;
mod sources;
mod texts;
mod tree;

use std::process::ExitCode;
pub use tree::Tree;

/// What is wrong, where.
type Findings = Vec<String>;
type Check = fn(&Tree) -> Findings;

/// Runs every check.
pub fn run(tree: &Tree) -> ExitCode {
    let checks: [(&str, Check); 5] = [
        ("edges between crates", edges::check),
        ("sources", sources::check),
        ("memory orders", orders::check),
        ("the contract of the shared memory", contract::check),
        ("texts", texts::check),
    ];
    let mut found = 0;
    for (name, check) in checks {
        let findings = check(tree);
        println!("tidy: {name}: {}", if findings.is_empty() { "ok" } else { "not tidy" });
        for finding in &findings {
            println!("  {finding}");
        }
        found += findings.len();
    }
    if let Some(skipped) = skipped(&tree.untracked) {
        println!("tidy: {skipped}");
    }
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Names the files that were not looked at, because no commit would hold them yet.
fn skipped(untracked: &[String]) -> Option<String> {
    const NAMED: usize = 5;
    let (named, count) = (untracked.iter().take(NAMED), untracked.len());
    let named: Vec<String> = named.map(|file| format!("{file:?}")).collect();
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    (count > 0).then(|| format!("untracked, not looked at (git add): {}{more}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untracked_files_are_named_up_to_five() {
        let files = |count: usize| (0..count).map(|number| format!("f{number}")).collect::<Vec<_>>();
        assert_eq!(skipped(&[]), None);
        assert_eq!(skipped(&files(1)).unwrap(), "untracked, not looked at (git add): \"f0\"");
        assert!(skipped(&files(5)).unwrap().ends_with("\"f4\""));
        assert!(skipped(&files(7)).unwrap().ends_with("\"f4\" and 2 more"));
    }
}
