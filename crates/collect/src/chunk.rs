//! One recording as it is put together: the whole of what `record` makes, one of the chunks of a session that rotates, or a snapshot.

use crate::Error;
use crate::clock::TraceClock;
use crate::context::Told;
use crate::convert::{End, KernelTrace, raw_bytes, unconverted};
use crate::count::count_events;
use crate::directory::Directory;
use crate::interrupted::Gap;
use crate::kernel::Emptied;
use crate::output::Output;
use crate::program::ProgramTrace;
use crate::rank::{Hits, rank};
use crate::session::{Watch, cpu_seconds};
use crate::steal::Stolen;
use crate::summary::{ClockSummary, ProgramSummary, State, Summary};
use crate::threads;
use crate::why::{ASKED, last_asked};
use rustix::time::ClockId;
use sordino_clock::Sample;

/// What a recording is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be kept: it names all it can and counts its events.
    Keeping,
    /// To be shown at once to who has seen what was before: its events alone.
    Showing,
}

/// A recording that is being put together. Whoever has it may finish it on another thread.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) directory: Directory,
    pub(crate) summary: Summary,
    begin: Sample,
    purpose: Purpose,
    kernel: KernelTrace,
    /// The programs' traces that hold all they will.
    traces: Vec<ProgramTrace>,
    /// Their files that do not tell yet that their end is missing.
    unclosed: Vec<Output>,
}

/// What the kernel had when a chunk ended, and what the hypervisor took meanwhile.
#[derive(Debug)]
pub(crate) struct Rest {
    /// When the chunk ended.
    pub(crate) end: Sample,
    /// What became of the kernel's buffers.
    pub(crate) kernel: Result<Vec<Emptied>, Error>,
    /// In the order of time.
    pub(crate) stolen: Vec<Stolen>,
    /// Gaps that interrupts made in the recorder's own loop, in the order of time.
    pub(crate) gaps: Vec<Gap>,
    /// What was told of threads.
    pub(crate) told: Vec<Told>,
}

impl Chunk {
    /// Begins with the state dump, as of now: events from `begin` on belong to it.
    pub(crate) fn begin(
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

    /// Waits until the state dump is written, some seconds at most.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.summary.notes.extend(self.kernel.settle()?);
        Ok(())
    }

    /// The same; why it could not be written is said in the summary.
    pub(crate) fn settle_or_note(&mut self) {
        if let Err(error) = self.settle() {
            self.summary.notes.push(format!("the state at the start is missing: {error}"));
        }
    }

    /// Makes it known as a recording that is under way.
    pub(crate) fn announce(&self) -> Result<(), Error> {
        self.summary.write(&self.directory)
    }

    /// A program's trace holds all that it will of this chunk, but for what tells that the end of some files is missing.
    pub(crate) fn add(&mut self, (program, unclosed): (ProgramSummary, Vec<Output>), trace: ProgramTrace) {
        self.summary.programs.push(program);
        self.unclosed.extend(unclosed);
        self.traces.push(trace);
    }

    /// Lets the summary of a snapshot that a program asked for say what the program said.
    pub(crate) fn tell_why(&mut self) {
        if self.summary.reason.as_deref() == Some(ASKED) {
            let said = self.traces.iter().filter_map(last_asked).max();
            self.summary.reason =
                said.map_or(self.summary.reason.take(), |(_, why)| Some(format!("{ASKED}: {why}")));
        }
    }

    /// Lets the summary of a snapshot say how bad it is what it was taken for.
    pub(crate) fn rank(&mut self, hits: &Hits) {
        let rank = rank(&self.traces, hits);
        if rank.value.is_none() {
            let why = format!("no {} of the event that asked for it is in it: it ranks last", rank.field);
            self.summary.notes.push(why);
        }
        self.summary.rank = Some(rank);
    }

    /// Makes the directory what it is at rest.
    ///
    /// # Errors
    /// Why not even the summary could be written. All else that went wrong is said there.
    pub(crate) fn finish(
        mut self,
        clock: &TraceClock,
        rest: Rest,
        watch: &mut dyn Watch,
    ) -> Result<(Directory, Summary), Error> {
        self.summary.duration_ns = rest.end.monotonic.saturating_sub(self.begin.monotonic);
        self.summary.clock = clock_summary(clock);
        self.summary.programs.sort_by_key(|program| program.trace.clone());
        self.directory.use_room();
        self.close_streams();
        self.settle_or_note();
        for trace in &self.traces {
            // What stays is the metadata of before, with a clock that is known less well.
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

    /// Turns what the kernel recorded into its trace.
    fn finish_kernel(&mut self, clock: &TraceClock, rest: Rest, watch: &mut dyn Watch) -> Result<(), Error> {
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
            ("the threads' contexts", self.kernel.write_contexts(&self.directory, &rest.told)),
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
            // There was room again before the kernel had to overwrite anything.
            self.summary.kernel_problem = None;
        }
        Ok(())
    }

    /// Has the trace name the threads that recorded.
    fn write_recorder(&self) -> Result<(), Error> {
        match self.purpose {
            Purpose::Keeping => {
                self.kernel.write_recorder(&self.directory, &threads::since(self.begin.monotonic))
            }
            Purpose::Showing => Ok(()),
        }
    }

    /// Has the files of which the end could not be written tell of that.
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
    }
}
