//! The kernel's part of a recording: an instance of its tracer, emptied into files.

use crate::Error;
use crate::clock::TraceClock;
use crate::directory::{Directory, RAW};
use crate::history::PageFiles;
use crate::options::Options;
use crate::place::Place;
use crate::threads;
use serde::{Deserialize, Serialize};
use sordino_dirfd::Dir;
use sordino_event::{Cpu, Tid};
use sordino_tracefs::{
    self as tracefs, Drain, Drained, EventName, Instance, PageLayout, Selection, Statistics, Tracefs,
};
use sordino_undo::{Change, Guardian, Step};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often full pages are moved. A buffer of some megabytes takes much longer to fill.
const PERIOD: Duration = Duration::from_millis(5);

/// CPUs whose pages are moved in one go: to look at the buffer of one takes a microsecond, and there may be hundreds.
const AT_ONCE: usize = 16;

/// How long files that can't be written to are left alone.
const RETRY: Duration = Duration::from_secs(1);

/// When pages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moving {
    /// When that is asked for.
    Asked,
    /// All the time, until the files can't be written to.
    Always,
    /// All the time. When the files can't be written to, the kernel keeps what is newest until they can.
    Persistently,
}

/// A kernel that is being recorded.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Not yet recording.
    prepared: Option<Drain>,
    thread: Option<Thread>,
    change: Change,
    /// When its thread moves what.
    moving: Moving,
    /// What each CPU's counts were when its buffer was last emptied.
    counted: Vec<(Cpu, Statistics)>,
    pub(crate) formats: Arc<Formats>,
    /// KiB of buffer that each CPU really has.
    pub(crate) buffer_kib: u64,
}

/// What it takes to read the kernel's pages.
#[derive(Debug)]
pub(crate) struct Formats {
    /// The events that are recorded, and their formats.
    events: Vec<(EventName, String)>,
    pub(crate) layout: PageLayout,
}

/// What became of one CPU's buffer since it was last emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Emptied {
    pub(crate) cpu: u32,
    /// Records that never reached a reader.
    pub(crate) lost: u64,
    /// All records.
    pub(crate) recorded: u64,
    /// Why those that reached a reader are not all in the file.
    pub(crate) failure: Option<String>,
}

/// Files that can't be written to.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) reason: String,
    /// Records that the kernel has overwritten since the buffers were last emptied.
    pub(crate) lost: u64,
}

/// Empties the buffers.
#[derive(Debug)]
struct Thread {
    /// Gone when recording is to end.
    requests: Option<Sender<Request>>,
    /// Why files could not be written to, and what was lost by then since recording began.
    problems: Receiver<Problem>,
    handle: JoinHandle<Result<Vec<Drained>, tracefs::Error>>,
}

/// To be emptied whole, into the files that there are; then, where there are some, into these.
struct Request {
    next: PageFiles,
    answer: Sender<Result<Vec<Drained>, tracefs::Error>>,
}

impl Kernel {
    /// Obtains an instance and chooses its events. Whatever happens to this process, the guardian removes or resets it.
    pub(crate) fn prepare(
        options: &Options,
        clock: &TraceClock,
        guardian: &mut Guardian,
        mut file: impl FnMut(Cpu) -> std::io::Result<OwnedFd>,
    ) -> Result<Self, Error> {
        let tracefs = Tracefs::open()?;
        Instance::sweep(&tracefs)?;
        let (mut instance, change) = obtain(&tracefs, guardian)?;
        instance.set_tracing(false)?;
        instance.set_clock(clock.kernel_name())?;
        instance.set_overwrite(true)?;
        let buffer_kib = instance.set_buffer_kib(options.kernel_buffer_kib)?;
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
        let moving = match (options.geometry.overwrite, &options.session) {
            (true, _) => Moving::Asked,
            (false, None) => Moving::Always,
            (false, Some(_)) => Moving::Persistently,
        };
        let counted = Vec::new();
        Ok(Self { prepared: Some(drain), thread: None, change, moving, counted, formats, buffer_kib })
    }

    /// Begins to record.
    pub(crate) fn start(&mut self, place: Place) -> Result<(), Error> {
        let Some(mut drain) = self.prepared.take() else { return Ok(()) };
        drain.instance().set_tracing(true)?;
        let moving = self.moving;
        let (requests, asked) = channel();
        let (problem, problems) = channel();
        let spawned = threads::start("sordino-kernel", move || {
            // The first thread of this place has already said what is wrong with it.
            let _ = place.take();
            empty(drain, &asked, moving, &problem)
        });
        let handle = spawned.map_err(Error::system("can't start the thread that empties kernel buffers"))?;
        self.thread = Some(Thread { requests: Some(requests), problems, handle });
        Ok(())
    }

    /// Whether recording has ended by itself: its files can't be written to.
    pub(crate) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.handle.is_finished())
    }

    /// Why files could not be written to, since this was asked last. The kernel's buffer keeps what is newest until they can.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let Problem { reason, lost } = self.thread.as_ref()?.problems.try_iter().last()?;
        let before: u64 = self.counted.iter().map(|(_, counts)| counts.lost()).sum();
        Some(Problem { reason, lost: lost.saturating_sub(before) })
    }

    /// Moves all that is there into the files that there are, and goes on into `next`; recording goes on meanwhile.
    pub(crate) fn empty(&mut self, next: PageFiles) -> Result<Vec<Emptied>, Error> {
        let drained = self.request(next)?;
        Ok(self.since_before(drained))
    }

    /// Moves all that is there into the files that there are.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.request(Vec::new()).map(drop)
    }

    fn request(&self, next: PageFiles) -> Result<Vec<Drained>, Error> {
        let (answer, answered) = channel();
        let requests = self.thread.as_ref().and_then(|thread| thread.requests.as_ref());
        if requests.is_none_or(|requests| requests.send(Request { next, answer }).is_err()) {
            return Ok(Vec::new());
        }
        // Without an answer, its thread has ended with an error: `finish` tells.
        Ok(answered.recv().unwrap_or(Ok(Vec::new()))?)
    }

    /// Ends recording and takes what is left; the instance is gone then.
    pub(crate) fn finish(&mut self, guardian: &mut Guardian) -> Result<Vec<Emptied>, Error> {
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

    /// The kernel counts from the beginning.
    fn since_before(&mut self, drained: Vec<Drained>) -> Vec<Emptied> {
        let counted = drained.iter().map(|drained| (drained.cpu, drained.statistics)).collect();
        let before = std::mem::replace(&mut self.counted, counted);
        let since = |Drained { cpu, statistics, failure, .. }: Drained| {
            let before = before.iter().find(|(other, _)| *other == cpu);
            let before = before.map_or(Statistics::default(), |(_, counts)| *counts);
            Emptied {
                cpu: cpu.0,
                lost: statistics.lost().saturating_sub(before.lost()),
                // Those that were read and are not in the file count, too: they are in no other.
                recorded: statistics.recorded().saturating_sub(before.lost()).saturating_sub(before.read),
                failure: failure.as_ref().map(text_of),
            }
        };
        drained.into_iter().map(since).collect()
    }
}

/// An error of the tracer's with the kernel's words.
fn text_of(error: &tracefs::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

/// The events' formats, below [`RAW`]: a directory for each system, a file for each event.
pub(crate) const FORMATS: &str = "formats";
/// Bytes of one of the kernel's pages, as text.
pub(crate) const PAGE_SIZE: &str = "page_size";

/// Linux has it since 3.4.
const RENAME: &str = "task:task_rename";

/// What is wanted, and with switches the names that threads give themselves: a thread that runs on would have its old name until the
/// next switch, which for one of high priority can be the end of the recording.
fn with_names(wanted: &[Selection], available: &[EventName]) -> Result<Vec<Selection>, tracefs::Error> {
    let chosen = tracefs::choose(wanted, available)?;
    let has = |name: &str| chosen.keys().any(|event| event.to_string() == name);
    let rename = (has("sched:sched_switch") && !has(RENAME)).then(|| RENAME.parse()).transpose()?;
    Ok(wanted.iter().cloned().chain(rename).collect())
}

/// An instance, and what undoes that: one of our own, or, for whom may make none, one that root made ahead.
fn obtain(tracefs: &Tracefs, guardian: &mut Guardian) -> Result<(Instance, Change), Error> {
    let name = format!("sordino-{}", std::process::id());
    let change = guardian.add(Step::RemoveInstance { name: name.clone() })?;
    let refused = match Instance::create(tracefs, &name) {
        Err(error @ tracefs::Error::NotPermitted { .. }) => error,
        made => return Ok((made?, change)),
    };
    guardian.forget(change)?;
    let mut instance = Instance::take(tracefs)?.ok_or(refused)?;
    let change = guardian.add(Step::ResetInstance { name: instance.name().to_owned() })?;
    instance.reset()?;
    Ok((instance, change))
}

fn empty(
    mut drain: Drain,
    requests: &Receiver<Request>,
    moving: Moving,
    problem: &Sender<Problem>,
) -> Result<Vec<Drained>, tracefs::Error> {
    let next = |period| match moving {
        Moving::Asked => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
        _ => requests.recv_timeout(period),
    };
    let pause = PERIOD / drain.cpus().div_ceil(AT_ONCE).max(1) as u32;
    let mut period = pause;
    loop {
        match next(period) {
            Ok(Request { next, answer }) => {
                // Who asked waits for it, or is gone.
                let _ = answer.send(drain.empty(next));
            }
            Err(RecvTimeoutError::Timeout) => match drain.drain_next(AT_ONCE) {
                Ok(_) => period = pause,
                Err(error) if moving == Moving::Persistently => {
                    period = RETRY;
                    // Who would hear of it is gone when recording ends.
                    let _ =
                        problem.send(Problem { reason: text_of(&error), lost: drain.lost().unwrap_or(0) });
                }
                Err(error) => return ended_by(drain, error),
            },
            Err(RecvTimeoutError::Disconnected) => return drain.finish(),
        }
    }
}

/// Ends recording whose files can't be written to.
fn ended_by(drain: Drain, error: tracefs::Error) -> Result<Vec<Drained>, tracefs::Error> {
    let mut drained = drain.finish()?;
    // There may have been room again for the rest; recording has ended all the same.
    if drained.iter().all(|drained| drained.failure.is_none())
        && let Some(first) = drained.first_mut()
    {
        first.failure = Some(error);
    }
    Ok(drained)
}

impl Formats {
    /// The events that are recorded.
    pub(crate) fn events(&self) -> impl Iterator<Item = &EventName> {
        self.events.iter().map(|(event, _)| event)
    }

    /// Keeps them beside the pages, so that the recording can be finished without this kernel.
    pub(crate) fn save(&self, directory: &Directory) -> Result<(), Error> {
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

/// The name of a CPU's pages, below [`RAW`].
pub(crate) fn page_name(cpu: Cpu) -> String {
    format!("cpu{cpu}")
}

/// A file for them.
pub(crate) fn page_file(raw: &Dir, cpu: Cpu) -> std::io::Result<OwnedFd> {
    Ok(raw.create(page_name(cpu))?.into())
}
