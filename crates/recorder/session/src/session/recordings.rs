//! A session's recordings: their destination, their series, and the notes for their readers.

use super::control::WaitingClient;
use super::live::Live;
use super::memory::{ProgramSnapshot, SnapshotMemory};
use super::misses::Misses;
use super::outlet::{Outlet, note_once};
use super::writer::WriteJob;
use crate::options::SessionOptions;
use sordino_clock::Sample;
use sordino_collect::Error;
use sordino_collect::chunk::Chunk;
use sordino_collect::convert::{Purpose, raw_bytes};
use sordino_collect::directory::{Directory, USER};
use sordino_collect::drain::ProgramCopy;
use sordino_collect::kernel::KernelRecorder;
use sordino_collect::program::Traced;
use sordino_collect::summary::Summary;
use sordino_collect::unanswered::Unanswered;
use sordino_event::Ticks;
use sordino_inspect::clock::TraceClock;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Maximum number of programs without room that are counted.
const MOST_UNPLACED: usize = 10_000;

/// Maximum number of snapshots that wait to be written, each with a copy of all rings.
pub(super) const BACKLOG: usize = 4;

/// Checking a chunk's size takes at most this fraction (1/500) of a CPU's time.
const SHARE: u32 = 500;

/// Longest time between two checks of the size.
const SIZE_DUE: Duration = Duration::from_secs(5);

/// The recordings of a session, and the destination of the records at present.
pub(super) struct Recordings {
    /// The destination of the records.
    pub(super) sink: RecordSink,
    /// The output of a session, which has several recordings.
    pub(super) outlet: Option<Outlet>,
    /// The common part of the session's summaries.
    pub(super) template: Summary,
    /// Programs that a flight recorder could not record, for its snapshots.
    pub(super) misses: Misses,
    /// Programs for whose traces there was no room.
    pub(super) unplaced: HashSet<i32>,
    /// The state of the live reader, if there is one.
    pub(super) live: Option<Live>,
}

impl Recordings {
    /// Adds a note for the readers of the recording.
    pub(super) fn add_note(&mut self, note: String) {
        let notes = match (&mut self.sink, &mut self.outlet) {
            (RecordSink::Chunk(chunk), _) => &mut chunk.summary.notes,
            (RecordSink::Memory(_), Some(outlet)) => &mut outlet.notes,
            (RecordSink::Memory(_), None) => return,
        };
        note_once(notes, note);
    }

    /// Passes a job to the writer; `whom` receives the result.
    pub(super) fn write(&mut self, job: WriteJob, whom: Option<WaitingClient>) {
        if let Some(outlet) = &mut self.outlet {
            outlet.writer.give(job, whom);
        }
    }

    /// Returns true if there is no memory for another snapshot until earlier ones are written.
    pub(super) fn has_backlog(&self) -> bool {
        self.outlet.as_ref().is_some_and(|outlet| outlet.writer.open() >= BACKLOG)
    }

    /// Processes the writer's results since the last call.
    pub(super) fn finish_written(&mut self, options: &SessionOptions) {
        if let Some(outlet) = &mut self.outlet {
            let done = outlet.writer.done();
            outlet.take(done, options);
        }
    }

    /// Returns true if the chunk has reached this size. Its directories are read only when due, because that may take
    /// milliseconds.
    pub(super) fn is_larger_than(&mut self, size: u64) -> bool {
        let begin = Instant::now();
        if self.outlet.as_ref().is_some_and(|outlet| begin < outlet.rotation.size_due) {
            return false;
        }
        let is_larger = self.sink.chunk_bytes() >= size;
        if let Some(outlet) = &mut self.outlet {
            // An interrupted check may have appeared to take long.
            outlet.rotation.size_due = begin + (begin.elapsed() * SHARE).min(SIZE_DUE);
        }
        is_larger
    }

    /// Counts a program without room for its trace: its records are missing meanwhile.
    pub(super) fn note_unplaced(&mut self, pid: i32) {
        let RecordSink::Chunk(chunk) = &mut self.sink else { return };
        if self.unplaced.len() < MOST_UNPLACED && self.unplaced.insert(pid) {
            chunk.summary.unplaced += 1;
        }
    }

    /// Counts a program that is not recorded, at this time in ticks of the trace's clock.
    pub(super) fn add_unrecorded(&mut self, now: Ticks, unanswered: Option<Unanswered>) {
        match &mut self.sink {
            RecordSink::Chunk(chunk) => chunk.summary.unrecorded.add(unanswered),
            RecordSink::Memory(_) => {
                self.template.unrecorded.add(unanswered);
                self.misses.add(now, unanswered);
            }
        }
    }

    /// Keeps the records of an ended program for later snapshots.
    pub(super) fn keep_ended(&mut self, program: Traced, copy: Option<ProgramCopy>) {
        let (RecordSink::Memory(memory), Some(copy)) = (&mut self.sink, copy) else { return };
        memory.keep(ProgramSnapshot::of_ended(program, copy));
    }
}

impl RecordSink {
    /// Returns the size of the present chunk's events in bytes.
    fn chunk_bytes(&self) -> u64 {
        let Self::Chunk(chunk) = self else { return 0 };
        chunk.directory.part(USER).map_or(0, |user| user.bytes()) + raw_bytes(&chunk.directory)
    }
}

/// The destination of the records.
pub(super) enum RecordSink {
    /// The present chunk, on disk.
    Chunk(Box<Chunk>),
    /// Memory only, until a snapshot is requested.
    Memory(SnapshotMemory),
}

/// Begins a chunk with the kernel's formats and a state dump.
pub(super) fn chunk(
    directory: Directory,
    template: &Summary,
    clock: &TraceClock,
    kernel: Option<&KernelRecorder>,
) -> Result<Chunk, Error> {
    kernel.map_or(Ok(()), |kernel| kernel.formats.save(&directory))?;
    Chunk::begin(directory, template.clone(), clock, Sample::take(), Purpose::Keeping)
}
