//! A recording, from its first second to its last: one that ends with its command, or a session that goes on until it is told.

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

use crate::Error;
use crate::chunk::{Chunk, Rest};
use crate::clock::TraceClock;
use crate::command;
use crate::context::Watcher;
use crate::coverage::Coverage;
use crate::directory::Directory;
use crate::intake::{Intake, Job};
use crate::interrupted::{self, Gap};
use crate::kernel::{Emptied, Kernel};
use crate::limits;
use crate::listen::Listener;
use crate::missing::Missing;
use crate::options::{Options, Programs, UserEvents};
use crate::place::Place;
use crate::placement::Placement;
use crate::program::{Detachment, Traced};
use crate::rights;
use crate::series::{Ground, Series};
use crate::shortfall::Shortfall;
use crate::steal::Steal;
use crate::summary::Summary;
use crate::supply::Supply;
use bell::Bell;
use collector::Collector;
use control::{Asker, Control};
use live::Live;
use requests::Attaching;
use rustix::process::Rlimit;
use rustix::time::{ClockId, clock_gettime};
use search::Search;
use sightings::Sightings;
use skipped::Skipped;
use snapshots::Memory;
use sordino_clock::Sample;
use sordino_undo::Guardian;
use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use writer::Writer;

/// How often the recorder looks for what nobody tells it of.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// How long the programs that run already may take before a recording has begun without them.
const FIRST_SCAN: Duration = Duration::from_secs(2);

/// How long the last programs may take to be taken up when a recording ends.
const LAST_PROGRAMS: Duration = Duration::from_millis(500);

/// The time until recording begins, beyond which it is told.
const SLOW_START: Duration = Duration::from_secs(3);

/// Who wants to know how far a recording is.
pub trait Watch {
    /// It is recording: for so long, and with so many programs.
    fn recording(&mut self, since: Duration, programs: usize);
    /// It is doing `what` with what was recorded: so many bytes of so many are done.
    fn working(&mut self, what: &'static str, done: u64, total: u64);
}

/// Nobody does.
struct Nobody;

impl Watch for Nobody {
    fn recording(&mut self, _: Duration, _: usize) {}
    fn working(&mut self, _: &'static str, _: u64, _: u64) {}
}

/// What became of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// Where it lies.
    pub directory: Directory,
    /// What it holds.
    pub summary: Summary,
    /// How the command ended; `None` if there was none, or it is still running.
    pub status: Option<ExitStatus>,
    /// The command, if it is still running.
    pub running: Option<u32>,
}

/// Records as `options` say, until the command ends, the time is over, or `stop` becomes readable.
///
/// # Errors
/// Why nothing is recorded, or why what was recorded could not be finished. Nothing is changed on the machine then.
pub fn record(
    options: &Options,
    guardian: Option<&mut Guardian>,
    stop: BorrowedFd<'_>,
    watch: &mut dyn Watch,
) -> Result<Recorded, Error> {
    let directory = Directory::create(&options.output)?;
    let begun = Session::prepare(options, guardian, Some(directory.clone()), None)
        .and_then(|session| session.begun(watch));
    let mut session = begun.inspect_err(|_| directory.remove())?;
    let result = session.run(stop, watch);
    // Also after an error: what is in the rings belongs to the trace, and programs must be let go.
    let recorded = session.finish(watch)?;
    result?;
    let (directory, summary) = recorded.chunk.ok_or(Error::Kind(options.name.clone()))?;
    options.reader.into_iter().for_each(|(user, group)| directory.dir().give(user, group));
    Ok(Recorded { directory, summary, status: recorded.status, running: recorded.running })
}

/// What became of a session.
#[derive(Debug)]
pub struct Kept {
    /// How the command ended; `None` if there was none, or it is still running.
    pub status: Option<ExitStatus>,
    /// Why the last recordings could not be completed, if they could not.
    pub problems: Vec<String>,
    /// What could not be written.
    pub missing: Missing,
    /// What it was to record and did not.
    pub shortfall: Shortfall,
}

/// Keeps a session until its command ends, the time is over, it is told to stop, or `stop` becomes readable. `ready` is called when it
/// records; from then on it answers [requests](Request), and `write_now`, if there is one: a signalfd(2) that does not block, each of whose signals asks
/// for a snapshot of what is in memory, or for another chunk of what is on disk.
///
/// # Errors
/// Why nothing is recorded, and nothing is left then; or why it ended.
pub fn keep_session<'a>(
    options: &'a Options,
    guardian: Option<&'a mut Guardian>,
    stop: BorrowedFd<'_>,
    write_now: Option<BorrowedFd<'a>>,
    ready: impl FnOnce(),
) -> Result<Kept, Error> {
    let ground = Ground::take(&options.output, options.reader)?;
    let session = Session::prepare(options, guardian, None, Some(&ground));
    let session = session.and_then(|session| session.begun(&mut Nobody));
    let mut session = session.inspect_err(|_| ground.abandon(options.reader))?;
    session.write_now = write_now;
    ready();
    let result = session.run(stop, &mut Nobody);
    let ended = session.finish(&mut Nobody);
    // Also if that failed: there may be others.
    options.reader.into_iter().for_each(|reader| ground.give(reader));
    let Ended { status, problems, missing, shortfall, .. } = ended?;
    result.map(|()| Kept { status, problems, missing, shortfall })
}

struct Session<'a> {
    options: &'a Options,
    guardian: Option<&'a mut Guardian>,
    clock: TraceClock,
    listener: Listener,
    kernel: Option<Kernel>,
    /// Kernel events that were overwritten because those of the present chunk can't be written.
    kernel_lost: u64,
    /// When they last could not be.
    kernel_failed: Option<Instant>,
    collector: Collector,
    bell: Bell,
    /// Where what is recorded goes.
    sink: Sink,
    /// Of a session that is not just one recording.
    outlet: Option<Outlet>,
    /// The tracepoints that are wanted now.
    user: UserEvents,
    /// What their rules have chosen.
    coverage: Coverage,
    /// The processes that were named.
    pids: Vec<i32>,
    programs: Vec<Traced>,
    /// Programs that are about to be.
    intake: Intake,
    /// The supply of pages for the programs' rings.
    supply: Supply,
    /// Programs that are about to be let go.
    detachments: Vec<Detachment>,
    /// Programs whose areas other jobs attach to at this moment.
    postponed: Vec<Job>,
    /// Requests whose processes are being taken up.
    attaching: Vec<Attaching>,
    /// The limit of descriptors that the command gets.
    descriptors: Rlimit,
    /// How many programs there were.
    numbered: usize,
    /// Looks for programs that do not announce themselves.
    search: Search,
    /// The CPUs of the recorder's threads.
    placement: Placement,
    /// The time of the collector's last report of rings that have moved on, and the number of programs at that time.
    placed: (Instant, usize),
    skipped: Skipped,
    /// The command's processes, and the programs that were recorded.
    sightings: Sightings,
    /// Whether a tracepoint was ever enabled, and whether there was ever an event.
    had_enabled: bool,
    has_events: bool,
    /// Programs for whose traces there was no room.
    unplaced: HashSet<i32>,
    /// Areas that were announced and are being taken up, by the numbers of their jobs.
    expected: HashMap<u64, answers::Area>,
    /// Areas that are recorded, or were counted as not recorded.
    accounted: HashSet<answers::Area>,
    /// Programs that a flight recorder could not record, for its snapshots.
    misses: answers::Misses,
    child: Option<Child>,
    status: Option<ExitStatus>,
    /// What every summary of this session says.
    template: Summary,
    /// For who follows.
    live: Option<Live>,
    steal: Steal,
    /// Gaps that interrupts made in the recorder's own loop when recording began.
    gaps: Vec<Gap>,
    /// When that was looked at.
    looked: Instant,
    /// Looks at the programs' threads.
    watcher: Watcher,
    /// The time at which recording began; before that, at which the session began to prepare it.
    began: Instant,
    failed: bool,
    /// It was told to stop.
    stopped: bool,
    /// Signals that ask for what was recorded.
    write_now: Option<BorrowedFd<'a>>,
}

/// Where what is recorded goes.
enum Sink {
    /// To disk.
    Chunk(Box<Chunk>),
    /// Nowhere, until a snapshot is asked for.
    Memory(Memory),
}

/// How a session's recordings are numbered, finished and asked for.
struct Outlet {
    series: Series,
    writer: Writer,
    control: Control,
    /// What went wrong with recordings before.
    notes: Vec<String>,
    /// What those before lack.
    missing: Missing,
    /// How often there was a reason to take a snapshot that no person had.
    triggers: u64,
    /// How many were taken for such a reason, and when the last one was.
    taken: u64,
    triggered: Option<Instant>,
    /// The stamp from which on events rank a snapshot: those before it ranked the last one.
    unranked: u64,
    /// How bad the finished snapshots are, of those that are ranked: each one's summary is read once.
    badness: HashMap<PathBuf, Option<f64>>,
    /// When the present chunk began.
    rotated: Instant,
    /// The time at which the chunk's size is next read.
    size_due: Instant,
    /// When the next one last could not be begun.
    not_rotated: Option<Instant>,
    /// Whether a flight recorder takes a last snapshot.
    last_snapshot: bool,
    /// Who waits for all to be complete.
    enders: Vec<Asker>,
}

/// How a session ended.
struct Ended {
    /// The last recording, of a session that writes to disk.
    chunk: Option<(Directory, Summary)>,
    status: Option<ExitStatus>,
    running: Option<u32>,
    /// Of a session: why recordings could not be completed.
    problems: Vec<String>,
    /// Of a session: what could not be written.
    missing: Missing,
    shortfall: Shortfall,
}

impl<'a> Session<'a> {
    /// Takes hold of what runs already, and starts the command. If that fails, programs are let go and nothing is left.
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
            kernel.start(Place::of(self.options))?;
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

    /// Address space that a program should reserve for this session and a few others.
    fn reserve(&self) -> u64 {
        let geometry = self.options.geometry;
        let ring = geometry.data_size() + geometry.table_size();
        let rings = self.options.cpus.as_slice().len() + 1;
        (2 * (rings * ring + geometry.commits_size()) + (64 << 20)).max(1 << 30) as u64
    }

    /// Takes what is left everywhere and makes what is on disk what it is at rest.
    fn finish(mut self, watch: &mut dyn Watch) -> Result<Ended, Error> {
        // A program that announced itself and ended at once is still taken up.
        self.take_all_announced_until(Instant::now() + LAST_PROGRAMS);
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
        // Also if that failed: there may be others, and somebody who waits for them.
        let finish = |outlet: Outlet| outlet.finish(chunk.as_ref(), &shortfall, self.options);
        let (problems, missing) = self.outlet.map(finish).unwrap_or_default();
        let running = self.child.as_ref().map(Child::id);
        Ok(Ended { chunk: chunk.transpose()?, status: self.status, running, problems, missing, shortfall })
    }

    /// What a chunk that ends now has besides its programs' traces.
    fn rest(&mut self, kernel: Result<Vec<Emptied>, Error>) -> Rest {
        let end = Sample::take();
        self.clock.refine(&end);
        let told = self.watcher.rotate();
        let gaps = std::mem::take(&mut self.gaps);
        Rest { end, kernel, stolen: self.steal.take_stolen(), gaps, told }
    }
}

pub(crate) fn cpu_seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
