//! A recording from its first second to its last: one that ends with its command, or a session that continues until it
//! is stopped.

mod answers;
mod bell;
mod chunks;
mod collector;
mod control;
mod detach;
mod live;
mod placing;
mod prepare;
mod programs;
mod requests;
mod run;
mod search;
mod shortfall;
mod sightings;
mod signals;
mod skipped;
mod snapshots;
mod status;
mod summarise;
mod writer;

pub use control::{Reply, Request, ask};
pub use status::{MemoryStatus, ProgramStatus, RecordingStatus, RingStatus, Status};

use crate::command;
use crate::coverage::Coverage;
use bell::Bell;
use collector::Collector;
use control::{Asker, Control};
use live::Live;
use requests::Attaching;
use rustix::process::Rlimit;
use search::Search;
use sightings::Sightings;
use skipped::Skipped;
use snapshots::Memory;
use sordino_clock::Sample;
use sordino_collect::Error;
use sordino_collect::chunk::{Chunk, ChunkEnd};
use sordino_collect::context::Watcher;
use sordino_collect::directory::Directory;
use sordino_collect::kernel::{Emptied, KernelRecorder};
use sordino_collect::missing::UnwrittenData;
use sordino_collect::options::{Options, Programs, UserEvents};
use sordino_collect::place::CollectorPlace;
use sordino_collect::placement::CpuPlacement;
use sordino_collect::program::Traced;
use sordino_collect::series::{Ground, Series};
use sordino_collect::shortfall::Shortfall;
use sordino_collect::summary::Summary;
use sordino_collect::watch::{Nobody, Watch};
use sordino_inspect::clock::TraceClock;
use sordino_inspect::interrupted::{self, InterruptedTime};
use sordino_inspect::rights;
use sordino_inspect::steal::Steal;
use sordino_intake::Detachment;
use sordino_intake::Listener;
use sordino_intake::Supply;
use sordino_intake::limits;
use sordino_intake::{Intake, Job};
use sordino_undo::Guardian;
use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use writer::Writer;

/// Time between two checks of everything that causes no wake-up.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Longest wait, before recording begins, for programs that are running already.
const FIRST_SCAN: Duration = Duration::from_secs(2);

/// Longest wait at the end of a recording for programs that have just registered.
const LAST_PROGRAMS: Duration = Duration::from_millis(500);

/// Preparation time beyond which the summary gets a note.
const SLOW_START: Duration = Duration::from_secs(3);

/// The result of a recording.
#[derive(Debug)]
pub struct FinishedRecording {
    /// The directory of the recording.
    pub directory: Directory,
    /// The summary of the recording.
    pub summary: Summary,
    /// The exit status of the command; `None` if there was none, or it is still running.
    pub status: Option<ExitStatus>,
    /// The command's process id, if it is still running.
    pub running: Option<u32>,
}

/// Records with these options until the command ends, the duration is over, or `stop` becomes readable.
///
/// # Errors
/// If recording could not start, or could not be completed. No change to the machine is left then.
pub fn record(
    options: &Options,
    guardian: Option<&mut Guardian>,
    stop: BorrowedFd<'_>,
    watch: &mut dyn Watch,
) -> Result<FinishedRecording, Error> {
    let directory = Directory::create(&options.output)?;
    let begun = Session::prepare(options, guardian, Some(directory.clone()), None)
        .and_then(|session| session.begun(watch));
    let mut session = begun.inspect_err(|_| directory.remove())?;
    let result = session.run(stop, watch);
    // After an error as well: the rest of the rings belongs to the trace, and programs must be detached from.
    let recorded = session.finish(watch)?;
    result?;
    let (directory, summary) = recorded.chunk.ok_or(Error::Kind(options.name.clone()))?;
    options.reader.into_iter().for_each(|(user, group)| directory.dir().give(user, group));
    Ok(FinishedRecording { directory, summary, status: recorded.status, running: recorded.running })
}

/// The result of a session.
#[derive(Debug)]
pub struct SessionResult {
    /// The exit status of the command; `None` if there was none, or it is still running.
    pub status: Option<ExitStatus>,
    /// The reasons that the last recordings could not be completed, if any.
    pub problems: Vec<String>,
    /// The data that could not be written.
    pub missing: UnwrittenData,
    /// Missing events, with the reasons.
    pub shortfall: Shortfall,
}

/// Runs a session until its command ends, the duration is over, a request stops it, or `stop` becomes readable. `ready`
/// is called when it records. From then on it answers [requests](Request), and signals from `write_now`, a non-blocking
/// signalfd(2): each one requests a snapshot from a flight recorder, or another chunk from a session that writes to
/// disk.
///
/// # Errors
/// If recording could not start, in which case nothing is left behind; or the reason that it ended.
pub fn keep_session<'a>(
    options: &'a Options,
    guardian: Option<&'a mut Guardian>,
    stop: BorrowedFd<'_>,
    write_now: Option<BorrowedFd<'a>>,
    ready: impl FnOnce(),
) -> Result<SessionResult, Error> {
    let ground = Ground::take(&options.output, options.reader)?;
    let session = Session::prepare(options, guardian, None, Some(&ground));
    let session = session.and_then(|session| session.begun(&mut Nobody));
    let mut session = session.inspect_err(|_| ground.abandon(options.reader))?;
    session.write_now = write_now;
    ready();
    let result = session.run(stop, &mut Nobody);
    let ended = session.finish(&mut Nobody);
    // After an error as well: there may be other recordings.
    options.reader.into_iter().for_each(|reader| ground.give(reader));
    let Ended { status, problems, missing, shortfall, .. } = ended?;
    result.map(|()| SessionResult { status, problems, missing, shortfall })
}

struct Session<'a> {
    options: &'a Options,
    guardian: Option<&'a mut Guardian>,
    clock: TraceClock,
    listener: Listener,
    kernel: Option<KernelRecorder>,
    /// Kernel events that were overwritten because those of the present chunk can't be written.
    kernel_lost: u64,
    /// The time of the last failure to write them.
    kernel_failed: Option<Instant>,
    collector: Collector,
    bell: Bell,
    /// The destination of the records.
    sink: Sink,
    /// The output of a session, which has several recordings.
    outlet: Option<Outlet>,
    /// The tracepoints that are enabled at present.
    user: UserEvents,
    /// The matches of the rules so far.
    coverage: Coverage,
    /// The processes that the user named.
    pids: Vec<i32>,
    programs: Vec<Traced>,
    /// Programs to which the recorder is attaching.
    intake: Intake,
    supply: Supply,
    /// Programs that are being detached from.
    detachments: Vec<Detachment>,
    /// Jobs whose answers wait for other jobs, or for a large catalogue.
    postponed: Vec<Job>,
    /// Requests to attach to processes that are in progress.
    attaching: Vec<Attaching>,
    /// The limit of descriptors that the command gets.
    descriptors: Rlimit,
    /// The number of programs so far.
    numbered: usize,
    /// The search for programs that have not registered.
    search: Search,
    placement: CpuPlacement,
    /// The time of the collector's last report of rings that have advanced, and the number of programs at that time.
    placed: (Instant, usize),
    skipped: Skipped,
    /// The command's processes, and the programs that were recorded.
    sightings: Sightings,
    /// True if a tracepoint was ever enabled, and true if there was ever an event.
    had_enabled: bool,
    has_events: bool,
    /// Programs for whose traces there was no room.
    unplaced: HashSet<i32>,
    /// Areas that were registered and are being attached to, by the numbers of their jobs.
    expected: HashMap<u64, answers::Area>,
    /// Areas that are recorded, or were counted as not recorded.
    accounted: HashSet<answers::Area>,
    /// Programs that a flight recorder could not record, for its snapshots.
    misses: answers::Misses,
    child: Option<Child>,
    status: Option<ExitStatus>,
    /// The common part of the session's summaries.
    template: Summary,
    /// The state of the live reader, if there is one.
    live: Option<Live>,
    steal: Steal,
    /// Gaps that interrupts made in the recorder's own loop when recording began.
    gaps: Vec<InterruptedTime>,
    /// The time of the last reading of steal time.
    looked: Instant,
    watcher: Watcher,
    /// The time at which recording began; before that, the time at which preparation began.
    began: Instant,
    failed: bool,
    /// True once a request has stopped the session.
    stopped: bool,
    /// Signals that request a snapshot or another chunk.
    write_now: Option<BorrowedFd<'a>>,
}

/// The destination of the records.
enum Sink {
    /// The present chunk, on disk.
    Chunk(Box<Chunk>),
    /// Memory only, until a snapshot is requested.
    Memory(Memory),
}

/// The recordings of a session: their series, the thread that completes them, and requests for them.
struct Outlet {
    series: Series,
    writer: Writer,
    control: Control,
    /// Errors of earlier recordings.
    notes: Vec<String>,
    /// The data that earlier recordings lack.
    missing: UnwrittenData,
    /// The number of automatic triggers for a snapshot so far.
    triggers: u64,
    /// The number of snapshots taken for them, and the time of the last one.
    taken: u64,
    triggered: Option<Instant>,
    /// The timestamp from which on events rank a snapshot; earlier ones ranked the last one.
    unranked: u64,
    /// Ranks of the finished snapshots, where ranked: each one's summary is read once.
    badness: HashMap<PathBuf, Option<f64>>,
    /// The time at which the present chunk began.
    rotated: Instant,
    /// The time at which the chunk's size is next read.
    size_due: Instant,
    /// The time of the last failure to begin the next chunk.
    not_rotated: Option<Instant>,
    /// True if a flight recorder takes a last snapshot.
    last_snapshot: bool,
    /// The clients that wait until all recordings are complete.
    enders: Vec<Asker>,
}

/// The result of a session, for its caller.
struct Ended {
    /// The last recording of a session that writes to disk.
    chunk: Option<(Directory, Summary)>,
    status: Option<ExitStatus>,
    running: Option<u32>,
    /// The reasons that a session's recordings could not be completed.
    problems: Vec<String>,
    /// The data that a session could not write.
    missing: UnwrittenData,
    shortfall: Shortfall,
}

impl<'a> Session<'a> {
    /// Attaches to running programs, and starts the command. On failure, programs are detached from and nothing is left
    /// behind.
    fn begun(mut self, watch: &mut dyn Watch) -> Result<Self, Error> {
        match self.begin() {
            Ok(()) => Ok(self),
            Err(error) => {
                if let Some(outlet) = &mut self.outlet {
                    outlet.last_snapshot = false;
                }
                let ended = self.finish(watch);
                if let Ok(Ended { chunk: Some((directory, _)), .. }) = ended {
                    directory.remove();
                }
                Err(error)
            }
        }
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.look_at_steal();
        if let Sink::Chunk(chunk) = &self.sink {
            chunk.announce()?;
        }
        for index in 0..self.pids.len() {
            self.attach_named(self.pids[index])?;
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.start(CollectorPlace::of(self.options))?;
            if kernel.formats.events().any(|event| event.name == "local_timer_exit") {
                self.gaps = interrupted::measure(self.clock.now(), |time| self.clock.ticks_in(time));
            }
        }
        match &self.options.programs {
            Programs::Command(line) => {
                let reserve = self.reserve();
                let environment = self.listener.environment();
                let child = limits::with(self.descriptors, || command::start(line, environment, reserve));
                let failed = |source| Error::Command { command: line.program.clone(), source };
                let child = child.map_err(failed)?;
                let name = line.program.file_name().unwrap_or_default().to_string_lossy();
                self.sightings.add(child.id() as i32, &name, None);
                self.child = Some(child);
            }
            Programs::Pids(_) => {}
            Programs::All if self.options.kernel_only => {}
            Programs::All => {
                self.search_all();
                self.take_up_all_until(Instant::now() + FIRST_SCAN);
            }
        }
        if self.options.confine {
            rights::confine();
        }
        let prepared = self.began.elapsed();
        if prepared > SLOW_START {
            let seconds = prepared.as_secs_f64();
            self.tell(format!(
                "it took {seconds:.1} s until recording began: the machine was busy, as when real-time threads of others have its CPUs; \
                 one that they leave free helps (taskset, sordino shield)"
            ));
        }
        self.began = Instant::now();
        Ok(())
    }

    /// Returns the address space that a program should reserve for this session and a few others, in bytes.
    fn reserve(&self) -> u64 {
        let geometry = self.options.geometry;
        let ring = geometry.data_size() + geometry.table_size();
        let rings = self.options.cpus.as_slice().len() + 1;
        (2 * (rings * ring + geometry.commits_size()) + (64 << 20)).max(1 << 30) as u64
    }

    /// Reads the rest of all buffers and completes the recordings.
    fn finish(mut self, watch: &mut dyn Watch) -> Result<Ended, Error> {
        // A program that registered and ended at once is still recorded.
        self.take_registrations_until(Instant::now() + LAST_PROGRAMS);
        self.take_up_all_until(Instant::now() + LAST_PROGRAMS);
        self.programs.iter().for_each(Traced::disable);
        self.look_at_steal();
        if matches!(self.sink, Sink::Memory(_))
            && self.outlet.as_ref().is_some_and(|outlet| outlet.last_snapshot)
        {
            let last = self.snapshot(None, "stop");
            self.write(last, None);
        }
        let kernel = match (self.kernel.take(), self.guardian.take()) {
            (Some(mut kernel), Some(guardian)) => kernel.finish(guardian),
            _ => Ok(Vec::new()),
        };
        while let Some(program) = self.programs.first() {
            let number = program.number();
            self.let_go(number);
        }
        self.wait_for_leaving(Instant::now() + LAST_PROGRAMS);
        self.count_expected();
        self.end_detachments();
        let collector_cpu_seconds = self.collector.stop();
        let rest = self.rest(kernel);
        let (shortfall, memory) = (self.shortfall(), self.memory());
        let chunk = match self.sink {
            Sink::Chunk(mut chunk) => {
                chunk.summary.shortfall = shortfall.clone();
                chunk.summary.collector_cpu_seconds = collector_cpu_seconds;
                chunk.summary.notes.extend(memory.note());
                chunk.summary.notes.extend(self.skipped.notes().chain(self.listener.refused()));
                Some(chunk.finish(&self.clock, rest, watch))
            }
            Sink::Memory(_) => None,
        };
        // After an error as well: there may be other recordings, and clients that wait for them.
        let finish = |outlet: Outlet| outlet.finish(chunk.as_ref(), &shortfall, self.options);
        let (problems, missing) = self.outlet.map(finish).unwrap_or_default();
        let running = self.child.as_ref().map(Child::id);
        Ok(Ended { chunk: chunk.transpose()?, status: self.status, running, problems, missing, shortfall })
    }

    /// Returns the data of a chunk that ends now, other than its programs' traces.
    fn rest(&mut self, kernel: Result<Vec<Emptied>, Error>) -> ChunkEnd {
        let end = Sample::take();
        self.clock.refine(&end);
        let observations = self.watcher.rotate();
        let gaps = std::mem::take(&mut self.gaps);
        ChunkEnd { end, kernel, stolen: self.steal.take_stolen(), gaps, observations }
    }
}
