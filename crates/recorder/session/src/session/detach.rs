//! Detaches from programs: at once, when a lock has become free, or by a thread of the program's user.

use super::state::RecordingSession;
use sordino_collect::program::Traced;
use sordino_intake::{Detachment, is_trusted};
use sordino_ring::area::control::PATIENCE;
use std::time::{Duration, Instant};

/// Maximum number of programs whose lock is held; beyond it, the oldest is detached from without its lock.
const MOST_DETACHMENTS: usize = 64;

impl RecordingSession<'_> {
    pub(super) fn detach(&mut self, program: &mut Traced) {
        let Some(left) = program.detach() else { return };
        if !is_trusted(program.user()) {
            return self.arrivals.intake.let_go(program.user(), program.trace.pid, left);
        }
        self.recorded.detachments.push(left);
        if self.recorded.detachments.len() > MOST_DETACHMENTS {
            let oldest = self.recorded.detachments.remove(0);
            self.finish_detachment(&oldest, true);
        }
    }

    fn finish_detachment(&mut self, detachment: &Detachment, must_end: bool) -> bool {
        let ended = detachment.retry(must_end);
        let is_over = ended.is_some();
        ended.flatten().into_iter().for_each(|note| self.recordings.add_note(note));
        is_over
    }

    /// Detaches from all programs whose locks were held: other recorders hold them for a moment, hostile programs for
    /// ever.
    pub(super) fn end_detachments(&mut self) {
        let end = Instant::now() + PATIENCE;
        while !self.recorded.detachments.is_empty() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
            self.finish_detachments(false);
        }
        self.finish_detachments(true);
    }

    /// Tries again to detach from programs whose locks were held; with `must_end`, even without the lock.
    pub(super) fn finish_detachments(&mut self, must_end: bool) {
        for detachment in std::mem::take(&mut self.recorded.detachments) {
            if !self.finish_detachment(&detachment, must_end) {
                self.recorded.detachments.push(detachment);
            }
        }
    }
}
