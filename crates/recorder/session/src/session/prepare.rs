//! Prepares a session before anything is recorded.

use super::bell::{Bell, TICK};
use super::collector::Collector;
use super::kernel::KernelSource;
use super::machine::MachineTime;
use super::memory::SnapshotMemory;
use super::misses::Misses;
use super::outlet::Outlet;
use super::placing::Placing;
use super::recordings::{RecordSink, Recordings, chunk};
use super::search::ProcessSearch;
use super::sightings::Sightings;
use super::skipped::Skipped;
use super::state::{
    Arrivals, RecordedCommand, RecordedPrograms, RecordingSession, SessionProgress, ShortfallEvidence,
};
use crate::coverage::Coverage;
use crate::options::{Programs, SessionOptions};
use rustix::process::geteuid;
use sordino_collect::Error;
use sordino_collect::context::Watcher;
use sordino_collect::directory::{Directory, RAW, page_file};
use sordino_collect::drain::{TriggerSettings, Work};
use sordino_collect::kernel::KernelRecorder;
use sordino_collect::options::Polling;
use sordino_collect::placement::CpuPlacement;
use sordino_collect::series::Ground;
use sordino_collect::summary::Summary;
use sordino_event::functions;
use sordino_event::{Cpu, EventCosts};
use sordino_inspect::clock::{FirstLook, TraceClock};
use sordino_inspect::counters::CounterWatch;
use sordino_inspect::event_cost;
use sordino_inspect::steal::Steal;
use sordino_intake::{Intake, IntakeLimits, Listener, Supply, Wishes, limits};
use sordino_registration::trust::uses_prepared_area;
use sordino_ring::write::TimestampClock;
use sordino_undo::Guardian;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

impl<'a> RecordingSession<'a> {
    /// Creates everything that recording needs: for a single `directory`, or for a session with a series of recordings
    /// on a `ground`.
    pub(super) fn prepare(
        options: &'a SessionOptions,
        mut guardian: Option<&'a mut Guardian>,
        directory: Option<Directory>,
        ground: Option<&Ground>,
    ) -> Result<Self, Error> {
        let began = Instant::now();
        let descriptors = limits::raise_descriptors();
        let look = FirstLook::begin();
        let bell = Bell::new()?;
        let ring = bell.clone();
        let wishes = wishes(options, look.ring_clock());
        let allowed = IntakeLimits::of_this_machine(options.max_memory);
        let intake = Intake::new(wishes, allowed, move || ring.ring());
        if awaits_programs(options) {
            // Beside all other preparations.
            intake.prepare_area();
        }
        let mut outlet = Outlet::of(options, ground, &bell)?;
        let directory = match (&mut outlet, directory) {
            (_, Some(directory)) => Some(directory),
            (Some(outlet), None) if !options.recording.geometry.overwrite => Some(outlet.series.next()?),
            _ => None,
        };
        let mut memory = SnapshotMemory::new(&options.recording);
        let raw = directory.as_ref().map(|directory| directory.part(RAW)).transpose()?;
        let file = |cpu| match &raw {
            Some(raw) => page_file(raw, cpu),
            None => memory.add_cpu(cpu),
        };
        let user = event_cost::of_programs(look.ring_clock());
        let placement = CpuPlacement::here(options.recording.collector_cpu, options.shielded);
        let mut counters = CounterWatch::default();
        if look.ring_clock() == TimestampClock::Cycles {
            counters.begin(&placement.unshielded());
        }
        let mut clock = look.end();
        counters.ended().into_iter().for_each(|offset| clock.offsets.add(offset));
        let kernel = match guardian.as_deref_mut() {
            Some(guardian) if !options.recording.kernel.is_empty() => {
                Some(KernelRecorder::prepare(&options.recording, &clock, guardian, file)?)
            }
            _ => None,
        };
        let kernel_cost = kernel.as_ref().and_then(|kernel| kernel.event_cost);
        clock.set_costs(&EventCosts { user, kernel: kernel_cost });
        let recorder_cpus = placement.cpus();
        let template = Summary { recorder_cpus, ..Summary::of(&options.recording, &clock, kernel.as_ref()) };
        let sink = match directory {
            Some(directory) => {
                let mut chunk = chunk(directory, &template, &clock, kernel.as_ref())?;
                // The dump is complete before recording begins, so that running threads have names.
                chunk.settle()?;
                RecordSink::Chunk(Box::new(chunk))
            }
            None => RecordSink::Memory(memory),
        };
        let series = options.series.as_ref();
        let mut listener = series.map_or_else(Listener::new, |series| Listener::at(&series.runtime))?;
        listener.offer(intake.prepared());
        let collector = Collector::start(&options.recording, work(options, &clock), &clock, bell.clone())?;
        let mut coverage = Coverage::default();
        coverage.set_rules(&options.recording.user);
        let named = match &options.programs {
            Programs::Pids(pids) => pids.clone(),
            _ => Vec::new(),
        };
        let recorder = kernel;
        Ok(Self {
            options,
            clock,
            user: options.recording.user.clone(),
            listener,
            kernel: KernelSource { guardian, recorder, lost: 0, failed: None },
            collector,
            bell,
            recordings: Recordings {
                sink,
                outlet,
                template,
                misses: Misses::default(),
                unplaced: HashSet::new(),
                live: None,
            },
            recorded: RecordedPrograms {
                programs: Vec::new(),
                numbered: 0,
                supply: Supply::begin(options.shielded),
                detachments: Vec::new(),
            },
            arrivals: Arrivals {
                intake,
                named,
                search: ProcessSearch::new(!options.kernel_only),
                postponed: Vec::new(),
                attaching: Vec::new(),
                expected: HashMap::new(),
                accounted: HashSet::new(),
            },
            findings: ShortfallEvidence {
                coverage,
                skipped: Skipped::default(),
                sightings: Sightings::default(),
                had_enabled: false,
                has_events: false,
            },
            placing: Placing { placement, requested: (Instant::now(), 0) },
            command: RecordedCommand { descriptors, child: None, pidfd: None, status: None },
            machine: MachineTime {
                steal: Steal::here(),
                gaps: Vec::new(),
                looked: Instant::now(),
                watcher: Watcher::new(options.recording.contexts),
                counters,
            },
            progress: SessionProgress { began, failed: false, stopped: false, write_now: None },
        })
    }
}

/// Returns true if programs may start that would use [an area of this recorder's](uses_prepared_area): its command, if
/// that has its user, and any program, if it is root's session.
pub(super) fn awaits_programs(options: &SessionOptions) -> bool {
    let user = geteuid().as_raw();
    let may_start = match &options.programs {
        Programs::Command(line) => line.prefix.is_empty(),
        Programs::All => options.series.is_some() && uses_prepared_area(user, user, false),
        Programs::Pids(_) => false,
    };
    may_start && !options.kernel_only
}

/// Returns the task of the collector's thread beside its orders.
fn work(options: &SessionOptions, clock: &TraceClock) -> Work {
    match (&options.series, options.recording.geometry.overwrite) {
        (_, false) => Work::Empty(options.recording.polling),
        (None, true) => Work::Wait,
        (Some(series), true) => {
            let last = series.snapshots.last.map_or(u64::MAX, |last| clock.ticks_in(last));
            let often = match Polling::safe_timer(options.recording.geometry) {
                Polling::Timer(time) => time,
                _ => TICK,
            };
            Work::Heed(often, TriggerSettings { last, hold_off: series.snapshots.hold_off })
        }
    }
}

/// Returns the options that apply to every program.
fn wishes(options: &SessionOptions, clock: TimestampClock) -> Wishes {
    let recording = &options.recording;
    Wishes {
        name: recording.name.clone(),
        geometry: recording.geometry,
        clock,
        cpus: recording.cpus.as_slice().iter().copied().map(Cpu).collect(),
        leave_out_others: options.cpus_only,
        wake: recording.polling == Polling::Wakeup,
        block: options.block,
        is_sparse: !(options.whole_rings || recording.geometry.overwrite || options.block.is_some()),
        functions: recording.user.may_choose(functions::PROVIDER),
        names_functions: recording.user.names_functions(),
        conditions: recording.user.has_conditions() || recording.contexts.counters,
        with_kernel: !recording.kernel.is_empty(),
        is_session: options.series.is_some(),
        skip_ours: matches!(options.programs, Programs::All),
    }
}
