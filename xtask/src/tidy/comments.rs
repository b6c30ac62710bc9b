//! Comments that `STYLE.md` rejects: too short to add anything, a clause in place of a noun, a reason that is
//! elsewhere.

use super::code::{Doc, Source, docs, remarks};
use super::ratchet::{Bar, Measure};
use std::collections::BTreeMap;

/// Least number of words in a doc comment; a shorter one repeats the name.
const FEWEST_WORDS: usize = 4;
/// First words of clauses that stand for a noun.
const CLAUSES: &[&str] =
    &["What", "How", "Whether", "Where", "Which", "Who", "Whose", "Of", "As", "Those", "Its"];
/// First words of a `SAFETY` comment that refers to another one for its reason.
const ELSEWHERE: &[&str] =
    &["as above", "as at ", "as for ", "as in ", "as there", "likewise", "same as", "see ", "the same"];
/// Words of such a reference anywhere in the comment.
const ELSEWHERE_INSIDE: &[&str] = &["as above", "as for `", "as in `", "likewise"];

/// Counts doc comments of fewer than four words.
pub(super) fn short(sources: &[Source]) -> Measure {
    let mut measure = Measure {
        name: "short-docs",
        faults: "doc comments of fewer than four words",
        remedy: "say what the item is, its unit, its range; or make it private and delete the comment",
        free: 0,
        bar: None,
        groups: BTreeMap::new(),
    };
    each(sources, &mut measure, is_short);
    measure
}

/// Counts doc comments that begin with a clause.
pub(super) fn clauses(sources: &[Source]) -> Measure {
    let mut measure = Measure {
        name: "clause-docs",
        faults: "doc comments that begin with What, How, Whether, Where, Which, Who, Whose, Of, As, Those or Its",
        remedy: "begin with the noun that the item is, or with a verb (Returns, Opens)",
        free: 0,
        bar: None,
        groups: BTreeMap::new(),
    };
    let all = each(sources, &mut measure, begins_with_clause);
    measure.bar = Some(Bar { percent: 8, all });
    measure
}

/// Counts `SAFETY` comments that refer to another one for their reason.
pub(super) fn safety(sources: &[Source]) -> Measure {
    let mut measure = Measure {
        name: "safety-elsewhere",
        faults: "SAFETY comments that refer to another one for the reason",
        remedy: "write the reason out: which condition holds here, and who checked it",
        free: 0,
        bar: None,
        groups: BTreeMap::new(),
    };
    let mut all = 0;
    for source in sources.iter().filter(|source| source.is_rust()) {
        for remark in remarks(&source.lines) {
            let Some(reason) = reason(&remark) else { continue };
            all += 1;
            if is_elsewhere(&reason) {
                measure.add(source.room(), format!("{}:{}: SAFETY: {reason}", source.file, remark.line));
            }
        }
    }
    measure.bar = Some(Bar { percent: 5, all });
    measure
}

/// Adds the doc comments that have a fault; returns the number of all.
fn each(sources: &[Source], measure: &mut Measure, has_fault: impl Fn(&Doc) -> bool) -> usize {
    let mut all = 0;
    for source in sources.iter().filter(|source| source.is_rust()) {
        let docs = docs(&source.lines);
        all += docs.len();
        for doc in docs.iter().filter(|doc| has_fault(doc)) {
            let first: Vec<&str> = doc.words().take(10).collect();
            measure.add(source.room(), format!("{}:{}: {}", source.file, doc.line, first.join(" ")));
        }
    }
    all
}

/// Returns true for fewer than four words. A block that consists of code alone, such as a struct of the kernel's
/// headers, is exempt: that name is the reference.
fn is_short(doc: &Doc) -> bool {
    let is_code = doc.lines.len() == 1
        && doc.lines[0]
            .trim()
            .trim_end_matches('.')
            .strip_prefix('`')
            .is_some_and(|code| code.ends_with('`'));
    doc.words().count() < FEWEST_WORDS && !is_code
}

fn begins_with_clause(doc: &Doc) -> bool {
    let first = doc.words().next().unwrap_or_default();
    CLAUSES.contains(&first.trim_end_matches(|c: char| !c.is_alphabetic()))
}

/// The text behind `SAFETY:`, on one line.
fn reason(remark: &Doc) -> Option<String> {
    let text = remark.words().collect::<Vec<_>>().join(" ");
    text.split_once("SAFETY:").map(|(_, reason)| reason.trim().to_owned())
}

fn is_elsewhere(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    ELSEWHERE.iter().any(|words| reason.starts_with(words))
        || ELSEWHERE_INSIDE.iter().any(|words| reason.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doc(text: &str) -> Doc<'_> {
        Doc { line: 1, lines: text.lines().collect() }
    }

    #[test]
    fn fewer_than_four_words_are_short_unless_they_are_code() {
        for short in [
            " Zero.",
            " The thread.",
            " All of them",
            " See [`super::publish`].",
            " `None`: the trace's.",
            "",
        ] {
            assert!(is_short(&doc(short)), "{short}");
        }
        for fine in [" One past the last.", " `struct uffdio_register`.", " Lines\n of two\n blocks"] {
            assert!(!is_short(&doc(fine)), "{fine}");
        }
    }

    #[test]
    fn clauses_are_told_by_their_first_word() {
        for clause in [" Whether the ring is full.", " What: the name", "\n Of a CPU's ring: the head."] {
            assert!(begins_with_clause(&doc(clause)), "{clause}");
        }
        for noun in [" Returns what is there.", " Offset of the head", " Assembly for a vfork", " Howto"] {
            assert!(!begins_with_clause(&doc(noun)), "{noun}");
        }
    }

    #[test]
    fn a_reason_that_stands_elsewhere_is_found() {
        let is_found = |text: &str| reason(&doc(text)).is_some_and(|reason| is_elsewhere(&reason));
        for elsewhere in [
            " SAFETY: as in `write`.",
            " SAFETY: Likewise.",
            " SAFETY: see `publish`",
            " SAFETY: inside the pool; aligned, as\n above.",
        ] {
            assert!(is_found(elsewhere), "{elsewhere}");
        }
        for whole in [
            " SAFETY: `offset + size <= data_len`, checked above.",
            " SAFETY: as long as the area is mapped, nobody seeks behind it.",
            " SAFETY: the child writes it, which the compiler does not see.",
            " likewise",
        ] {
            assert!(!is_found(whole), "{whole}");
        }
    }
}
