//! Terms that are gone: identifiers and file names use the replacements in `STYLE.md`.
//!
//! Prose is not checked, and neither are identifiers that are sentences, such as the names of tests.

use super::code::{Line, Source, crate_folder};
use super::ratchet::Measure;
use std::collections::{BTreeMap, BTreeSet};

/// A term that is gone.
struct Term {
    /// Name of the term in the ratchet.
    name: &'static str,
    /// Forms of the term, in lower case, as parts of an identifier.
    forms: &'static [&'static str],
    /// The term to write.
    write: &'static str,
    /// Crates in which the term is gone, as the word means another thing in others; none: in all.
    rooms: &'static [&'static str],
    /// Identifiers in which the word means another thing, and prefixes of such identifiers.
    spared: &'static [&'static str],
}

const RINGS: &[&str] = &["ring", "percpu", "probe", "probe-c"];

const TERMS: &[Term] = &[
    Term {
        name: "stamp",
        forms: &["stamp", "stamps", "stamped"],
        write: "timestamp",
        rooms: &[],
        // The kernel's name of an entry in its rings.
        spared: &["TIME_STAMP"],
    },
    Term {
        name: "meet",
        forms: &["meet", "meets", "meeting", "hello", "introduce", "introduced", "introduction"],
        write: "register, registration, discovery",
        rooms: &[],
        spared: &[],
    },
    Term {
        name: "gate",
        forms: &["gate", "gates", "gated"],
        write: "inline filter",
        rooms: &[],
        spared: &[],
    },
    Term {
        name: "turn",
        forms: &["turn", "turns"],
        write: "sub-buffer sequence number",
        rooms: &[],
        spared: &["in_turn", "is_in_turn", "set_turn", "TURN"],
    },
    Term {
        name: "leave",
        forms: &["leave", "leaves", "leaving", "cross", "crosses", "crossing"],
        write: "sub-buffer switch",
        rooms: RINGS,
        spared: &["leave_out", "thread_leave", "sordino_fiber_thread_leave"],
    },
    Term {
        name: "shape",
        forms: &["shape", "shapes", "extent", "extents"],
        write: "encoded length, record size",
        rooms: &[],
        spared: &[],
    },
    Term {
        name: "want",
        forms: &["want", "wants", "wanted"],
        write: "enabled, enable mask",
        rooms: &[],
        spared: &["is_for_want_of"],
    },
    Term {
        name: "place",
        forms: &["place", "places"],
        write: "offset",
        rooms: RINGS,
        spared: &["in_its_place"],
    },
    Term {
        name: "told",
        forms: &["told", "said", "heard", "hear", "hears"],
        write: "Observed, Reported, or the noun that it is",
        rooms: &[],
        spared: &["ends_are_told_apart"],
    },
    Term {
        name: "follower",
        forms: &["follower", "followers"],
        write: "live reader",
        rooms: &[],
        spared: &[],
    },
];

/// Names of types that are not nouns, rejected in every crate.
const NO_NOUNS: &[&str] =
    &["What", "Who", "Whose", "Kept", "Barred", "Rest", "Look", "Past", "Seen", "Told", "Said", "Heard"];
/// Number of words from which an identifier counts as a sentence.
const MOST_WORDS: usize = 4;

/// Counts the identifiers and file names with a term that is gone, each once a file.
pub(super) fn check(sources: &[Source]) -> Measure {
    let mut measure = Measure {
        name: "term",
        faults: "identifiers and file names with a term that is gone",
        remedy: "STYLE.md has the term to write",
        free: 0,
        bar: None,
        groups: BTreeMap::new(),
    };
    let mut known = BTreeSet::new();
    for source in sources {
        let (file, room) = (source.file, source.room());
        let below = file.strip_prefix("crates/").map_or(file, |below| &below[crate_folder(below).len()..]);
        let path = below.split(['/', '.']).map(|part| (1, part.to_owned()));
        for (line, name) in path.chain(identifiers(&source.lines)) {
            let Some((term, write)) = gone(room, &name) else { continue };
            if known.insert((file, name.clone())) {
                measure.add(term, format!("{file}:{line}: `{name}`: write {write}"));
            }
        }
    }
    measure
}

/// Returns the term in a name that is gone in this crate, and its replacement.
fn gone(room: &str, name: &str) -> Option<(&'static str, &'static str)> {
    if NO_NOUNS.contains(&name) {
        return Some(("no-noun", "the noun that the type is"));
    }
    let words = words(name);
    if words.len() > MOST_WORDS {
        return None;
    }
    let has = |term: &&Term| {
        let is_spared = term.spared.iter().any(|spared| name.starts_with(spared));
        let has_form = words.iter().any(|word| term.forms.contains(&word.as_str()));
        let is_gone_here = term.rooms.is_empty() || term.rooms.contains(&room);
        is_gone_here && has_form && !is_spared
    };
    TERMS.iter().find(has).map(|term| (term.name, term.write))
}

/// The identifiers of a file with their lines.
fn identifiers(lines: &[Line]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(lines) {
        let names = line.code.split(|c: char| !c.is_alphanumeric() && c != '_');
        let names = names.filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'));
        found.extend(names.map(|name| (number, name.to_owned())));
    }
    found
}

/// The words of `snake_case`, `CamelCase` and `SCREAMING_CASE`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = '_';
    for c in name.chars() {
        let begins = before == '_' || c.is_uppercase() && !before.is_uppercase();
        match words.last_mut() {
            _ if c == '_' => {}
            Some(word) if !begins => word.extend(c.to_lowercase()),
            _ => words.push(c.to_lowercase().collect()),
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::code::lines;

    #[test]
    fn names_fall_into_words() {
        assert_eq!(words("first_stamp"), ["first", "stamp"]);
        assert_eq!(words("RingStamp2"), ["ring", "stamp2"]);
        assert_eq!(words("_SORDINO_GATED"), ["sordino", "gated"]);
    }

    #[test]
    fn terms_that_are_gone_are_found_where_they_are() {
        let term = |room, name| gone(room, name).map(|(term, _)| term);
        assert_eq!(term("ring", "last_stamp"), Some("stamp"));
        assert_eq!(term("probe-c", "SORDINO_GATED"), Some("gate"));
        assert_eq!(term("collect", "HELLO"), Some("meet"));
        assert_eq!(term("cli", "What"), Some("no-noun"));
        assert_eq!(term("ring", "place"), Some("place"));
        for (room, name) in [
            ("ring", "timestamp"),
            ("collect", "place"),
            ("npt", "crossing"),
            ("collect", "is_in_turn"),
            ("ring", "a_hit_that_meets_an_answer"),
            ("cli", "what"),
            ("collect", "ends_are_told_apart"),
        ] {
            assert_eq!(term(room, name), None, "{room} {name}");
        }
    }

    #[test]
    fn prose_has_no_identifiers() {
        let found = identifiers(&lines("fn stamp(a: u64) { b(\"turn\") } // gate\n"));
        let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["fn", "stamp", "a", "u64", "b"]);
    }
}
