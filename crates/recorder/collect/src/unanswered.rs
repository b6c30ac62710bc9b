//! Hits before the recorder's answer, which a recording lacks if programs were attached to late, or not at all.
//!
//! A program waits for the recorder's answer for a limited time, and then continues. From its registration to the
//! answer its tracepoints are [pending](sordino_ring::area::pending): the area counts their hits, and the recorder that
//! attaches adds these counts to its own.

use serde::{Deserialize, Serialize};
use sordino_event::Ticks;
use sordino_event::text::count;
use sordino_filter::condition::Condition;
use std::collections::BTreeMap;
use std::fmt;

/// Hits of enabled tracepoints before the recorder's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unanswered {
    /// The number of hits that were counted.
    pub hits: u64,
    /// True if others may be missing: hits that depend on a condition, or after the longest pending time.
    pub uncounted: bool,
}

/// A program's unanswered hits and their span of time, in ticks of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The hits that nobody recorded.
    pub unanswered: Unanswered,
    /// The time of the program's registration.
    pub from: Ticks,
    /// The time of the session's answer.
    pub to: Ticks,
}

/// Programs that registered and were not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrecordedPrograms {
    /// The number of programs.
    pub programs: u64,
    /// The number of counted hits of tracepoints that were to be recorded.
    pub hits: u64,
    /// The number of these programs with uncounted hits.
    pub uncounted: u64,
    /// True if any number of others may have started and ended unnoticed, because the recorder's queue was full.
    #[serde(default)]
    pub unseen: bool,
}

/// Programs that were not recorded, of one user, one name and one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedPrograms {
    /// The user whom the programs run as.
    pub user: u32,
    /// The name of the programs; empty for programs that ended before it was read.
    pub name: String,
    /// The reason why they are not recorded.
    pub reason: String,
    /// The ids of their processes.
    pub pids: Vec<i32>,
}

/// Formats one line for all these programs.
impl fmt::Display for SkippedPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, name, reason, pids } = self;
        let programs = count(pids.len(), "program");
        match (name.as_str(), pids.as_slice()) {
            ("", [_]) => write!(f, "skipped a program of user {user} that has ended: {reason}"),
            ("", _) => write!(f, "skipped {programs} of user {user} that have ended: {reason}"),
            (_, [pid]) => write!(f, "skipped {name} ({pid}) of user {user}: {reason}"),
            _ => write!(f, "skipped {name} of user {user}, {programs}: {reason}"),
        }
    }
}

impl Unanswered {
    /// Returns true if anything may be missing.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Adds the counted hits of one tracepoint that a session records by `filter`.
    pub fn add(&mut self, hits: u32, filter: &Condition) {
        match filter {
            Condition::Always => {
                self.hits = self.hits.saturating_add(hits.into());
                self.uncounted |= hits == u32::MAX;
            }
            Condition::Never => {}
            Condition::Code(_) => self.uncounted |= hits > 0,
        }
    }

    /// Returns the sum of two.
    pub fn and(self, other: Self) -> Self {
        Self { hits: self.hits.saturating_add(other.hits), uncounted: self.uncounted || other.uncounted }
    }
}

/// Returns a line of text for each name of programs with unanswered hits.
pub fn unanswered_lines<'a>(programs: impl Iterator<Item = (&'a str, Unanswered)>) -> Vec<String> {
    let mut names: BTreeMap<&str, (u64, Unanswered)> = BTreeMap::new();
    for (name, unanswered) in programs.filter(|(_, unanswered)| unanswered.is_any()) {
        let (programs, sum) = names.entry(name).or_default();
        (*programs, *sum) = (*programs + 1, sum.and(unanswered));
    }
    let line = |(name, (programs, Unanswered { hits, uncounted })): (&str, (u64, Unanswered))| {
        let (programs, missing) = (count(programs, "program"), events(hits, uncounted));
        format!("{programs} of {name}: {missing} before the recorder's answer are missing")
    };
    names.into_iter().map(line).collect()
}

/// Describes a number of missing events, and possibly uncounted ones.
fn events(hits: u64, uncounted: bool) -> String {
    match (hits, uncounted) {
        (0, true) => "events that nobody counted".to_owned(),
        (hits, false) => count(hits, "event"),
        (hits, true) => format!("{} and others that nobody counted", count(hits, "event")),
    }
}

impl Lack {
    /// Returns the sum of two, over both spans of time.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            unanswered: self.unanswered.and(other.unanswered),
            from: self.from.min(other.from),
            to: self.to.max(other.to),
        }
    }
}

impl UnrecordedPrograms {
    /// Adds a program with its unanswered hits; `None` if those are unknown.
    pub fn add(&mut self, unanswered: Option<Unanswered>) {
        self.programs = self.programs.saturating_add(1);
        match unanswered {
            Some(Unanswered { hits, uncounted }) => {
                self.hits = self.hits.saturating_add(hits);
                self.uncounted += u64::from(uncounted);
            }
            None => self.uncounted += 1,
        }
    }

    /// Returns true if more may be missing than was counted.
    pub const fn is_uncounted(&self) -> bool {
        self.uncounted > 0 || self.unseen
    }

    /// Returns lines of text; none if no event is missing.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let is_missing = self.hits > 0 || self.uncounted > 0;
        let (programs, missing) = (count(self.programs, "program"), events(self.hits, self.uncounted > 0));
        let counted =
            is_missing.then(|| format!("{programs} could not be recorded, and {missing} of theirs"));
        let unseen = self.unseen.then(|| {
            "programs may be missing that ended before the recorder saw them: so many started at once that its queue was full".to_owned()
        });
        counted.into_iter().chain(unseen)
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
    fn programs_of_one_name_share_a_line() {
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
        let lines = |programs, hits, uncounted, unseen| -> Vec<String> {
            UnrecordedPrograms { programs, hits, uncounted, unseen }.lines().collect()
        };
        assert!(lines(0, 0, 0, false).is_empty() && lines(1, 0, 0, false).is_empty());
        assert_eq!(lines(2, 1, 0, false), ["2 programs could not be recorded, and 1 event of theirs"]);
        assert_eq!(
            lines(1, 5, 1, true),
            [
                "1 program could not be recorded, and 5 events and others that nobody counted of theirs",
                "programs may be missing that ended before the recorder saw them: so many started at once that its queue was full"
            ]
        );
        let mut all = UnrecordedPrograms::default();
        all.add(None);
        all.add(Some(Unanswered { hits: 4, uncounted: false }));
        assert_eq!(all, UnrecordedPrograms { programs: 2, hits: 4, uncounted: 1, unseen: false });
    }
}
