//! The kernel's tracer as a source of a session's records.

use super::recordings::{RecordSink, Recordings};
use sordino_collect::Error;
use sordino_collect::kernel::{Emptied, KernelProblem, KernelRecorder};
use sordino_undo::Guardian;
use std::time::{Duration, Instant};

/// Time after the last failed attempt after which the kernel's files count as working again: several attempts take
/// less.
const KERNEL_SETTLED: Duration = Duration::from_secs(3);

/// The kernel's events, as far as the session records them.
pub(super) struct KernelSource<'a> {
    pub(super) guardian: Option<&'a mut Guardian>,
    pub(super) recorder: Option<KernelRecorder>,
    /// Kernel events that were overwritten because those of the present chunk can't be written.
    pub(super) lost: u64,
    /// The time of the last failure to write them.
    pub(super) failed: Option<Instant>,
}

impl KernelSource<'_> {
    /// Checks for errors in writing the kernel's pages, and for events that the kernel overwrote meanwhile.
    pub(super) fn look(&mut self, recordings: &mut Recordings) {
        let Some(KernelProblem { reason, lost }) = self.recorder.as_ref().and_then(KernelRecorder::problem)
        else {
            // The kernel kept everything that could not be written, and it has been written by now.
            let is_over =
                self.lost == 0 && self.failed.take_if(|failed| failed.elapsed() > KERNEL_SETTLED).is_some();
            if let (true, RecordSink::Chunk(chunk)) = (is_over, &mut recordings.sink) {
                chunk.summary.kernel_problem = None;
            }
            return;
        };
        (self.lost, self.failed) = (lost, Some(Instant::now()));
        let lost = if lost > 0 { ", and the oldest of them lost" } else { "" };
        recordings.add_note(format!("the kernel's events were not written for a while{lost}: {reason}"));
        if let RecordSink::Chunk(chunk) = &mut recordings.sink {
            chunk.summary.kernel_problem.get_or_insert(reason);
        }
    }

    /// Moves the kernel's pages into a flight recorder's history.
    pub(super) fn empty_into(&mut self, sink: &mut RecordSink) -> Result<Vec<Emptied>, Error> {
        let (Some(kernel), RecordSink::Memory(memory)) = (&mut self.recorder, sink) else {
            return Ok(Vec::new());
        };
        let (theirs, ours) = memory.kernel.fresh()?;
        let emptied = kernel.empty(theirs)?;
        memory.kernel.take(ours, &kernel.formats.layout)?;
        Ok(emptied)
    }
}
