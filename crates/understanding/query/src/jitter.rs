//! The regularity of an event that should come at equal intervals.

use crate::finder::{OfRule, SpanFinder};
use crate::span::{FoundSpan, Regularity};
use foldhash::HashMap;
use sordino_event::{Loss, Nanos, Tid, Time};
use sordino_timeline::Moment;
use std::collections::BTreeMap;

/// The number of periods of a thread that are kept to find the usual one.
const KEPT: usize = 1024;
/// The share of the usual period by which a late period is longer: a tenth.
const LATE: i64 = 10;

/// The usual periods of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Periods {
    /// The period of all threads, if it is given.
    every: Option<Nanos>,
    by_thread: BTreeMap<Tid, Nanos>,
}

impl Periods {
    /// Creates the period of all threads.
    pub fn every(period: Nanos) -> Self {
        Self { every: Some(period), by_thread: BTreeMap::new() }
    }

    fn of(&self, tid: Tid) -> Option<Nanos> {
        self.every.or_else(|| self.by_thread.get(&tid).copied())
    }
}

/// The first pass of a measure of regularity: the median of each thread's periods.
///
/// Of more than 1,024 periods, each second, fourth and so on counts, over the whole trace.
#[derive(Debug, Default)]
pub struct PeriodSample {
    threads: HashMap<Tid, ThreadPeriods>,
}

#[derive(Debug)]
struct ThreadPeriods {
    periods: Vec<Nanos>,
    /// The distance between two periods that are kept, in periods.
    stride: u64,
    seen: u64,
}

impl PeriodSample {
    /// Adds a period of a thread.
    pub fn add(&mut self, tid: Tid, period: Nanos) {
        let new = || ThreadPeriods { periods: Vec::new(), stride: 1, seen: 0 };
        let sample = self.threads.entry(tid).or_insert_with(new);
        if sample.seen.is_multiple_of(sample.stride) {
            if sample.periods.len() == KEPT {
                let mut number = 0;
                sample.periods.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                sample.stride *= 2;
            }
            if sample.seen.is_multiple_of(sample.stride) {
                sample.periods.push(period);
            }
        }
        sample.seen += 1;
    }

    /// Returns the median of each thread's periods; of an even number, the lower one.
    pub fn finish(self) -> Periods {
        let median = |(tid, mut sample): (Tid, ThreadPeriods)| {
            let middle = sample.periods.len().checked_sub(1)? / 2;
            Some((tid, *sample.periods.select_nth_unstable(middle).1))
        };
        Periods { every: None, by_thread: self.threads.into_iter().filter_map(median).collect() }
    }
}

/// The finder of the periods of an event, with their regularity.
#[derive(Debug)]
pub(crate) struct Jitter {
    periods: Periods,
    intervals: OfRule,
    /// The number of consecutive late periods of each thread, up to its last one.
    late: HashMap<Tid, u64>,
}

impl Jitter {
    pub(crate) fn new(periods: Periods, intervals: OfRule) -> Self {
        Self { periods, intervals, late: HashMap::default() }
    }
}

impl SpanFinder for Jitter {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let first = found.len();
        self.intervals.take(moment, found);
        for found in &mut found[first..] {
            let FoundSpan::Whole(span) = found else {
                moment.tid.into_iter().for_each(|tid| _ = self.late.remove(&tid));
                continue;
            };
            let usual = span.tid.and_then(|tid| Some((tid, self.periods.of(tid)?)));
            let Some((tid, usual)) = usual else {
                *found = FoundSpan::Broken;
                continue;
            };
            let run = self.late.entry(tid).or_default();
            let (deviation, missed, is_late) = judge(span.length(), usual);
            *run = if is_late { *run + 1 } else { 0 };
            span.regularity = Some(Regularity { deviation, missed, late: *run });
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        self.intervals.lose(loss, found);
    }

    fn finish(&mut self, end: Time, found: &mut Vec<FoundSpan>) -> u64 {
        self.intervals.finish(end, found)
    }
}

/// Returns the deviation of a period from the usual one, the number of events that are missing in it, and true if it is
/// late. If events are missing in the period, its deviation is that from the nearest multiple.
fn judge(period: Nanos, usual: Nanos) -> (Nanos, u64, bool) {
    let usual = usual.0.max(1);
    let whole = (period.0.saturating_add(usual / 2) / usual).max(1);
    let deviation = period.0.saturating_sub(whole.saturating_mul(usual)).saturating_abs();
    let is_late = period.0.saturating_sub(usual) > usual / LATE;
    (Nanos(deviation), (whole - 1).cast_unsigned(), is_late)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_period_is_judged_by_the_nearest_multiple_of_the_usual_one() {
        let all = [(1000, 0, 0, false), (1099, 99, 0, false), (1101, 101, 0, true), (900, 100, 0, false)];
        for (period, deviation, missed, is_late) in
            all.into_iter().chain([(2000, 0, 1, true), (3600, 400, 3, true)])
        {
            assert_eq!(judge(Nanos(period), Nanos(1000)), (Nanos(deviation), missed, is_late), "{period}");
        }
    }

    proptest! {
        #[test]
        fn the_usual_period_is_the_median_of_few_and_near_it_of_many(periods in prop::collection::vec(1_i64..1_000_000, 1..6000)) {
            let mut sample = PeriodSample::default();
            periods.iter().for_each(|period| sample.add(Tid(1), Nanos(*period)));
            let usual = sample.finish().of(Tid(1)).unwrap();
            let mut sorted = periods.clone();
            sorted.sort_unstable();
            if periods.len() <= KEPT {
                prop_assert_eq!(usual.0, sorted[(sorted.len() - 1) / 2]);
            } else {
                let below = sorted.iter().filter(|period| **period < usual.0).count();
                let share = below as f64 / sorted.len() as f64;
                prop_assert!((0.35..0.65).contains(&share), "{share}");
            }
        }
    }
}
