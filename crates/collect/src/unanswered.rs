//! Hits before the recorder's answer: what a recording lacks of programs that were taken up late, or not at all.
//!
//! A program waits for the recorder's answer a bounded time, then it goes on. From its registration to the answer its tracepoints are
//! [pending](sordino_ring::pending): the area counts their hits, and whoever takes the program up takes the counts over.

use serde::{Deserialize, Serialize};
use sordino_event::condition::Condition;
use sordino_event::text::count;
use std::collections::BTreeMap;

/// Hits that were wanted and came before the recorder's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unanswered {
    /// Those that were counted.
    pub hits: u64,
    /// Whether there may have been others: those that a condition would have decided about, or that came after too long a time.
    pub uncounted: bool,
}

/// When a program's unanswered hits were, in ticks of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) unanswered: Unanswered,
    /// When the program told recorders of its tracepoints.
    pub(crate) from: u64,
    /// When they were enabled.
    pub(crate) to: u64,
}

/// Programs that said that they were there and were not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unrecorded {
    /// How many there were.
    pub programs: u64,
    /// Their hits that were counted, as far as they were wanted.
    pub hits: u64,
    /// Those of the programs of which there may be others.
    pub uncounted: u64,
}

impl Unanswered {
    /// Whether anything may be missing.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Adds the hits of one tracepoint that its area counted, of which `filter` would have decided which are recorded.
    pub(crate) fn add(&mut self, hits: u32, filter: &Condition) {
        match filter {
            Condition::Always => {
                self.hits = self.hits.saturating_add(hits.into());
                self.uncounted |= hits == u32::MAX;
            }
            Condition::Never => {}
            Condition::Code(_) => self.uncounted |= hits > 0,
        }
    }

    /// The same and others.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { hits: self.hits.saturating_add(other.hits), uncounted: self.uncounted || other.uncounted }
    }
}

/// What is to be said of programs by their names, a line for all of one name.
pub fn unanswered_lines<'a>(programs: impl Iterator<Item = (&'a str, Unanswered)>) -> Vec<String> {
    let mut names: BTreeMap<&str, (u64, Unanswered)> = BTreeMap::new();
    for (name, unanswered) in programs.filter(|(_, unanswered)| unanswered.is_any()) {
        let (programs, sum) = names.entry(name).or_default();
        (*programs, *sum) = (*programs + 1, sum.and(unanswered));
    }
    let line = |(name, (programs, Unanswered { hits, uncounted })): (&str, (u64, Unanswered))| {
        let missing = match (hits, uncounted) {
            (0, _) => "events that nobody counted".to_owned(),
            (hits, false) => count(hits, "event"),
            (hits, true) => format!("{} and others that nobody counted", count(hits, "event")),
        };
        format!(
            "{} of {name}: {missing} before the recorder's answer are missing",
            count(programs, "program")
        )
    };
    names.into_iter().map(line).collect()
}

impl Lack {
    /// The same and another one, in one.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            unanswered: self.unanswered.and(other.unanswered),
            from: self.from.min(other.from),
            to: self.to.max(other.to),
        }
    }
}

impl Unrecorded {
    /// Whether there were any.
    pub fn is_any(&self) -> bool {
        self.programs > 0
    }

    /// Counts a program with what is known of its hits; `None` if nothing is.
    pub(crate) fn add(&mut self, unanswered: Option<Unanswered>) {
        self.programs = self.programs.saturating_add(1);
        match unanswered {
            Some(Unanswered { hits, uncounted }) => {
                self.hits = self.hits.saturating_add(hits);
                self.uncounted += u64::from(uncounted);
            }
            None => self.uncounted += 1,
        }
    }

    /// What is to be said of them; nothing if they hit nothing that was wanted.
    pub fn line(&self) -> Option<String> {
        let missing = match (self.hits, self.uncounted) {
            (0, 0) => return None,
            (hits, 0) => count(hits, "event"),
            (0, _) => "events that nobody counted".to_owned(),
            (hits, _) => format!("{} and others that nobody counted", count(hits, "event")),
        };
        Some(format!("{} could not be recorded, and {missing} of theirs", count(self.programs, "program")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_s_hits_are_not_counted_and_unwanted_ones_are_not_missing() {
        let mut unanswered = Unanswered::default();
        unanswered.add(7, &Condition::Never);
        assert!(!unanswered.is_any());
        unanswered.add(3, &Condition::Always);
        assert_eq!(unanswered, Unanswered { hits: 3, uncounted: false });
        unanswered.add(0, &Condition::Code(Vec::new()));
        assert!(!unanswered.uncounted);
        unanswered.add(1, &Condition::Code(Vec::new()));
        assert_eq!(unanswered, Unanswered { hits: 3, uncounted: true });
        let mut full = Unanswered::default();
        full.add(u32::MAX, &Condition::Always);
        assert_eq!(full, Unanswered { hits: u32::MAX.into(), uncounted: true });
    }

    #[test]
    fn programs_of_one_name_are_told_of_in_a_line() {
        let some = |hits, uncounted| Unanswered { hits, uncounted };
        let programs =
            [("b", some(2, false)), ("a", some(0, false)), ("b", some(3, false)), ("c", some(0, true))];
        assert_eq!(
            unanswered_lines(programs.into_iter()),
            [
                "2 programs of b: 5 events before the recorder's answer are missing",
                "1 program of c: events that nobody counted before the recorder's answer are missing"
            ]
        );
    }

    #[test]
    fn programs_that_were_not_recorded_are_summed_up_in_a_line() {
        let line = |programs, hits, uncounted| Unrecorded { programs, hits, uncounted }.line();
        assert_eq!([line(0, 0, 0), line(1, 0, 0)], [None, None]);
        assert_eq!(line(2, 1, 0).unwrap(), "2 programs could not be recorded, and 1 event of theirs");
        assert_eq!(
            line(1, 5, 1).unwrap(),
            "1 program could not be recorded, and 5 events and others that nobody counted of theirs"
        );
        let mut all = Unrecorded::default();
        all.add(None);
        all.add(Some(Unanswered { hits: 4, uncounted: false }));
        assert_eq!(all, Unrecorded { programs: 2, hits: 4, uncounted: 1 });
    }
}
