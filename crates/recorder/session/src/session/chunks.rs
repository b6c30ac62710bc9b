//! A session's chunks, which follow each other when they are due or requested.

use super::recordings::{RecordSink, chunk};
use super::state::RecordingSession;
use super::summarise::{is_worth_a_line, summarise};
use super::writer::WriteJob;
use sordino_collect::Error;
use sordino_collect::chunk::{Chunk, ChunkEnd};
use sordino_collect::directory::{Directory, RAW, page_file};
use sordino_collect::history::PageFiles;
use sordino_collect::watch::Nobody;
use sordino_event::Cpu;
use std::time::{Duration, Instant};

/// Time until the next attempt to begin a chunk.
const RETRY: Duration = Duration::from_secs(1);

impl RecordingSession<'_> {
    /// Begins another chunk when this one is large or old enough. If that fails, the present one continues, and it is
    /// tried again later.
    pub(super) fn rotate_if_due(&mut self) {
        let (Some(series), Some(outlet)) = (&self.options.series, &self.recordings.outlet) else { return };
        let is_old = series.rotation.every.is_some_and(|every| outlet.rotation.began.elapsed() >= every);
        let has_failed = outlet.rotation.failed.is_some_and(|failed| failed.elapsed() < RETRY);
        if has_failed
            || !(is_old || series.rotation.size.is_some_and(|size| self.recordings.is_larger_than(size)))
        {
            return;
        }
        match self.rotate() {
            Ok(job) => self.recordings.write(job, None),
            Err(error) => self
                .recordings
                .add_note(format!("the next chunk could not be begun, this one goes on: {error}")),
        }
    }

    /// Begins another chunk. Returns the job that completes the previous one.
    ///
    /// # Errors
    /// If the next chunk could not be begun; the present one continues.
    pub(super) fn rotate(&mut self) -> Result<WriteJob, Error> {
        let Some(outlet) = &mut self.recordings.outlet else {
            return Err(Error::Kind(self.options.recording.name.clone()));
        };
        let directory =
            outlet.series.next().inspect_err(|_| outlet.rotation.failed = Some(Instant::now()))?;
        let rotated = self.go_on_in(&directory);
        if let Some(outlet) = &mut self.recordings.outlet {
            match &rotated {
                Ok(_) => outlet.rotation.begin_next(),
                Err(_) => {
                    outlet.rotation.failed = Some(Instant::now());
                    outlet.series.take_back(&directory);
                }
            }
        }
        let (before, rest) = rotated?;
        let clock = self.clock.clone();
        self.clock.offsets.keep_last();
        Ok(Box::new(move || before.finish(&clock, rest, &mut Nobody)))
    }

    /// Switches all sources to the new chunk, or none: steps that may fail come first, the kernel's files last among
    /// them.
    fn go_on_in(&mut self, directory: &Directory) -> Result<(Chunk, ChunkEnd), Error> {
        if let RecordSink::Chunk(chunk) = &mut self.recordings.sink {
            // At most one delayed dump is in progress at a time.
            chunk.settle_or_note();
        }
        let next =
            chunk(directory.clone(), &self.recordings.template, &self.clock, self.kernel.recorder.as_ref())?;
        next.announce()?;
        let traces =
            self.recorded.programs.iter().map(|program| program.trace.put_in(directory, &self.clock));
        let traces = traces.collect::<Result<Vec<_>, _>>()?;
        let kernel = match &mut self.kernel.recorder {
            Some(kernel) => kernel.empty(page_files(directory, self.options.recording.cpus.as_slice())?)?,
            None => Vec::new(),
        };
        let RecordSink::Chunk(chunk) = &mut self.recordings.sink else {
            return Err(Error::Kind(self.options.recording.name.clone()));
        };
        let mut before = std::mem::replace(&mut **chunk, next);
        self.kernel.lost = 0;
        for (program, next) in self.recorded.programs.iter_mut().zip(traces) {
            let (trace, outputs) = program.go_on_in(next);
            let ends = self.collector.rotate(program.number(), outputs);
            self.findings.has_events |= ends.iter().any(is_worth_a_line);
            let notes = std::mem::take(&mut program.notes);
            before.add(summarise(&trace, notes, ends), trace.without_tracepoints());
        }
        if let Err(error) = self.show_pages_of(directory) {
            self.recordings.add_note(error.to_string());
        }
        before.summary.shortfall = self.shortfall();
        Ok((before, self.machine.rest(&mut self.clock, Ok(kernel))))
    }
}

/// Creates the files for the kernel's pages of a chunk.
fn page_files(directory: &Directory, cpus: &[u32]) -> Result<PageFiles, Error> {
    let raw = directory.part(RAW)?;
    let file = |cpu| Ok((cpu, page_file(&raw, cpu).map_err(Error::output(raw.path()))?));
    cpus.iter().copied().map(Cpu).map(file).collect()
}
