//! One recording while it is put together: all of `sordino record`'s, one chunk of a session that rotates, or a
//! snapshot.

use crate::convert::{End, KernelTrace, Purpose, raw_bytes, unconverted};
use crate::count::count_events;
use crate::directory::Directory;
use crate::error::Error;
use crate::kernel::Emptied;
use crate::output::Output;
use crate::program::ProgramTrace;
use crate::rank::{Hits, rank};
use crate::summary::{ClockSummary, OffsetSummary, ProgramSummary, State, Summary};
use crate::watch::Watch;
use crate::why::{SNAPSHOT_REQUEST, last_reason};
use rustix::time::ClockId;
use sordino_clock::Sample;
use sordino_inspect::clock::TraceClock;
use sordino_inspect::context::Observation;
use sordino_inspect::interrupted::InterruptedTime;
use sordino_inspect::steal::StolenTime;
use sordino_inspect::threads;
use sordino_inspect::threads::cpu_seconds;

/// A recording that is being put together. Any thread that owns it can finish it.
#[derive(Debug)]
pub struct Chunk {
    /// The directory of the recording.
    pub directory: Directory,
    /// The summary as far as it is known.
    pub summary: Summary,
    begin: Sample,
    purpose: Purpose,
    kernel: KernelTrace,
    /// Traces of programs to which nothing more is written.
    traces: Vec<ProgramTrace>,
    /// Files of these traces in which a missing end is not marked yet.
    unclosed: Vec<Output>,
}

/// The kernel's buffers at the end of a chunk, and observations of the recorder made during it.
#[derive(Debug)]
pub struct ChunkEnd {
    /// The time at which the chunk ended.
    pub end: Sample,
    /// The state of each CPU's kernel buffer.
    pub kernel: Result<Vec<Emptied>, Error>,
    /// Time taken by the hypervisor, in order of time.
    pub stolen: Vec<StolenTime>,
    /// Gaps that interrupts made in the recorder's own loop, in order of time.
    pub gaps: Vec<InterruptedTime>,
    /// Observed attributes of threads.
    pub observations: Vec<Observation>,
}

impl Chunk {
    /// Begins a recording with a state dump taken now. It holds events from `begin` on.
    pub fn begin(
        directory: Directory,
        summary: Summary,
        clock: &TraceClock,
        begin: Sample,
        purpose: Purpose,
    ) -> Result<Self, Error> {
        let kernel = KernelTrace::begin(&directory, clock, begin, summary.overwrite, purpose)?;
        let mut chunk =
            Self { directory, summary, begin, purpose, kernel, traces: Vec::new(), unclosed: Vec::new() };
        chunk.summary.begin_ns = begin.realtime;
        chunk.summary.clock = clock_summary(clock);
        Ok(chunk)
    }

    /// Waits until the state dump is written: some seconds at most.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.summary.notes.extend(self.kernel.settle()?);
        Ok(())
    }

    /// Like [`settle`](Self::settle), but puts an error into the summary's notes.
    pub fn settle_or_note(&mut self) {
        if let Err(error) = self.settle() {
            self.summary.notes.push(format!("the state at the start is missing: {error}"));
        }
    }

    /// Writes the summary, which makes the directory a recording in progress.
    pub fn announce(&self) -> Result<(), Error> {
        self.summary.write(&self.directory)
    }

    /// Adds a program's trace, which is complete except that the files in `unclosed` have a missing end to be marked.
    pub fn add(&mut self, (program, unclosed): (ProgramSummary, Vec<Output>), trace: ProgramTrace) {
        self.summary.programs.push(program);
        self.unclosed.extend(unclosed);
        self.traces.push(trace);
    }

    /// Adds the program's own reason to the summary of a snapshot that a program requested.
    pub fn add_reason(&mut self) {
        if self.summary.reason.as_deref() == Some(SNAPSHOT_REQUEST) {
            let reasons = self.traces.iter().filter_map(last_reason).max();
            self.summary.reason = reasons
                .map_or(self.summary.reason.take(), |(_, why)| Some(format!("{SNAPSHOT_REQUEST}: {why}")));
        }
    }

    /// Puts the ranked value into the snapshot's summary.
    pub fn rank(&mut self, hits: &Hits) {
        let rank = rank(&self.traces, hits);
        if rank.value.is_none() {
            let why = format!("no {} of the event that asked for it is in it: it ranks last", rank.field);
            self.summary.notes.push(why);
        }
        self.summary.rank = Some(rank);
    }

    /// Completes the recording: closes the streams, converts the kernel's pages, counts events, writes the summary.
    ///
    /// # Errors
    /// If the summary cannot be written. All other errors are recorded in it.
    pub fn finish(
        mut self,
        clock: &TraceClock,
        rest: ChunkEnd,
        watch: &mut dyn Watch,
    ) -> Result<(Directory, Summary), Error> {
        self.summary.duration_ns = rest.end.monotonic.saturating_sub(self.begin.monotonic);
        self.summary.clock = clock_summary(clock);
        self.summary.programs.sort_by_key(|program| program.trace.clone());
        self.directory.use_room();
        self.close_streams();
        self.settle_or_note();
        for trace in &self.traces {
            // On failure the previous metadata stays, with a less accurate clock.
            self.summary.notes.extend(trace.set_clock(clock).err().map(|error| error.to_string()));
        }
        match self.finish_kernel(clock, rest, watch) {
            Ok(()) => self.summary.state = State::Finished,
            Err(error) => {
                self.summary.state = State::Incomplete;
                self.summary.kernel.extend(unconverted(&self.directory));
                self.summary.kernel_problem.get_or_insert(error.to_string());
            }
        }
        if self.purpose == Purpose::Keeping {
            count_events(&self.directory, &mut self.summary, watch);
        }
        let has_any = self.summary.user_events() != Some(0) || self.summary.kernel_events() > 0;
        if has_any || self.summary.lost() > 0 {
            self.summary.shortfall.no_events = None;
        }
        self.summary.recorder_cpu_seconds = cpu_seconds(ClockId::ProcessCPUTime);
        self.directory.use_last_room();
        self.summary.write(&self.directory)?;
        Ok((self.directory, self.summary))
    }

    /// Writes the recorder's own observations and converts the kernel's pages into its trace.
    fn finish_kernel(
        &mut self,
        clock: &TraceClock,
        rest: ChunkEnd,
        watch: &mut dyn Watch,
    ) -> Result<(), Error> {
        let is_counted = rest.kernel.is_ok();
        let emptied = match rest.kernel {
            Ok(emptied) => emptied,
            Err(error) => {
                self.summary.notes.push(format!("the kernel's events are incomplete: {error}"));
                Vec::new()
            }
        };
        for (what, written) in [
            ("the recorder's threads", self.write_recorder()),
            ("stolen time", self.kernel.write_stolen(&self.directory, &rest.stolen)),
            ("the cost of interrupts", self.kernel.write_gaps(&self.directory, &rest.gaps, clock)),
            ("the threads' contexts", self.kernel.write_contexts(&self.directory, &rest.observations)),
        ] {
            self.summary
                .notes
                .extend(written.err().map(|error| format!("{what} could not be written: {error}")));
        }
        if self.summary.kernel_events.is_empty() {
            return self.kernel.finish_without_events(&self.directory, clock);
        }
        let (total, mut done) = (raw_bytes(&self.directory), 0);
        let mut advance = |bytes| {
            done += bytes;
            watch.working("converting the kernel's events", done, total);
        };
        let end = End { ticks: clock.ticks(&rest.end), kernel: &emptied };
        let kernel = &mut self.summary.kernel;
        let converted = self.kernel.convert(&self.directory, clock, &end, kernel, &mut advance);
        if let Some(failure) = emptied.iter().find_map(|emptied| emptied.failure.clone()) {
            self.summary.kernel_problem.get_or_insert(failure);
        }
        if converted.is_err() {
            self.summary.pending = Some(self.kernel.pending(&end));
        }
        self.summary.notes.extend(converted?);
        let has_failed = emptied.iter().any(|emptied| emptied.failure.is_some());
        if is_counted && !has_failed && self.summary.has_all_of_the_kernel() {
            // Space became available before the kernel had to overwrite anything.
            self.summary.kernel_problem = None;
        }
        Ok(())
    }

    /// Records the names of the recorder's threads in the trace.
    fn write_recorder(&self) -> Result<(), Error> {
        match self.purpose {
            Purpose::Keeping => {
                self.kernel.write_recorder(&self.directory, &threads::since(self.begin.monotonic))
            }
            Purpose::Showing => Ok(()),
        }
    }

    /// Marks the missing end in files whose last packets could not be written.
    fn close_streams(&mut self) {
        for mut output in std::mem::take(&mut self.unclosed) {
            if let Err(error) = output.close() {
                let path = output.path();
                let note = format!("{} does not tell that its end is missing: {error}", path.display());
                self.summary.notes.push(note);
            }
        }
    }
}

fn clock_summary(clock: &TraceClock) -> ClockSummary {
    let ctf = clock.ctf();
    ClockSummary {
        name: ctf.name,
        reason: clock.not_cycles.as_ref().map(ToString::to_string),
        hertz: ctf.frequency as f64,
        uncertainty: clock.rate.uncertainty,
        offsets: clock.offsets.as_slice().iter().map(OffsetSummary::from).collect(),
    }
}
