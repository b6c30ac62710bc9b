//! The state of a session, in parts that have names.

use super::bell::Bell;
use super::collector::Collector;
use super::control::WaitingClient;
use super::kernel::KernelSource;
use super::machine::MachineTime;
use super::placing::Placing;
use super::recordings::Recordings;
use super::search::ProcessSearch;
use super::sightings::Sightings;
use super::skipped::Skipped;
use crate::coverage::Coverage;
use crate::options::SessionOptions;
use rustix::process::Rlimit;
use sordino_collect::options::UserEvents;
use sordino_collect::program::Traced;
use sordino_event::Ticks;
use sordino_inspect::clock::TraceClock;
use sordino_intake::{Detachment, Intake, Job, Listener, Supply};
use std::collections::{HashMap, HashSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// A recording session, which attaches to programs and leads the threads that empty rings and write traces.
pub(super) struct RecordingSession<'a> {
    pub(super) options: &'a SessionOptions,
    pub(super) clock: TraceClock,
    /// The tracepoints that are enabled at present.
    pub(super) user: UserEvents,
    pub(super) listener: Listener,
    pub(super) kernel: KernelSource<'a>,
    pub(super) collector: Collector,
    pub(super) bell: Bell,
    pub(super) recordings: Recordings,
    pub(super) recorded: RecordedPrograms,
    pub(super) arrivals: Arrivals,
    pub(super) findings: ShortfallEvidence,
    pub(super) placing: Placing,
    pub(super) command: RecordedCommand,
    pub(super) machine: MachineTime,
    pub(super) progress: SessionProgress<'a>,
}

impl RecordingSession<'_> {
    /// Returns the timestamp `last` before now; without `last`, by the session's setting for snapshots.
    pub(super) fn since(&self, last: Option<Duration>) -> Ticks {
        let last = last.or(self.options.series.as_ref().and_then(|series| series.snapshots.last));
        let back = last.map_or(u64::MAX, |last| self.clock.ticks_in(last));
        self.clock.now()().before(back)
    }
}

/// The programs that are recorded, and those that are being detached from.
pub(super) struct RecordedPrograms {
    pub(super) programs: Vec<Traced>,
    /// The number of programs so far.
    pub(super) numbered: usize,
    pub(super) supply: Supply,
    /// Programs that are being detached from.
    pub(super) detachments: Vec<Detachment>,
}

/// Programs on their way into the recording: the search for them, and the jobs that attach to them.
pub(super) struct Arrivals {
    /// Programs to which the recorder is attaching.
    pub(super) intake: Intake,
    /// The processes that the user named.
    pub(super) named: Vec<i32>,
    /// The search for programs that have not registered.
    pub(super) search: ProcessSearch,
    /// Jobs whose answers wait for other jobs, or for a large catalogue.
    pub(super) postponed: Vec<Job>,
    /// Requests to attach to processes that are in progress.
    pub(super) attaching: Vec<Attaching>,
    /// Areas that were registered and are being attached to, by the numbers of their jobs.
    pub(super) expected: HashMap<u64, RegisteredArea>,
    /// Areas that are recorded, or were counted as not recorded.
    pub(super) accounted: HashSet<RegisteredArea>,
}

/// A process id, and the inode number of an area that the process registered.
pub(super) type RegisteredArea = (i32, u64);

/// Maximum number of areas that are remembered. A program registers once for each module, mostly within a second.
const MOST: usize = 10_000;

impl Arrivals {
    /// Remembers an area as recorded or counted, so that a later registration of its program is not counted again.
    /// Returns false if it was remembered already.
    pub(super) fn account_for(&mut self, area: RegisteredArea) -> bool {
        if self.accounted.len() >= MOST {
            self.accounted.clear();
        }
        self.accounted.insert(area)
    }
}

/// A request to record processes to which the intake is attaching.
pub(super) struct Attaching {
    pub(super) client: WaitingClient,
    /// The jobs that have not returned.
    pub(super) tickets: Vec<u64>,
    /// The reason for the first process that could not be recorded.
    pub(super) refused: Option<String>,
}

/// Observations that explain missing events and programs that are not recorded.
pub(super) struct ShortfallEvidence {
    /// The matches of the rules so far.
    pub(super) coverage: Coverage,
    pub(super) skipped: Skipped,
    /// The command's processes, and the programs that were recorded.
    pub(super) sightings: Sightings,
    /// True if a tracepoint was ever enabled.
    pub(super) had_enabled: bool,
    /// True if there was ever an event.
    pub(super) has_events: bool,
}

/// The command that the session started, if it started one.
pub(super) struct RecordedCommand {
    /// The limit of descriptors that the command gets.
    pub(super) descriptors: Rlimit,
    pub(super) child: Option<Child>,
    /// The child's process. Its end is seen at once, not at the next tick; `None` where the kernel gave no descriptor.
    pub(super) pidfd: Option<OwnedFd>,
    pub(super) status: Option<ExitStatus>,
}

/// The progress of a session, and the reasons for its end.
pub(super) struct SessionProgress<'a> {
    /// The time at which recording began; before that, the time at which preparation began.
    pub(super) began: Instant,
    pub(super) failed: bool,
    /// True once a request has stopped the session.
    pub(super) stopped: bool,
    /// Signals that request a snapshot or another chunk.
    pub(super) write_now: Option<BorrowedFd<'a>>,
}
