//! The kernel's part of a recording: an instance of its tracer, emptied into files.

use crate::directory::{Directory, RAW};
use crate::error::Error;
use crate::history::PageFiles;
use crate::options::RecordingOptions;
use crate::place::CollectorPlace;
use serde::{Deserialize, Serialize};
use sordino_dirfd::Dir;
use sordino_event::{Cpu, Tid};
use sordino_inspect::clock::TraceClock;
use sordino_inspect::{event_cost, threads};
use sordino_tracefs::{
    self as tracefs, BufferCounts, Drain, Drained, EventName, Instance, PageLayout, Selection, Tracefs,
};
use sordino_undo::{ChangeId, Guardian, UndoStep};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two moves of full pages. A buffer of some megabytes takes much longer to fill.
const PERIOD: Duration = Duration::from_millis(5);

/// Number of CPUs whose pages are moved in one step: checking the buffer of one takes a microsecond, and there may be
/// hundreds.
const AT_ONCE: usize = 16;

/// Time between two attempts to write to files that fail.
const RETRY: Duration = Duration::from_secs(1);

/// The times at which pages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moving {
    /// Only when that is requested.
    OnRequest,
    /// All the time, until the files can't be written to.
    Always,
    /// All the time. While the files can't be written to, the kernel keeps the newest pages.
    Persistently,
}

/// The kernel's tracer while it is recorded.
#[derive(Debug)]
pub struct KernelRecorder {
    /// The opened buffers, until recording starts.
    prepared: Option<Drain>,
    thread: Option<DrainThread>,
    change: ChangeId,
    /// The times at which the thread moves pages.
    moving: Moving,
    /// Each CPU's counters when its buffer was last emptied.
    counted: Vec<(Cpu, BufferCounts)>,
    /// The formats of the events that are recorded.
    pub formats: Arc<Formats>,
    /// Size of each CPU's buffer, in KiB, as the kernel allocated it.
    pub(crate) buffer_kib: u64,
    /// The cost of an event in picoseconds, if it could be measured.
    pub event_cost: Option<u64>,
}

/// The formats needed to read the kernel's pages.
#[derive(Debug)]
pub struct Formats {
    /// The recorded events and the text of their formats.
    events: Vec<(EventName, String)>,
    /// The layout of the kernel's pages.
    pub layout: PageLayout,
}

/// The form of a CPU in a summary: its number.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Cpu")]
pub(crate) struct CpuNumber(u32);

/// The state of one CPU's buffer, relative to the last time it was emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emptied {
    /// The CPU of the buffer.
    #[serde(with = "CpuNumber")]
    pub cpu: Cpu,
    /// Records that no reader received.
    pub lost: u64,
    /// All records, including the lost ones.
    pub recorded: u64,
    /// The reason that not all records read are in the file.
    pub failure: Option<String>,
}

/// An error in writing the files of pages.
#[derive(Clone, Debug)]
pub struct KernelProblem {
    /// A description of the error.
    pub reason: String,
    /// Records that the kernel has overwritten since the buffers were last emptied.
    pub lost: u64,
}

/// The thread that empties the buffers.
#[derive(Debug)]
struct DrainThread {
    /// Sends requests to the thread; dropped to end recording.
    requests: Option<Sender<DrainRequest>>,
    /// Reports of failed writes, each with the records lost since recording began.
    problems: Receiver<KernelProblem>,
    handle: JoinHandle<Result<Vec<Drained>, tracefs::Error>>,
}

/// A request to move everything into the present files and, if there are any, to continue in `next`.
struct DrainRequest {
    next: PageFiles,
    answer: Sender<Result<Vec<Drained>, tracefs::Error>>,
}

impl KernelRecorder {
    /// Obtains an instance and selects its events. The guardian removes or resets the instance even if this process is
    /// killed.
    pub fn prepare(
        options: &RecordingOptions,
        clock: &TraceClock,
        guardian: &mut Guardian,
        mut file: impl FnMut(Cpu) -> std::io::Result<OwnedFd>,
    ) -> Result<Self, Error> {
        let tracefs = Tracefs::open()?;
        Instance::sweep(&tracefs)?;
        let (mut instance, change) = obtain(&tracefs, guardian)?;
        instance.set_tracing(false)?;
        instance.set_overwrite(true)?;
        let buffer_kib = instance.set_buffer_kib(options.kernel_buffer_kib)?;
        let event_cost = event_cost::of_kernel(&instance);
        // After the measurement, because it empties the buffer, which takes some 25 ms. The clock that a new instance
        // has costs about as much.
        instance.set_clock(clock.kernel_name())?;
        let cpus: Vec<Cpu> = options.cpus.as_slice().iter().copied().map(Cpu).collect();
        instance.set_cpus(&cpus)?;
        if !options.kernel_threads.is_empty() {
            let threads: Vec<Tid> = options.kernel_threads.iter().copied().map(Tid).collect();
            instance.set_threads(&threads, true)?;
        }
        let events = instance.select(&with_names(&options.kernel, &tracefs.events()?)?)?;
        let text = |event: EventName| instance.format_text(&event).map(|text| (event, text));
        let events = events.into_iter().map(text).collect::<Result<_, _>>()?;
        let drain = Drain::new(instance, &mut file)?;
        let formats = Arc::new(Formats { events, layout: drain.page_layout() });
        let moving = match (options.geometry.overwrite, options.is_persistent) {
            (true, _) => Moving::OnRequest,
            (false, false) => Moving::Always,
            (false, true) => Moving::Persistently,
        };
        let counted = Vec::new();
        Ok(Self {
            prepared: Some(drain),
            thread: None,
            change,
            moving,
            counted,
            formats,
            buffer_kib,
            event_cost,
        })
    }

    /// Starts recording and the thread that empties the buffers.
    pub fn start(&mut self, place: CollectorPlace) -> Result<(), Error> {
        let Some(mut drain) = self.prepared.take() else { return Ok(()) };
        drain.instance().set_tracing(true)?;
        let moving = self.moving;
        let (requests, received) = channel();
        let (problem, problems) = channel();
        let spawned = threads::start("sordino-kernel", move || {
            // The collector's first thread has already reported any error.
            let _ = place.take();
            empty(drain, &received, moving, &problem)
        });
        let handle = spawned.map_err(Error::system("can't start the thread that empties kernel buffers"))?;
        self.thread = Some(DrainThread { requests: Some(requests), problems, handle });
        Ok(())
    }

    /// Returns true if recording has ended by itself because its files can't be written to.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.handle.is_finished())
    }

    /// Returns the last error in writing the files since the last call. Meanwhile the kernel's buffer keeps the newest
    /// records.
    pub fn problem(&self) -> Option<KernelProblem> {
        let KernelProblem { reason, lost } = self.thread.as_ref()?.problems.try_iter().last()?;
        let before: u64 = self.counted.iter().map(|(_, counts)| counts.lost()).sum();
        Some(KernelProblem { reason, lost: lost.saturating_sub(before) })
    }

    /// Moves everything into the present files, and continues in `next`; recording continues meanwhile.
    pub fn empty(&mut self, next: PageFiles) -> Result<Vec<Emptied>, Error> {
        let drained = self.request(next)?;
        Ok(self.since_before(drained))
    }

    /// Moves everything into the present files.
    pub fn flush(&self) -> Result<(), Error> {
        self.request(Vec::new()).map(drop)
    }

    fn request(&self, next: PageFiles) -> Result<Vec<Drained>, Error> {
        let (answer, answered) = channel();
        let requests = self.thread.as_ref().and_then(|thread| thread.requests.as_ref());
        if requests.is_none_or(|requests| requests.send(DrainRequest { next, answer }).is_err()) {
            return Ok(Vec::new());
        }
        // Without an answer, its thread has ended with an error, which `finish` returns.
        Ok(answered.recv().unwrap_or(Ok(Vec::new()))?)
    }

    /// Ends recording, reads the rest, and removes the instance.
    pub fn finish(&mut self, guardian: &mut Guardian) -> Result<Vec<Emptied>, Error> {
        let drained = match self.thread.take() {
            Some(mut thread) => {
                thread.requests = None;
                thread.handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            None => Ok(Vec::new()),
        };
        self.prepared = None;
        guardian.forget(self.change)?;
        Ok(self.since_before(drained?))
    }

    /// Subtracts the counters at the previous call: the kernel's run from the beginning.
    fn since_before(&mut self, drained: Vec<Drained>) -> Vec<Emptied> {
        let counted = drained.iter().map(|drained| (drained.cpu, drained.statistics)).collect();
        let before = std::mem::replace(&mut self.counted, counted);
        let since = |Drained { cpu, statistics, failure, .. }: Drained| {
            let before = before.iter().find(|(other, _)| *other == cpu);
            let before = before.map_or(BufferCounts::default(), |(_, counts)| *counts);
            Emptied {
                cpu,
                lost: statistics.lost().saturating_sub(before.lost()),
                // Includes records that were read but are not in the file: they are in no other file either.
                recorded: statistics.recorded().saturating_sub(before.lost()).saturating_sub(before.read),
                failure: failure.as_ref().map(text_of),
            }
        };
        drained.into_iter().map(since).collect()
    }
}

/// Returns an error of the tracer with the kernel's error.
fn text_of(error: &tracefs::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

/// Name of the directory of the events' formats, below [`RAW`]: a directory for each system, a file for each event.
pub(crate) const FORMATS: &str = "formats";
/// Name of the file that holds the size of the kernel's pages, as text.
pub(crate) const PAGE_SIZE: &str = "page_size";

/// The event of threads that rename themselves, available since Linux 3.4.
const RENAME: &str = "task:task_rename";

/// Adds `task_rename` to a selection with `sched_switch`: otherwise a renamed thread keeps its old name until the next
/// switch, which for a thread of high priority can be the end of the recording.
fn with_names(requested: &[Selection], available: &[EventName]) -> Result<Vec<Selection>, tracefs::Error> {
    let chosen = tracefs::choose(requested, available)?;
    let has = |name: &str| chosen.keys().any(|event| event.to_string() == name);
    let rename = (has("sched:sched_switch") && !has(RENAME)).then(|| RENAME.parse()).transpose()?;
    Ok(requested.iter().cloned().chain(rename).collect())
}

/// Obtains an instance, and the change that undoes it: a new instance or, for users who may create none, one that root
/// created beforehand.
fn obtain(tracefs: &Tracefs, guardian: &mut Guardian) -> Result<(Instance, ChangeId), Error> {
    let name = format!("sordino-{}", std::process::id());
    let change = guardian.add(UndoStep::RemoveInstance { name: name.clone() })?;
    let refused = match Instance::create(tracefs, &name) {
        Err(error @ tracefs::Error::NotPermitted { .. }) => error,
        made => return Ok((made?, change)),
    };
    guardian.forget(change)?;
    let mut instance = Instance::take(tracefs)?.ok_or(refused)?;
    let change = guardian.add(UndoStep::ResetInstance { name: instance.name().to_owned() })?;
    instance.reset()?;
    Ok((instance, change))
}

fn empty(
    mut drain: Drain,
    requests: &Receiver<DrainRequest>,
    moving: Moving,
    problem: &Sender<KernelProblem>,
) -> Result<Vec<Drained>, tracefs::Error> {
    let next = |period| match moving {
        Moving::OnRequest => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
        _ => requests.recv_timeout(period),
    };
    let pause = PERIOD / drain.cpus().div_ceil(AT_ONCE).max(1) as u32;
    let mut period = pause;
    loop {
        match next(period) {
            Ok(DrainRequest { next, answer }) => {
                // An answer that cannot be sent was for a caller that is gone.
                let _ = answer.send(drain.empty(next));
            }
            Err(RecvTimeoutError::Timeout) => match drain.drain_next(AT_ONCE) {
                Ok(_) => period = pause,
                Err(error) if moving == Moving::Persistently => {
                    period = RETRY;
                    // The receiver is gone if recording is ending.
                    let _ = problem
                        .send(KernelProblem { reason: text_of(&error), lost: drain.lost().unwrap_or(0) });
                }
                Err(error) => return ended_by(drain, error),
            },
            Err(RecvTimeoutError::Disconnected) => return drain.finish(),
        }
    }
}

/// Ends recording because its files can't be written to.
fn ended_by(drain: Drain, error: tracefs::Error) -> Result<Vec<Drained>, tracefs::Error> {
    let mut drained = drain.finish()?;
    // The rest may have been written after all; recording has ended nevertheless.
    if drained.iter().all(|drained| drained.failure.is_none())
        && let Some(first) = drained.first_mut()
    {
        first.failure = Some(error);
    }
    Ok(drained)
}

impl Formats {
    /// Returns the names of the recorded events.
    pub fn events(&self) -> impl Iterator<Item = &EventName> {
        self.events.iter().map(|(event, _)| event)
    }

    /// Saves the formats beside the pages, so that the recording can be finished without this kernel.
    pub fn save(&self, directory: &Directory) -> Result<(), Error> {
        let raw = directory.part(RAW)?;
        let failed = |dir: &Dir, name: &str| Error::output(dir.path().join(name));
        let formats = raw.make_new(FORMATS).map_err(failed(&raw, FORMATS))?;
        for (event, text) in &self.events {
            let name = &event.system;
            let system = if formats.has(name) { formats.dir(name) } else { formats.make_new(name) };
            let system = system.map_err(failed(&formats, name))?;
            system.replace(&event.name, text.as_bytes()).map_err(failed(&system, &event.name))?;
        }
        let size = self.layout.page_size().to_string();
        raw.replace(PAGE_SIZE, size.as_bytes()).map_err(failed(&raw, PAGE_SIZE))
    }
}
