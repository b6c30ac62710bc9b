//! Memory orders: the labels in the code and in the tables of pairs are the same.
//!
//! A label is `ORDER(name:X)` in a comment; a table's row is `| `name:X` ... | `name:Y` ... | guarantee |` in the
//! documentation of the module that writes.

use super::{Findings, Tree};
use std::collections::BTreeSet;

/// Orders that are stronger than relaxed.
const STRONG: &[&str] = &["Acquire", "Release", "AcqRel", "SeqCst"];
/// Folders in which every stronger order needs a label.
const LABELLED: &[&str] = &["crates/recording/ring/src/", "crates/recording/probe/src/"];

pub(super) fn check(tree: &Tree) -> Findings {
    let (mut in_tables, mut in_code) = (BTreeSet::new(), BTreeSet::new());
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&["rs"]) {
        if !LABELLED.iter().any(|folder| file.starts_with(folder)) {
            continue;
        }
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("//! |") {
                in_tables.extend(labels_in_table(line));
            } else if line.starts_with("//") {
                in_code.extend(labels(line));
            }
        }
        findings.extend(unlabelled(file, &text));
    }
    for label in in_tables.difference(&in_code) {
        findings.push(format!("{label} is in a table of pairs, but at no place in the code"));
    }
    for label in in_code.difference(&in_tables) {
        findings.push(format!("{label} stands in the code, but in no table of pairs"));
    }
    findings
}

/// A label `ORDER(a:B)`, and the partner that it names.
fn labels(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in line.split("ORDER(").skip(1) {
        found.extend(part.split(')').next().map(str::to_owned));
    }
    found
}

/// `` `a:B` `` anywhere in a row's first two cells.
fn labels_in_table(line: &str) -> Vec<String> {
    let cells: Vec<&str> = line.split('|').skip(1).take(2).collect();
    let words = cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.filter(|word| is_label(word)).map(str::to_owned).collect()
}

fn is_label(word: &str) -> bool {
    word.split_once(':').is_some_and(|(name, letter)| {
        name.chars().all(|c| c.is_ascii_lowercase())
            && letter.len() == 1
            && letter.chars().all(|c| c.is_ascii_uppercase())
    })
}

/// Orders stronger than relaxed without a label in the six lines above.
fn unlabelled(file: &str, text: &str) -> Findings {
    let code = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().collect();
    let mut findings = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let is_use = line.trim_start().starts_with("use ") || line.trim_start().starts_with("//");
        let strong = STRONG
            .iter()
            .any(|order| line.contains(&format!("{order})")) || line.contains(&format!("{order},")));
        let above = &lines[number.saturating_sub(6)..=number];
        if strong && !is_use && !above.iter().any(|line| line.contains("ORDER(")) {
            findings.push(format!("{file}:{}: an order without a label: {}", number + 1, line.trim()));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_where_they_stand() {
        assert_eq!(labels("// ORDER(write:A) pairs with read:A. x"), ["write:A"]);
        assert_eq!(
            labels_in_table("//! | `write:A`, the last store | `read:A` | who sees `x:Y` |"),
            ["write:A", "read:A"]
        );
        assert!(labels_in_table("//! | label | partner | guarantee |").is_empty());
    }

    #[test]
    fn an_order_without_a_label_is_found() {
        assert_eq!(unlabelled("f", "a.load(Acquire);\n").len(), 1);
        assert!(unlabelled("f", "// ORDER(x:A)\na.load(Acquire);\n").is_empty());
        assert!(unlabelled("f", "use x::{Acquire, Relaxed};\na.load(Relaxed);\n").is_empty());
    }
}
