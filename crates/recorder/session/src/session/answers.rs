//! Answers to programs that registered, and the counts of those that are not recorded.

use super::recordings::RecordSink;
use super::state::{RecordingSession, RegisteredArea};
use sordino_collect::program::{Traced, unanswered_of};
use sordino_inspect::discover::{glance, identity};
use sordino_intake::Candidate;
use sordino_ring::area::control::FileId;

impl RecordingSession<'_> {
    /// Stores the session's answer in these areas, and returns true if it records one of them.
    pub(super) fn answer(&mut self, ids: &[FileId]) -> bool {
        let answered = self.recorded.programs.iter_mut().filter(|program| ids.contains(&program.id()));
        answered.map(Traced::answer).count() > 0
    }

    /// Counts the hits in the area of a refused program, and answers. Returns false if nothing is missing: the program
    /// ended while it waited, without a hit.
    pub(super) fn count_refused(&mut self, pid: i32, candidate: &Candidate) -> bool {
        let program = &candidate.program;
        // A living program may continue to hit its tracepoints.
        let lives = glance(pid).has_memory;
        // Counted once only: reading its catalogue takes time, and it may register repeatedly.
        if self.arrivals.account_for((pid, candidate.id().inode)) {
            let mut unanswered = unanswered_of(program, &identity(pid), pid, &self.user);
            unanswered.uncounted |= lives;
            if !unanswered.is_any() {
                return false;
            }
            self.recordings.add_unrecorded(self.clock.now()(), Some(unanswered));
        } else if !lives {
            return false;
        }
        program.pending().answer();
        true
    }

    /// Counts the programs that the intake still works on at the end of the session.
    pub(super) fn count_expected(&mut self) {
        for (_, area) in std::mem::take(&mut self.arrivals.expected) {
            self.count_unrecorded(area);
        }
    }

    /// Counts a program that registered, is not recorded, and has an unknown number of hits.
    pub(super) fn count_unrecorded(&mut self, area: RegisteredArea) {
        if self.arrivals.account_for(area) {
            self.recordings.add_unrecorded(self.clock.now()(), None);
        }
    }

    /// Notes that programs may have started without being noticed.
    pub(super) fn note_unseen(&mut self) {
        if self.options.kernel_only {
            return;
        }
        match &mut self.recordings.sink {
            RecordSink::Chunk(chunk) => chunk.summary.unrecorded.unseen = true,
            RecordSink::Memory(_) => {
                self.recordings.template.unrecorded.unseen = true;
                self.recordings.misses.unseen = Some(self.clock.now()());
            }
        }
    }
}
