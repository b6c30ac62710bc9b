//! Answers to programs that said that they were there, and what a recording lacks of those that get none.

use super::{Session, Sink};
use crate::discover::{glance, identity};
use crate::intake::Candidate;
use crate::program::{Traced, unanswered_of};
use crate::unanswered::Unanswered;
use sordino_ring::control::FileId;

/// Areas that are remembered. A program announces itself for each module, mostly within a second.
const MOST: usize = 10_000;

/// A process, and the inode number of an area that it announced.
pub(super) type Area = (i32, u64);

impl Session<'_> {
    /// Says in these areas that the session has answered; whether there was one.
    pub(super) fn answer(&self, ids: &[FileId]) -> bool {
        let answered = self.programs.iter().filter(|program| ids.contains(&program.id()));
        answered.map(Traced::answer).count() > 0
    }

    /// Counts what the area of a program counted that can't be recorded, and answers for it. Whether anything is missing of it: one that ended
    /// while it waited has hit nothing.
    pub(super) fn count_refused(&mut self, pid: i32, candidate: &Candidate) -> bool {
        let program = &candidate.program;
        // It may go on hitting its tracepoints.
        let lives = glance(pid).has_memory;
        // To read its catalogue takes time, and it may come again and again.
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

    /// Remembers that an area is recorded, or counted as not recorded: what its program announces later is no other program. Whether that
    /// is news.
    pub(super) fn account_for(&mut self, area: Area) -> bool {
        if self.accounted.len() >= MOST {
            self.accounted.clear();
        }
        self.accounted.insert(area)
    }

    /// Counts the programs that are still being taken up when the session ends.
    pub(super) fn count_expected(&mut self) {
        for (_, area) in std::mem::take(&mut self.expected) {
            self.count_unrecorded(area);
        }
    }

    /// A program that said that it was there is not recorded, and nobody knows what it hit. It may say so again.
    pub(super) fn count_unrecorded(&mut self, area: Area) {
        if self.account_for(area) {
            self.add_unrecorded(None);
        }
    }

    fn add_unrecorded(&mut self, unanswered: Option<Unanswered>) {
        match &mut self.sink {
            Sink::Chunk(chunk) => chunk.summary.unrecorded.add(unanswered),
            Sink::Memory(_) => self.template.unrecorded.add(unanswered),
        }
    }
}
