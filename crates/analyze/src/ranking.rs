//! What took the time over all intervals.

use crate::cause::Cause;
use crate::findings::{Explanation, Ranked};
use sordino_event::Nanos;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Adds up explanations.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    /// How many intervals were added.
    pub(crate) intervals: u64,
    by_cause: BTreeMap<Cause, Ranked>,
}

impl Ranking {
    pub(crate) fn add(&mut self, explanation: &Explanation) {
        self.intervals += 1;
        let mut of_interval: BTreeMap<Cause, Ranked> = BTreeMap::new();
        for part in explanation.parts.iter().filter(|part| part.cause != Cause::Own) {
            let one = Ranked {
                cause: part.cause.in_general(),
                time: part.time,
                count: part.count,
                intervals: 1,
                longest: part.longest,
                longest_at: explanation.interval.begin,
            };
            match of_interval.get_mut(&one.cause) {
                // The same interval: counted once.
                Some(sum) => sum.join(&Ranked { intervals: 0, ..one }),
                None => {
                    of_interval.insert(one.cause.clone(), one);
                }
            }
        }
        for (cause, one) in of_interval {
            match self.by_cause.get_mut(&cause) {
                Some(sum) => sum.join(&one),
                None => {
                    self.by_cause.insert(cause, one);
                }
            }
        }
    }

    /// The causes, the one that took most first.
    pub(crate) fn finish(self) -> Vec<Ranked> {
        let mut ranking: Vec<_> =
            self.by_cause.into_values().filter(|ranked| ranked.time > Nanos::ZERO).collect();
        ranking.sort_by_key(|ranked| Reverse(ranked.time));
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
