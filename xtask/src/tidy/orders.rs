//! Memory orders: the labels in the code and in the tables of pairs are the same.
//!
//! A label is `ORDER(name:X)` in a comment; a table's row is `| `name:X` ... | `name:Y` ... | guarantee |` in the
//! documentation of the module that writes. A label's comment names its partners, `pairs with name:Y and name:Z:`, and
//! theirs name it.

use super::{Findings, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// Orders that are stronger than relaxed.
const STRONG: &[&str] = &["Acquire", "Release", "AcqRel", "SeqCst"];
/// Folders in which every stronger order needs a label.
const LABELLED: &[&str] = &["crates/recording/ring/src/", "crates/recording/probe/src/"];
/// Folders that also have partners of labels there.
const PARTNERS: &[&str] = &["crates/recorder/collect/src/"];

pub(super) fn check(tree: &Tree) -> Findings {
    let (mut in_tables, mut in_code) = (BTreeSet::new(), BTreeSet::new());
    let mut partners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&["rs"]) {
        let is_in = |folders: &[&str]| folders.iter().any(|folder| file.starts_with(folder));
        if !is_in(LABELLED) && !is_in(PARTNERS) {
            continue;
        }
        for (label, named) in pairs(&text) {
            partners.entry(label).or_default().extend(named);
        }
        for line in text.lines().map(str::trim_start) {
            if line.starts_with("//! |") {
                in_tables.extend(labels_in_table(line));
            } else if line.starts_with("//") {
                in_code.extend(labels(line));
            }
        }
        if is_in(LABELLED) {
            findings.extend(unlabelled(file, &text));
        }
    }
    for label in in_tables.difference(&in_code) {
        findings.push(format!("{label} is in a table of pairs, but at no place in the code"));
    }
    for label in in_code.difference(&in_tables) {
        findings.push(format!("{label} stands in the code, but in no table of pairs"));
    }
    findings.extend(one_sided(&partners));
    findings
}

/// The labels of a file's comments, each with the partners that the comment names: `ORDER(a:B) pairs with c:D and e:F`,
/// `... And with g:H`.
fn pairs(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut is_open = false;
    for line in text.lines().map(str::trim_start) {
        let Some(comment) = line.strip_prefix("//").filter(|rest| !rest.starts_with(['/', '!'])) else {
            is_open = false;
            continue;
        };
        if let Some(label) = labels(comment).into_iter().next() {
            found.push((label, comment.to_owned()));
            is_open = true;
        } else if let Some((_, whole)) = found.last_mut().filter(|_| is_open) {
            whole.push_str(comment);
        }
    }
    found.into_iter().map(|(label, comment)| (label, named(&comment))).collect()
}

/// The labels behind each "with" of a comment: `with a:B`, `with a:B and c:D`, `with itself and a:B`.
fn named(comment: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in comment.split(" with ").skip(1) {
        for word in part.split_whitespace() {
            let bare = word.trim_end_matches([',', ':', '.', ';']);
            if is_label(bare) {
                found.push(bare.to_owned());
            } else if !matches!(bare, "and" | "itself") {
                break;
            }
            if word.ends_with([':', '.', ';']) {
                break;
            }
        }
    }
    found
}

/// Labels that name a partner which does not name them.
fn one_sided(partners: &BTreeMap<String, BTreeSet<String>>) -> Findings {
    let mut findings = Vec::new();
    for (label, named) in partners {
        for partner in named {
            if !partners.get(partner).is_some_and(|back| back.contains(label)) {
                findings.push(format!("{label} pairs with {partner}, whose comment does not name {label}"));
            }
        }
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
    fn partners_name_each_other() {
        let text = "// ORDER(x:A) pairs with y:B and\n// z:C: if x. And with u:D: if y.\nf();\n// not with q:Q\n\
            // ORDER(y:B) pairs with itself and x:A: if z.\n// ORDER(z:C) pairs with the rest.\n";
        let found: BTreeMap<_, BTreeSet<_>> =
            pairs(text).into_iter().map(|(label, named)| (label, named.into_iter().collect())).collect();
        assert_eq!(found["x:A"], ["u:D", "y:B", "z:C"].map(str::to_owned).into());
        assert_eq!(found["y:B"], ["x:A".to_owned()].into());
        let findings = one_sided(&found);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("u:D") && findings[1].contains("z:C"));
    }

    #[test]
    fn an_order_without_a_label_is_found() {
        assert_eq!(unlabelled("f", "a.load(Acquire);\n").len(), 1);
        assert!(unlabelled("f", "// ORDER(x:A)\na.load(Acquire);\n").is_empty());
        assert!(unlabelled("f", "use x::{Acquire, Relaxed};\na.load(Relaxed);\n").is_empty());
    }
}
