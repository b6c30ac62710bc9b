//! The ranking of causes over all intervals.

use crate::cause::Cause;
use crate::findings::{Explanation, Ranked};
use crate::survey::Subject;
use crate::usual::Usual;
use sordino_event::Nanos;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The sum of explanations by cause.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// The number of intervals that were added.
    pub(crate) intervals: u64,
    /// The sum of each cause, and its time in each interval with the interval's thread or fiber.
    by_cause: BTreeMap<Cause, (Ranked, Vec<(Subject, Nanos)>)>,
}

impl Ranking {
    /// Adds an interval. The own code of a constant loop is left out, as it takes its usual time.
    pub(crate) fn add(&mut self, explanation: &Explanation, is_constant: bool) {
        self.intervals += 1;
        let mut of_interval: BTreeMap<Cause, Ranked> = BTreeMap::new();
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
                Some(sum) => sum.join(&Ranked { intervals: 0, ..one }),
                None => {
                    of_interval.insert(one.cause.clone(), one);
                }
            }
        }
        let subject = explanation.interval.subject();
        for (cause, one) in of_interval {
            match self.by_cause.get_mut(&cause) {
                Some((sum, times)) => {
                    times.push((subject, one.time));
                    sum.join(&one);
                }
                None => {
                    let times = vec![(subject, one.time)];
                    self.by_cause.insert(cause, (one, times));
                }
            }
        }
    }

    /// Returns the causes, the one with the largest excess over its usual time first, or the one with the longest
    /// time where usual times are not known.
    pub(crate) fn finish(self, usual: &Usual) -> Vec<Ranked> {
        let all = self.by_cause.into_values().filter(|(ranked, _)| ranked.time > Nanos::ZERO);
        let excess = |(ranked, times): (Ranked, Vec<(Subject, Nanos)>)| {
            let excess =
                times.iter().map(|(subject, time)| usual.excess(*subject, &ranked.cause, *time)).sum();
            Ranked { excess, ..ranked }
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
