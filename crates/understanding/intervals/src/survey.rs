//! The intervals of a trace: their statistics, and the longest ones.

use crate::ends::{EndFields, FieldNames};
use crate::interval::Interval;
use crate::route::Routes;
use crate::{IntervalRule, number};
use serde::Serialize;
use sordino_event::Nanos;
use sordino_lengths::{LengthDistribution, Lengths, Statistics};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Occurrences that do not make an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unpaired {
    /// Begins without an end: replaced by another begin, still open at the end of the trace, or dropped because there
    /// were more than a million of them at a time.
    pub begins: u64,
    /// Ends without a begin.
    pub ends: u64,
    /// Events without the thread, CPU or field that pairs them.
    pub without_key: u64,
    /// Pairs without a thread at either end.
    pub without_thread: u64,
}

/// Pairs between which records of their own program are missing: they may be several intervals in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The number of these pairs; they are counted nowhere else.
    pub count: u64,
    /// The length of the longest.
    #[serde(rename = "longest_ns", serialize_with = "number::span")]
    pub longest: Nanos,
}

/// The result of the first pass over a trace: the intervals.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The name of the intervals: their rule as text, or the name of the measure that found them.
    pub title: String,
    /// The rule that selects them; `None` if another measure found them.
    pub rule: Option<IntervalRule>,
    /// The statistics of all intervals' lengths.
    pub statistics: Statistics,
    /// The distribution of all intervals' lengths, and their course over time.
    pub distribution: LengthDistribution,
    /// The longest 100,000 of them, longest first; of equal ones the earlier first.
    pub longest: Vec<Interval>,
    /// A sample of at most 1,000 intervals, each as likely as any other: usual times are derived from it.
    pub sample: Vec<Interval>,
    /// The routes of some of them from thread to thread.
    pub(crate) routes: Routes,
    /// The names of the fields of the events that begin and end intervals.
    pub(crate) names: (FieldNames, FieldNames),
    /// The begins and ends that do not make an interval.
    pub unpaired: Unpaired,
    /// The pairs that may be several intervals.
    pub broken: Broken,
}

impl Survey {
    /// Returns a collection for the fields of the events at the ends of its intervals.
    pub fn end_fields(&self) -> EndFields {
        EndFields::new(self.names.0.clone(), self.names.1.clone())
    }

    /// Returns the stages of one of the intervals, with the names of the events at their ends; empty if no event shows
    /// any.
    pub fn stages(&self, interval: &Interval) -> Vec<([Arc<str>; 2], Interval)> {
        let rule = self.rule.as_ref();
        rule.map_or(Vec::new(), |rule| self.routes.stages(interval, [&rule.begin.event, &rule.end.event]))
    }
}

/// A builder of a survey of intervals that no rule selects.
#[derive(Debug)]
pub struct SurveyBuilder {
    title: String,
    tally: IntervalStatistics,
    broken: Broken,
}

impl SurveyBuilder {
    /// Creates a survey without intervals, with the name of those to come.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), tally: IntervalStatistics::new(KEEP), broken: Broken::default() }
    }

    /// Adds an interval without missing records.
    pub fn add(&mut self, interval: Interval) {
        self.tally.add(interval);
    }

    /// Counts an interval with missing records.
    pub fn add_broken(&mut self) {
        self.broken.count += 1;
    }

    /// Returns the survey of the intervals that were added.
    pub fn finish(self) -> Survey {
        let (statistics, distribution) = (self.tally.statistics(), self.tally.distribution());
        let (longest, sample) = self.tally.finish();
        Survey {
            title: self.title,
            rule: None,
            statistics,
            distribution,
            longest,
            sample,
            routes: Routes::default(),
            names: Default::default(),
            unpaired: Unpaired::default(),
            broken: self.broken,
        }
    }
}

/// The maximum number of intervals that are kept, the longest ones. Each takes 72 bytes.
pub(crate) const KEEP: usize = 100_000;

/// Statistics of intervals, computed in bounded memory.
#[derive(Debug)]
pub(crate) struct IntervalStatistics {
    lengths: Lengths,
    /// The longest intervals, with the shortest of them on top.
    longest: BinaryHeap<Reverse<(Nanos, Reverse<Interval>)>>,
    keep: usize,
    sample: Reservoir,
}

/// The maximum number of intervals in a sample.
const SAMPLED: usize = 1000;

/// A sample of intervals whose number is not known in advance: Vitter's algorithm R (1985). The same trace yields the
/// same sample.
#[derive(Debug)]
struct Reservoir {
    kept: Vec<Interval>,
    seen: u64,
    random: fastrand::Rng,
}

impl Default for Reservoir {
    fn default() -> Self {
        Self { kept: Vec::new(), seen: 0, random: fastrand::Rng::with_seed(1) }
    }
}

impl Reservoir {
    fn add(&mut self, interval: &Interval) {
        self.seen += 1;
        if self.kept.len() < SAMPLED {
            self.kept.push(interval.clone());
            return;
        }
        let place = self.random.u64(..self.seen);
        if let Some(kept) = usize::try_from(place).ok().and_then(|place| self.kept.get_mut(place)) {
            kept.clone_from(interval);
        }
    }
}

impl IntervalStatistics {
    /// Creates statistics that keep the `keep` longest intervals.
    pub(crate) fn new(keep: usize) -> Self {
        Self { lengths: Lengths::default(), longest: BinaryHeap::new(), keep, sample: Reservoir::default() }
    }

    pub(crate) fn add(&mut self, interval: Interval) {
        let length = interval.length();
        self.lengths.add(interval.end, length);
        self.sample.add(&interval);
        let full = self.longest.len() == self.keep;
        let entry = Reverse((length, Reverse(interval)));
        if !full {
            self.longest.push(entry);
        } else if let Some(mut shortest) = self.longest.peek_mut()
            && entry < *shortest
        {
            *shortest = entry;
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.lengths.statistics()
    }

    pub(crate) fn distribution(&self) -> LengthDistribution {
        self.lengths.distribution()
    }

    /// Returns the longest intervals, longest first, and a sample of all.
    pub(crate) fn finish(self) -> (Vec<Interval>, Vec<Interval>) {
        let sorted = self.longest.into_sorted_vec();
        let longest = sorted.into_iter().map(|Reverse((_, Reverse(interval)))| interval).collect();
        (longest, self.sample.kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::{Tid, Time};

    fn interval(begin: i64, length: i64) -> Interval {
        let (begin, end) = (Time(begin), Time(begin + length));
        Interval {
            begin,
            end,
            tid: Tid(1),
            pid: None,
            begin_cpu: None,
            end_cpu: None,
            fiber: None,
            overhead: Nanos::ZERO,
        }
    }

    #[test]
    fn the_longest_are_kept_and_of_equal_ones_the_earlier() {
        let mut tally = IntervalStatistics::new(3);
        for (begin, length) in [(0, 5), (10, 9), (20, 7), (30, 7), (40, 1), (5, 7)] {
            tally.add(interval(begin, length));
        }
        let kept: Vec<_> = tally.finish().0.iter().map(|kept| (kept.begin.0, kept.length().0)).collect();
        assert_eq!(kept, [(10, 9), (5, 7), (20, 7)]);
    }

    #[test]
    fn a_sample_is_all_of_a_few_and_a_fair_part_of_many() {
        let mut few = IntervalStatistics::new(1);
        (0..5).for_each(|begin| few.add(interval(begin, 1)));
        assert_eq!(few.finish().1.len(), 5);
        let mut many = IntervalStatistics::new(1);
        (0..100_000).for_each(|begin| many.add(interval(begin, 1)));
        let sample = many.finish().1;
        let early = sample.iter().filter(|interval| interval.begin.0 < 50_000).count();
        assert!(sample.len() == SAMPLED && (400..600).contains(&early), "{early}");
    }

    #[test]
    fn no_intervals_and_absurd_ones_have_statistics() {
        assert_eq!(IntervalStatistics::new(1).statistics(), Statistics::default());
        let mut tally = IntervalStatistics::new(0);
        tally.add(Interval { begin: Time::MIN, end: Time::MAX, ..interval(0, 0) });
        assert_eq!(tally.statistics().median, Nanos(i64::MAX));
        assert!(tally.finish().0.is_empty());
    }
}
