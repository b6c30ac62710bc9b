//! Answers to programs that registered, and the counts of those that are not recorded.

use super::{Session, Sink};
use sordino_collect::program::{Traced, unanswered_of};
use sordino_collect::unanswered::{Unanswered, UnrecordedPrograms};
use sordino_inspect::discover::{glance, identity};
use sordino_intake::Candidate;
use sordino_ring::control::FileId;
use std::collections::VecDeque;

/// Maximum number of areas that are remembered. A program registers once for each module, mostly within a second.
const MOST: usize = 10_000;

/// A process id, and the inode number of an area that the process registered.
pub(super) type Area = (i32, u64);

impl Session<'_> {
    /// Stores the session's answer in these areas, and returns true if it records one of them.
    pub(super) fn answer(&self, ids: &[FileId]) -> bool {
        let answered = self.programs.iter().filter(|program| ids.contains(&program.id()));
        answered.map(Traced::answer).count() > 0
    }

    /// Counts the hits in the area of a refused program, and answers. Returns false if nothing is missing: the program
    /// ended while it waited, without a hit.
    pub(super) fn count_refused(&mut self, pid: i32, candidate: &Candidate) -> bool {
        let program = &candidate.program;
        // A living program may continue to hit its tracepoints.
        let lives = glance(pid).has_memory;
        // Counted once only: reading its catalogue takes time, and it may register repeatedly.
        if self.account_for((pid, candidate.id().inode)) {
            let mut unanswered = unanswered_of(program, &identity(pid), pid, &self.user);
            unanswered.uncounted |= lives;
            if !unanswered.is_any() {
                return false;
            }
            self.add_unrecorded(Some(unanswered));
        } else if !lives {
            return false;
        }
        program.pending().answer();
        true
    }

    /// Remembers an area as recorded or counted, so that a later registration of its program is not counted again.
    /// Returns false if it was remembered already.
    pub(super) fn account_for(&mut self, area: Area) -> bool {
        if self.accounted.len() >= MOST {
            self.accounted.clear();
        }
        self.accounted.insert(area)
    }

    /// Counts the programs that the intake still works on at the end of the session.
    pub(super) fn count_expected(&mut self) {
        for (_, area) in std::mem::take(&mut self.expected) {
            self.count_unrecorded(area);
        }
    }

    /// Counts a program that registered, is not recorded, and has an unknown number of hits.
    pub(super) fn count_unrecorded(&mut self, area: Area) {
        if self.account_for(area) {
            self.add_unrecorded(None);
        }
    }

    /// Notes that programs may have started without being noticed.
    pub(super) fn note_unseen(&mut self) {
        if self.options.kernel_only {
            return;
        }
        match &mut self.sink {
            Sink::Chunk(chunk) => chunk.summary.unrecorded.unseen = true,
            Sink::Memory(_) => {
                self.template.unrecorded.unseen = true;
                self.misses.unseen = Some(self.clock.now()());
            }
        }
    }

    fn add_unrecorded(&mut self, unanswered: Option<Unanswered>) {
        match &mut self.sink {
            Sink::Chunk(chunk) => chunk.summary.unrecorded.add(unanswered),
            Sink::Memory(_) => {
                self.template.unrecorded.add(unanswered);
                self.misses.add(self.clock.now()(), unanswered);
            }
        }
    }
}

/// Programs that could not be recorded, with times, because each snapshot counts those of its own time span.
#[derive(Clone, Debug, Default)]
pub(super) struct Misses {
    /// Unrecorded programs, each with the time at which it was counted, in ticks of the trace's clock.
    newest: VecDeque<(u64, Option<Unanswered>)>,
    /// The sum of earlier ones, and the time of the last of these in ticks.
    older: UnrecordedPrograms,
    until: u64,
    /// The last time at which programs may have started unnoticed.
    unseen: Option<u64>,
}

impl Misses {
    /// Maximum number of programs that are kept with their times.
    const MOST: usize = 1000;

    fn add(&mut self, now: u64, unanswered: Option<Unanswered>) {
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
    pub(super) fn since(&self, ticks: u64) -> UnrecordedPrograms {
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
    fn a_snapshot_tells_of_the_programs_of_its_own_time() {
        let mut misses = Misses::default();
        assert_eq!(misses.since(0), UnrecordedPrograms::default());
        for at in 1..=Misses::MOST as u64 {
            misses.add(at, Some(Unanswered { hits: 2, uncounted: false }));
        }
        let of = |programs| UnrecordedPrograms { programs, hits: 2 * programs, uncounted: 0, unseen: false };
        assert_eq!([1, 901, 1001].map(|since| misses.since(since)), [of(1000), of(100), of(0)]);
        misses.add(2000, None);
        misses.add(2001, None);
        assert_eq!(
            misses.since(2001),
            UnrecordedPrograms { programs: 1, hits: 0, uncounted: 1, unseen: false }
        );
        misses.unseen = Some(2001);
        assert!(misses.since(2001).unseen && !misses.since(2002).unseen);
        // Two have lost their own times, and count with the later of these.
        assert_eq!([1, 2, 3].map(|since| misses.since(since).programs), [1002, 1002, 1000]);
    }
}
