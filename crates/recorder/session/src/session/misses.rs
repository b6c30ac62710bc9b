//! Programs that could not be recorded, by the time at which that was noticed.

use sordino_collect::unanswered::{Unanswered, UnrecordedPrograms};
use sordino_event::Ticks;
use std::collections::VecDeque;

/// Programs that could not be recorded, with times, because each snapshot counts those of its own time span.
#[derive(Clone, Debug, Default)]
pub(super) struct Misses {
    /// Unrecorded programs, each with the time at which it was counted, in ticks of the trace's clock.
    newest: VecDeque<(Ticks, Option<Unanswered>)>,
    /// The sum of earlier ones, and the time of the last of these in ticks.
    older: UnrecordedPrograms,
    until: Ticks,
    /// The last time at which programs may have started unnoticed.
    pub(super) unseen: Option<Ticks>,
}

impl Misses {
    /// Maximum number of programs that are kept with their times.
    const MOST: usize = 1000;

    pub(super) fn add(&mut self, now: Ticks, unanswered: Option<Unanswered>) {
        if self.newest.len() >= Self::MOST
            && let Some((at, oldest)) = self.newest.pop_front()
        {
            self.older.add(oldest);
            self.until = at;
        }
        self.newest.push_back((now, unanswered));
    }

    /// Returns the programs counted at this time or later. If there are many, it may include some that were counted
    /// earlier.
    pub(super) fn since(&self, ticks: Ticks) -> UnrecordedPrograms {
        let mut sum = if self.until >= ticks { self.older } else { UnrecordedPrograms::default() };
        self.newest.iter().filter(|(at, _)| *at >= ticks).for_each(|(_, unanswered)| sum.add(*unanswered));
        sum.unseen = self.unseen.is_some_and(|at| at >= ticks);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_lists_the_programs_of_its_own_time() {
        let mut misses = Misses::default();
        assert_eq!(misses.since(Ticks(0)), UnrecordedPrograms::default());
        for at in 1..=Misses::MOST as u64 {
            misses.add(Ticks(at), Some(Unanswered { hits: 2, uncounted: false }));
        }
        let of = |programs| UnrecordedPrograms { programs, hits: 2 * programs, uncounted: 0, unseen: false };
        assert_eq!([1, 901, 1001].map(|since| misses.since(Ticks(since))), [of(1000), of(100), of(0)]);
        misses.add(Ticks(2000), None);
        misses.add(Ticks(2001), None);
        assert_eq!(
            misses.since(Ticks(2001)),
            UnrecordedPrograms { programs: 1, hits: 0, uncounted: 1, unseen: false }
        );
        misses.unseen = Some(Ticks(2001));
        assert!(misses.since(Ticks(2001)).unseen && !misses.since(Ticks(2002)).unseen);
        // Two have lost their own times, and count with the later of these.
        assert_eq!([1, 2, 3].map(|since| misses.since(Ticks(since)).programs), [1002, 1002, 1000]);
    }
}
