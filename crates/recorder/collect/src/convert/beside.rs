//! Writes the recorder's own observations as streams beside the kernel's events.

use super::trace::KernelTrace;
use crate::directory::{Directory, KERNEL};
use crate::error::Error;
use sordino_inspect::clock::TraceClock;
use sordino_inspect::context::Observation;
use sordino_inspect::dump;
use sordino_inspect::interrupted::InterruptedTime;
use sordino_inspect::steal::StolenTime;
use sordino_inspect::threads::OwnThread;
use std::fs::File;

impl KernelTrace {
    /// Writes the time taken by the hypervisor.
    pub(crate) fn write_stolen(&self, directory: &Directory, stolen: &[StolenTime]) -> Result<(), Error> {
        if stolen.is_empty() {
            return Ok(());
        }
        write_whole(directory, "steal", |file| dump::write_stolen(stolen, file, self.uuid))
    }

    /// Writes the gaps that interrupts made in the recorder's own loop.
    pub(crate) fn write_gaps(
        &self,
        directory: &Directory,
        gaps: &[InterruptedTime],
        clock: &TraceClock,
    ) -> Result<(), Error> {
        if gaps.is_empty() {
            return Ok(());
        }
        write_whole(directory, "interrupted", |file| {
            dump::write_gaps(gaps, clock.nanoseconds_in_tick(), file, self.uuid)
        })
    }

    /// Writes the names of the recorder's own threads.
    pub(crate) fn write_recorder(&self, directory: &Directory, own: &[OwnThread]) -> Result<(), Error> {
        write_whole(directory, "recorder", |file| {
            dump::write_recorder(own, file, self.uuid, self.begin_ticks)
        })
    }

    /// Writes the observed attributes of threads.
    pub(crate) fn write_contexts(
        &self,
        directory: &Directory,
        observations: &[Observation],
    ) -> Result<(), Error> {
        if observations.is_empty() {
            return Ok(());
        }
        write_whole(directory, "contexts", |file| {
            dump::write_contexts(observations, file, self.uuid, self.begin_ticks)
        })
    }
}

/// Writes a stream of the kernel's trace, or removes it if that fails.
pub(super) fn write_whole(
    directory: &Directory,
    name: &str,
    write: impl FnOnce(File) -> Result<(), sordino_ctf::Error>,
) -> Result<(), Error> {
    let kernel = directory.part(KERNEL)?;
    let file = kernel.create(name).map_err(Error::output(kernel.path().join(name)))?;
    Ok(write(file).inspect_err(|_| _ = kernel.remove_file(name))?)
}
