//! The progress of passes over a recording, which another thread may show.

use sordino_collect::Watch;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The length of each pass, whatever its unit.
const STEPS: u64 = 1 << 20;

/// The sum of all passes over a recording; several threads may be in one at the same time.
#[derive(Debug, Default)]
pub struct PassProgress {
    done: AtomicU64,
    total: AtomicU64,
}

impl PassProgress {
    /// Returns the steps that are done, and those of all passes that have begun.
    pub fn steps(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }

    pub(crate) fn begin(&self) -> PassShare<'_> {
        self.total.fetch_add(STEPS, Relaxed);
        PassShare { all: self, done: 0 }
    }
}

/// The share of one pass. The pass counts as complete when it is dropped, also if it was left early.
#[derive(Debug)]
pub(crate) struct PassShare<'a> {
    all: &'a PassProgress,
    done: u64,
}

impl PassShare<'_> {
    /// Advances to `done` of `total`; never goes back.
    pub(crate) fn reach(&mut self, done: u64, total: u64) {
        let steps = u128::from(done.min(total)) * u128::from(STEPS) / u128::from(total.max(1));
        let steps = (steps as u64).max(self.done);
        self.all.done.fetch_add(steps - self.done, Relaxed);
        self.done = steps;
    }
}

impl Watch for PassShare<'_> {
    fn recording(&mut self, _: Duration, _: usize) {}

    fn working(&mut self, _: &'static str, done: u64, total: u64) {
        self.reach(done, total);
    }
}

impl Drop for PassShare<'_> {
    fn drop(&mut self) {
        self.reach(1, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_add_up_and_end_complete() {
        let all = PassProgress::default();
        let (mut first, mut second) = (all.begin(), all.begin());
        first.reach(1, 4);
        second.reach(u64::MAX, u64::MAX);
        assert_eq!(all.steps(), (STEPS / 4 + STEPS, 2 * STEPS));
        first.reach(0, 4);
        first.reach(0, 0);
        assert_eq!(all.steps(), (STEPS / 4 + STEPS, 2 * STEPS));
        drop((first, second));
        assert_eq!(all.steps(), (2 * STEPS, 2 * STEPS));
    }
}
