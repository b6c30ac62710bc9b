//! The ranking of causes over all intervals.

use crate::cause::Cause;
use crate::entry_cost::{Charged, share};
use crate::findings::{Explanation, Ranked};
use crate::usual::{Interruption, Usual};
use sordino_event::Nanos;
use sordino_timeline::ThreadOrFiber;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The sum of explanations by cause.
#[derive(Debug, Default)]
pub(crate) struct CauseRanking {
    /// The added intervals, each with its thread or fiber; those of a constant loop without the interruption.
    intervals: Vec<(ThreadOrFiber, Interruption)>,
    /// The sum of each cause, and its times in the intervals.
    by_cause: BTreeMap<Cause, (Ranked, Vec<Spent>)>,
}

/// The time of a cause in one interval; `entry` is the estimated part of it.
#[derive(Debug)]
struct Spent {
    interval: usize,
    time: Nanos,
    entry: Nanos,
}

impl CauseRanking {
    /// Adds an interval. The own code of a constant loop is left out, as it takes its usual time.
    pub(crate) fn add(&mut self, explanation: &Explanation, is_constant: bool) {
        let interval = self.intervals.len();
        let interruption =
            if is_constant { Interruption::default() } else { Interruption::of(&explanation.parts) };
        self.intervals.push((explanation.interval.owner(), interruption));
        let mut of_interval: BTreeMap<Cause, (Ranked, Nanos)> = BTreeMap::new();
        for part in explanation.parts.iter().filter(|part| !(is_constant && part.cause == Cause::Own)) {
            let one = Ranked {
                cause: part.cause.in_general(),
                time: part.time,
                excess: Nanos::ZERO,
                count: part.count,
                intervals: 1,
                longest: part.longest,
                longest_at: explanation.interval.begin,
            };
            match of_interval.get_mut(&one.cause) {
                // A cause counts once in the same interval.
                Some((sum, entry)) => {
                    sum.join(&Ranked { intervals: 0, ..one });
                    *entry += part.entry;
                }
                None => {
                    of_interval.insert(one.cause.clone(), (one, part.entry));
                }
            }
        }
        for (cause, (one, entry)) in of_interval {
            let spent = Spent { interval, time: one.time, entry };
            match self.by_cause.get_mut(&cause) {
                Some((sum, times)) => {
                    times.push(spent);
                    sum.join(&one);
                }
                None => {
                    self.by_cause.insert(cause, (one, vec![spent]));
                }
            }
        }
    }

    /// Returns the number of intervals that were added.
    pub(crate) fn intervals(&self) -> u64 {
        self.intervals.len() as u64
    }

    /// Returns the causes, the one with the largest excess over its usual time first, or the one with the longest time
    /// where usual times are not known.
    pub(crate) fn finish(self, usual: &Usual) -> Vec<Ranked> {
        let with_error = |(owner, interruption): &(ThreadOrFiber, Interruption)| {
            let charged = usual.charged(*owner, *interruption);
            (*owner, charged.map_or(Nanos::ZERO, Charged::error), interruption.entry)
        };
        let intervals: Vec<_> = self.intervals.iter().map(with_error).collect();
        let all = self.by_cause.into_values().filter(|(ranked, _)| ranked.time > Nanos::ZERO);
        let excess = |(mut ranked, times): (Ranked, Vec<Spent>)| {
            for Spent { interval, time, entry } in times {
                let (owner, error, all) = intervals[interval];
                let more = share(error, if ranked.cause.is_own_code() { Nanos(-all.0) } else { entry }, all);
                ranked.time += more;
                ranked.excess += usual.excess(owner, &ranked.cause, time + more);
            }
            ranked
        };
        let mut ranking: Vec<_> = all.map(excess).collect();
        ranking.sort_by_key(|ranked| Reverse((ranked.excess, ranked.time)));
        ranking
    }
}

impl Ranked {
    fn join(&mut self, other: &Self) {
        self.time += other.time;
        self.count += other.count;
        self.intervals += other.intervals;
        if other.longest > self.longest {
            (self.longest, self.longest_at) = (other.longest, other.longest_at);
        }
    }
}
