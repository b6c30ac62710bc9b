//! The losses of records in a trace.

use crate::findings::LossSum;
use sordino_event::{Cpu, Loss, LossCause, Pid, Time};
use sordino_intervals::Interval;
use std::collections::BTreeMap;

/// The losses of a trace: their sums, and one by one those that may still concern an interval.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    total: Sums,
    recent: Vec<Loss>,
    /// The number of recent losses at which those that no longer concern any interval are dropped.
    full: usize,
}

#[derive(Debug, Default)]
struct Sums(BTreeMap<(Option<Cpu>, Option<Pid>, LossCause), LossSum>);

impl Losses {
    /// Adds `loss`. No interval that is queried later begins before the time that `earliest` returns.
    pub(crate) fn add(&mut self, loss: &Loss, earliest: impl FnOnce() -> Time) {
        self.total.add(loss);
        self.recent.push(loss.clone());
        if self.recent.len() > self.full {
            let earliest = earliest();
            self.recent.retain(|loss| loss.to > earliest);
            self.full = 1000.max(2 * self.recent.len());
        }
    }

    /// Returns the losses within the interval: those of the kernel and of the thread's own program.
    pub(crate) fn within(&self, interval: &Interval) -> Vec<LossSum> {
        let mut sums = Sums::default();
        let matters = |loss: &&Loss| {
            let is_its_own = interval.pid.is_none() || loss.pid.is_none() || loss.pid == interval.pid;
            is_its_own && loss.from < interval.end && loss.to > interval.begin
        };
        self.recent.iter().filter(matters).for_each(|loss| sums.add(loss));
        sums.0.into_values().collect()
    }

    pub(crate) fn total(self) -> Vec<LossSum> {
        self.total.0.into_values().collect()
    }
}

impl Sums {
    fn add(&mut self, loss: &Loss) {
        let Loss { from, to, cpu, pid, count, cause, .. } = *loss;
        let nothing = LossSum { cpu, pid, cause, count: 0, uncounted: 0, from, to };
        let sum = self.0.entry((cpu, pid, cause)).or_insert(nothing);
        sum.count = sum.count.saturating_add(count.unwrap_or(0));
        sum.uncounted += u64::from(count.is_none());
        (sum.from, sum.to) = (sum.from.min(from), sum.to.max(to));
    }
}
