//! Answers to programs that said that they were there, and what a recording lacks of those that get none.

use super::{Session, Sink};
use crate::discover::{glance, identity};
use crate::intake::Candidate;
use crate::program::{Traced, unanswered_of};
use crate::unanswered::Unanswered;
use sordino_ring::control::FileId;

/// Programs that are told apart of those that could not be recorded: beyond that, one that says twice that it is there counts twice.
const MOST: usize = 10_000;

impl Session<'_> {
    /// Says in these areas that the session has answered; whether there was one.
    pub(super) fn answer(&self, ids: &[FileId]) -> bool {
        let answered = self.programs.iter().filter(|program| ids.contains(&program.id()));
        answered.map(Traced::answer).count() > 0
    }

    /// Counts what the area of a program counted that can't be recorded, and answers for it.
    pub(super) fn count_refused(&mut self, pid: i32, candidate: &Candidate) {
        let program = &candidate.program;
        let mut unanswered = unanswered_of(program, &identity(pid), pid, &self.user);
        // It may go on hitting them.
        unanswered.uncounted |= glance(pid).has_memory;
        self.count_unrecorded((pid, Some(candidate.id())), Some(unanswered));
        program.pending().answer();
    }

    /// A program that said that it was there is not recorded. It may say so again.
    pub(super) fn count_unrecorded(&mut self, who: (i32, Option<FileId>), unanswered: Option<Unanswered>) {
        if self.unrecorded.len() >= MOST || self.unrecorded.insert(who) {
            match &mut self.sink {
                Sink::Chunk(chunk) => chunk.summary.unrecorded.add(unanswered),
                Sink::Memory(_) => self.template.unrecorded.add(unanswered),
            }
        }
    }
}
