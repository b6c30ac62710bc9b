//! The end of a recording: the rest of all buffers, and the results.

use super::outlet::Outlet;
use super::recordings::RecordSink;
use super::state::RecordingSession;
use sordino_collect::Error;
use sordino_collect::directory::Directory;
use sordino_collect::missing::UnwrittenData;
use sordino_collect::program::Traced;
use sordino_collect::shortfall::Shortfall;
use sordino_collect::summary::Summary;
use sordino_collect::watch::Watch;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Longest wait at the end of a recording for programs that have just registered.
const LAST_PROGRAMS: Duration = Duration::from_millis(500);

/// The result of a session, for its caller.
pub(super) struct SessionOutcome {
    /// The last recording of a session that writes to disk.
    pub(super) chunk: Option<(Directory, Summary)>,
    pub(super) status: Option<ExitStatus>,
    pub(super) running: Option<u32>,
    /// The reasons that a session's recordings could not be completed.
    pub(super) problems: Vec<String>,
    /// The data that a session could not write.
    pub(super) missing: UnwrittenData,
    pub(super) shortfall: Shortfall,
}

impl RecordingSession<'_> {
    /// Reads the rest of all buffers and completes the recordings.
    pub(super) fn finish(mut self, watch: &mut dyn Watch) -> Result<SessionOutcome, Error> {
        self.machine.counters.begin_again(&self.placing.placement.unshielded());
        // A program that registered and ended at once is still recorded.
        self.take_registrations_until(Instant::now() + LAST_PROGRAMS);
        self.take_up_all_until(Instant::now() + LAST_PROGRAMS);
        self.recorded.programs.iter().for_each(Traced::disable);
        self.machine.look_at_steal(&self.clock);
        if matches!(self.recordings.sink, RecordSink::Memory(_))
            && self.recordings.outlet.as_ref().is_some_and(|outlet| outlet.last_snapshot)
        {
            let last = self.snapshot(None, "stop");
            self.recordings.write(last, None);
        }
        let kernel = match (self.kernel.recorder.take(), self.kernel.guardian.take()) {
            (Some(mut kernel), Some(guardian)) => kernel.finish(guardian),
            _ => Ok(Vec::new()),
        };
        while let Some(program) = self.recorded.programs.first() {
            let number = program.number();
            self.let_go(number);
        }
        self.wait_for_leaving(Instant::now() + LAST_PROGRAMS);
        self.count_expected();
        self.end_detachments();
        let collector_cpu_seconds = self.collector.stop();
        self.machine.counters.wait().into_iter().for_each(|offset| self.clock.offsets.add(offset));
        let rest = self.machine.rest(&mut self.clock, kernel);
        let (shortfall, memory) = (self.shortfall(), self.memory());
        let chunk = match self.recordings.sink {
            RecordSink::Chunk(mut chunk) => {
                chunk.summary.shortfall = shortfall.clone();
                chunk.summary.collector_cpu_seconds = collector_cpu_seconds;
                chunk.summary.notes.extend(memory.notes());
                chunk.summary.skipped = self.findings.skipped.programs();
                chunk.summary.notes.extend(self.findings.skipped.notes().chain(self.listener.refused()));
                Some(chunk.finish(&self.clock, rest, watch))
            }
            RecordSink::Memory(_) => None,
        };
        // After an error as well: there may be other recordings, and clients that wait for them.
        let finish = |outlet: Outlet| outlet.finish(chunk.as_ref(), &shortfall, self.options);
        let (problems, missing) = self.recordings.outlet.map(finish).unwrap_or_default();
        let running = self.command.child.as_ref().map(Child::id);
        Ok(SessionOutcome {
            chunk: chunk.transpose()?,
            status: self.command.status,
            running,
            problems,
            missing,
            shortfall,
        })
    }
}
