//! Checks of the workspace's architecture: promises of `ARCHITECTURE.md` that no compiler checks.

mod circles;
mod code;
mod comments;
pub mod contract;
mod edges;
mod modules;
mod orders;
mod ratchet;
mod refill;
mod size;
mod sources;
mod terms;
mod texts;
mod tree;
mod types;

use code::{ENDINGS, Source};
use ratchet::{FILE, Limits, Measure};
pub use refill::write as refill;
use std::process::ExitCode;
pub use tree::Tree;

/// Descriptions of faults, each with its place.
type Findings = Vec<String>;
type Check = fn(&Tree) -> Findings;
type Count = fn(&[Source]) -> Measure;

/// The checks that refuse each single fault.
const CHECKS: [(&str, Check); 7] = [
    ("edges between crates", edges::check),
    ("sources", sources::check),
    ("tables of modules", modules::check),
    ("memory orders", orders::check),
    ("the contract of the shared memory", contract::check),
    ("texts", texts::check),
    ("paragraphs", refill::check),
];
/// The checks that reject more faults than `xtask/ratchet.txt` lists.
const COUNTS: [Count; 8] = [
    comments::short,
    comments::clauses,
    comments::safety,
    terms::check,
    types::check,
    types::of_tests,
    size::check,
    circles::check,
];

/// Runs every check and prints what it found; fails if one found anything.
pub fn run(tree: &Tree) -> ExitCode {
    let mut is_tidy = true;
    let mut tell = |name: &str, findings: &Findings| {
        println!("tidy: {name}: {}", if findings.is_empty() { "ok" } else { "not tidy" });
        findings.iter().for_each(|finding| println!("  {finding}"));
        is_tidy &= findings.is_empty();
    };
    CHECKS.iter().for_each(|(name, check)| tell(name, &check(tree)));
    match Limits::of(tree) {
        Ok(limits) => {
            let measures = measures(tree);
            for measure in &measures {
                let name = format!("{} ({})", measure.name, measure.summary());
                tell(&name, &limits.exceeded(measure));
            }
            let fewer = limits.changes(&limits.lowered(&measures));
            if !fewer.is_empty() {
                println!("tidy: {FILE} can be lowered (cargo run -p xtask -- ratchet): {}", fewer.join("; "));
            }
        }
        Err(error) => tell(FILE, &vec![error]),
    }
    if let Some(skipped) = skipped(&tree.untracked) {
        println!("tidy: {skipped}");
    }
    if is_tidy { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the counted faults: all, those of a measure, or those of one of its groups.
pub fn list(tree: &Tree, name: Option<&str>, group: Option<&str>) {
    for measure in measures(tree) {
        let groups = measure.groups.iter().filter(|_| name.is_none_or(|name| name == measure.name));
        for (own, found) in groups.filter(|(own, _)| group.is_none_or(|group| group == **own)) {
            println!("{} {own} {}", measure.name, found.count);
            found.places.iter().for_each(|place| println!("    {place}"));
        }
    }
}

/// Lowers the limits of `xtask/ratchet.txt` to the counts.
///
/// # Errors
/// An invalid limit, or a file that cannot be written.
pub fn lower(tree: &Tree) -> Result<(), String> {
    let limits = Limits::of(tree)?;
    let lowered = limits.lowered(&measures(tree));
    limits.changes(&lowered).iter().for_each(|change| println!("{change}"));
    std::fs::write(tree.root.join(FILE), lowered.text()).map_err(|error| format!("{FILE}: {error}"))
}

/// Counts the faults of each kind.
fn measures(tree: &Tree) -> [Measure; 8] {
    let texts = tree.texts(ENDINGS);
    let sources = Source::of(&texts);
    COUNTS.map(|count| count(&sources))
}

/// Names the files that were not checked, because git does not track them yet.
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
