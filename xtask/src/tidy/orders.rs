//! Memory orders: a label names one place in the code, and the comments name the pairs of the tables.
//!
//! A label is `ORDER(name:X)` in a comment, which names its partners, `pairs with itself, name:Y and name:Z:`, and
//! theirs name it. A table's row is `| `name:X` ... | `name:Y`, `name:Z` ... | guarantee |` in the documentation of a
//! module; `itself` is a partner, too.

use super::{Findings, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// Orders that are stronger than relaxed.
const STRONG: &[&str] = &["Acquire", "Release", "AcqRel", "SeqCst"];
/// Folders in which every stronger order needs a label.
const LABELLED: &[&str] = &["crates/recording/ring/src/", "crates/recording/probe/src/"];
/// Folders that also have partners of labels there.
const PARTNERS: &[&str] = &["crates/recorder/collect/src/"];
/// The labels that `scripts/loom all` weakens in the models of a folder.
const WEAKENED: (&str, &str) = ("crates/recording/ring/tests/orders.txt", "crates/recording/ring/src/");

/// Two labels that pair, the lesser first.
type Pair = (String, String);

pub(super) fn check(tree: &Tree) -> Findings {
    let mut in_tables = BTreeSet::new();
    let mut sites = Vec::new();
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&["rs"]) {
        let is_in = |folders: &[&str]| folders.iter().any(|folder| file.starts_with(folder));
        if is_in(LABELLED) || is_in(PARTNERS) {
            in_tables.extend(text.lines().filter(|line| line.starts_with("//! |")).flat_map(pairs_of_row));
            sites.extend(sites_of(file, &text));
        }
        if is_in(LABELLED) {
            findings.extend(unlabelled(file, &text));
        }
    }
    findings.extend(repeated(&sites));
    findings.extend(one_sided(&sites));
    findings.extend(differences(&in_tables, &sites));
    findings.extend(untried(&tree.read(WEAKENED.0), &sites));
    findings
}

/// A place that a label names, with the labels that its comment calls partners: `ORDER(a:B) pairs with c:D and e:F`,
/// `... And with g:H`.
struct Site {
    place: String,
    label: String,
    partners: BTreeSet<String>,
}

/// The places of a file that have labels.
fn sites_of(file: &str, text: &str) -> Vec<Site> {
    let mut found: Vec<(usize, String, String)> = Vec::new();
    let mut is_open = false;
    for (number, line) in text.lines().map(str::trim_start).enumerate() {
        let Some(comment) = line.strip_prefix("//").filter(|rest| !rest.starts_with(['/', '!'])) else {
            is_open = false;
            continue;
        };
        if let Some(label) = label(comment) {
            found.push((number + 1, label.to_owned(), comment.to_owned()));
            is_open = true;
        } else if let Some((.., whole)) = found.last_mut().filter(|_| is_open) {
            whole.push_str(comment);
        }
    }
    let site = |(number, label, comment): (usize, String, String)| Site {
        place: format!("{file}:{number}"),
        partners: named(&label, &comment),
        label,
    };
    found.into_iter().map(site).collect()
}

/// The labels behind each "with" in the comment of `label`: `with a:B`, `with itself, a:B and c:D`.
fn named(label: &str, comment: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in comment.split(" with ").skip(1) {
        for word in part.split_whitespace() {
            let bare = word.trim_end_matches([',', ':', '.', ';']);
            match bare {
                "and" => {}
                "itself" => found.extend([label.to_owned()]),
                _ if is_label(bare) => found.extend([bare.to_owned()]),
                _ => break,
            }
            if word.ends_with([':', '.', ';']) {
                break;
            }
        }
    }
    found
}

/// Labels that name several places.
fn repeated(sites: &[Site]) -> Findings {
    let mut first = BTreeMap::new();
    let mut findings = Vec::new();
    for site in sites {
        let place = *first.entry(&site.label).or_insert(&site.place);
        if place != &site.place {
            findings.push(format!("{}: {} already names {place}", site.place, site.label));
        }
    }
    findings
}

/// Labels that name a partner which does not name them.
fn one_sided(sites: &[Site]) -> Findings {
    let names = |partner: &str, label: &str| {
        sites.iter().any(|site| site.label == partner && site.partners.contains(label))
    };
    let mut findings = Vec::new();
    for Site { place, label, partners } in sites {
        let one_sided = partners.iter().filter(|partner| !names(partner, label));
        findings.extend(one_sided.map(|partner| {
            format!("{place}: {label} pairs with {partner}, whose comment does not name {label}")
        }));
    }
    findings
}

/// Pairs that only the tables have, or only the comments.
fn differences(in_tables: &BTreeSet<Pair>, sites: &[Site]) -> Findings {
    let pairs =
        |site: &Site| site.partners.iter().map(|partner| pair(&site.label, partner)).collect::<Vec<_>>();
    let in_code: BTreeSet<Pair> = sites.iter().flat_map(pairs).collect();
    let text =
        |(one, other): &Pair, where_to: &str| format!("the pair of {one} and {other} is in {where_to}");
    let only_tables = in_tables.difference(&in_code).map(|pair| text(pair, "a table, but in no comment"));
    let only_code = in_code.difference(in_tables).map(|pair| text(pair, "a comment, but in no table"));
    only_tables.chain(only_code).collect()
}

/// Labels of the models' folder that the list of weakened orders lacks, and labels of the list that name no place.
fn untried(list: &str, sites: &[Site]) -> Findings {
    let rows = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let tried: BTreeSet<&str> = rows.filter_map(|row| row.split('|').next()).map(str::trim).collect();
    let modelled = sites.iter().filter(|site| site.place.starts_with(WEAKENED.1));
    let modelled: BTreeSet<&str> = modelled.map(|site| site.label.as_str()).collect();
    let missing = modelled.difference(&tried).map(|label| format!("{}: {label} has no row", WEAKENED.0));
    let gone = tried.difference(&modelled).map(|label| format!("{}: {label} names no place", WEAKENED.0));
    missing.chain(gone).collect()
}

fn pair(one: &str, other: &str) -> Pair {
    (one.min(other).to_owned(), one.max(other).to_owned())
}

/// The label of a comment's line: `ORDER(a:B)`.
fn label(line: &str) -> Option<&str> {
    line.split_once("ORDER(")?.1.split_once(')').map(|(label, _)| label)
}

/// The pairs of a table's row: each label of the first cell with each of the second.
fn pairs_of_row(line: &str) -> Vec<Pair> {
    let mut cells = line.split('|').skip(1);
    let (Some(one), Some(other)) = (cells.next(), cells.next()) else { return Vec::new() };
    let labels = |cell| str::split(cell, '`').skip(1).step_by(2).filter(|word| is_label(word));
    let itself = other.trim() == "itself";
    let partners = |label| labels(other).chain(itself.then_some(label));
    labels(one).flat_map(|label| partners(label).map(move |partner| pair(label, partner))).collect()
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
    fn rows_have_the_pairs_of_both_cells() {
        let row = "//! | `write:A` and `write:B`, the stores | `read:A` | who sees `x:Y` |";
        assert_eq!(pairs_of_row(row), [pair("write:A", "read:A"), pair("read:A", "write:B")]);
        assert_eq!(pairs_of_row("//! | `x:A`, a change | itself | z |"), [pair("x:A", "x:A")]);
        assert!(pairs_of_row("//! | label | partner | guarantee |").is_empty());
        assert_eq!(label("// ORDER(write:A) pairs with read:A. x"), Some("write:A"));
    }

    #[test]
    fn partners_name_each_other() {
        let text = "// ORDER(x:A) pairs with y:B and\n// z:C: if x. And with u:D: if y.\nf();\n// not with q:Q\n\
            // ORDER(y:B) pairs with itself and x:A: if z.\n// ORDER(z:C) pairs with the rest.\n";
        let sites = sites_of("f", text);
        let partners = |label: &str| &sites.iter().find(|site| site.label == label).unwrap().partners;
        assert_eq!(*partners("x:A"), ["u:D", "y:B", "z:C"].map(str::to_owned).into());
        assert_eq!(*partners("y:B"), ["x:A", "y:B"].map(str::to_owned).into());
        let findings = one_sided(&sites);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("f:1") && findings[0].contains("u:D") && findings[1].contains("z:C"));
    }

    #[test]
    fn a_label_names_one_place() {
        let sites =
            sites_of("f", "// ORDER(x:A) pairs with y:B.\na();\n// ORDER(x:A) pairs with y:B.\nb();\n");
        assert_eq!(repeated(&sites), ["f:3: x:A already names f:1"]);
    }

    #[test]
    fn pairs_of_tables_and_comments_are_the_same() {
        let sites =
            sites_of("f", "// ORDER(x:A) pairs with y:B: z.\na();\n// ORDER(y:B) pairs with x:A: z.\n");
        let row = |row| pairs_of_row(row).into_iter().collect();
        assert!(differences(&row("//! | `y:B` | `x:A` | z |"), &sites).is_empty());
        let findings = differences(&row("//! | `y:B` | `x:C` | z |"), &sites);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("x:C") && findings[1].contains("x:A"));
    }

    #[test]
    fn each_label_of_the_models_has_a_row_of_weakened_orders() {
        let sites = sites_of("crates/recording/ring/src/f.rs", "// ORDER(x:A) pairs with x:B: z.\na();\n");
        assert!(untried("# x\n\nx:A | - | why\n", &sites).is_empty());
        assert_eq!(untried("x:B | f | a | b | c\n", &sites).len(), 2);
    }

    #[test]
    fn an_order_without_a_label_is_found() {
        assert_eq!(unlabelled("f", "a.load(Acquire);\n").len(), 1);
        assert!(unlabelled("f", "// ORDER(x:A)\na.load(Acquire);\n").is_empty());
        assert!(unlabelled("f", "use x::{Acquire, Relaxed};\na.load(Relaxed);\n").is_empty());
    }
}
