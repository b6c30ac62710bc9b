//! Recordings, opened for reading.

mod recordings;

use crate::Failure;
use crate::failure::UNUSABLE;
use crate::progress::Progress;
use sordino_analyze::{Quota, Quotas};
use sordino_collect::{Directory, State, Summary, Watch};
use sordino_ctf::read::{self, Stream};
use sordino_event::{Classes, Event, Nanos, Pid, Step, Time};
use sordino_timeline::{Item, SuperTrace};
use std::path::{Path, PathBuf};

/// How often the progress of a pass is looked at, in items.
const EACH: u64 = 1 << 16;

/// A recording: all its traces, as one.
pub(crate) struct Recording {
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// The events of all its traces.
    pub(crate) classes: Classes,
    streams: Vec<Stream>,
    programs: Vec<Program>,
    /// The time in each period that real-time threads have on a CPU.
    real_time: Option<(Nanos, Nanos)>,
    /// Whether the kernel's events count priorities as LTTng does: sordino's do, too.
    is_lttng: bool,
    /// Why some of it can't be read.
    problems: Vec<String>,
}

/// A program, as its trace says.
struct Program {
    pid: Pid,
    name: String,
    /// Where it has the futex that it wakes sordino's recorder by, if it does.
    wake_up: Option<u64>,
    /// The quota of its control group, if that is known.
    quota: Option<Quota>,
}

impl Recording {
    /// Opens the recording that was named, or the newest here. Any directory with CTF traces will do, if they are of one recording.
    pub(crate) fn open(named: Option<&Path>) -> Result<Self, Failure> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => Directory::newest(&std::env::current_dir()?)?.path().to_owned(),
        };
        let mut recording = Self {
            path,
            classes: Classes::default(),
            streams: Vec::new(),
            programs: Vec::new(),
            real_time: None,
            is_lttng: false,
            problems: Vec::new(),
        };
        recording.look_at_summary();
        let traces = read::find(&recording.path)?;
        if traces.is_empty() {
            let text = format!("{} holds no CTF trace: no file 'metadata' in it", recording.path.display());
            return Err(Failure::new(UNUSABLE, text));
        }
        recordings::refuse_several(&recording.path, &traces)?;
        for trace in traces {
            match read::Trace::open(&trace, &mut recording.classes) {
                Ok(trace) => {
                    recording.streams.extend_from_slice(trace.streams());
                    recording.programs.extend(program(&trace));
                    recording.real_time = recording.real_time.or(real_time(&trace));
                    let of_kernel = trace.environment().text("domain") == Some("kernel");
                    let tracer = trace.environment().text("tracer_name");
                    recording.is_lttng |= of_kernel && matches!(tracer, Some("sordino" | "lttng-modules"));
                }
                Err(error) => recording.problems.push(Failure::text_of(&error)),
            }
        }
        Ok(recording)
    }

    /// A recording that is not finished lacks the kernel's events.
    fn look_at_summary(&mut self) {
        let Ok(directory) = Directory::open(&self.path) else { return };
        let path = self.path.display();
        match Summary::read(&directory) {
            Ok(summary) if summary.state == State::Recording => self.problems.push(format!(
                "{path} is not finished: it is being recorded, or its recorder was killed (then: sordino recover {path})"
            )),
            Ok(summary) if summary.state == State::Incomplete => self.problems.push(format!(
                "{path} lacks kernel events, whose pages are kept: make room, then run: sordino recover {path}"
            )),
            Ok(_) => {}
            Err(error) => self.problems.push(Failure::text_of(&error)),
        }
    }

    /// Everything in the order of time, from the start.
    pub(crate) fn super_trace(
        &self,
    ) -> SuperTrace<impl FnMut(&mut Event) -> Result<Step, sordino_ctf::Error>> {
        self.super_trace_of(|stream| {
            let mut events = stream.events();
            move |event: &mut Event| events.next(event)
        })
    }

    /// The same of what `source` gives of each stream.
    pub(crate) fn super_trace_of<'a, S>(&'a self, source: impl FnMut(&'a Stream) -> S) -> SuperTrace<S>
    where
        S: FnMut(&mut Event) -> Result<Step, sordino_ctf::Error>,
    {
        let sources = self.streams.iter().map(source);
        let mut trace = SuperTrace::new(&self.classes, sources);
        if self.is_lttng {
            trace.count_priorities_as_lttng();
        }
        for program in &self.programs {
            trace.introduce(program.pid, &program.name);
            program.wake_up.into_iter().for_each(|futex| trace.introduce_wake_up(program.pid, futex));
        }
        trace
    }

    /// Returns the quotas of the programs' control groups and of real-time threads, as the traces say.
    pub(crate) fn quotas(&self) -> Quotas {
        let mut quotas = Quotas::default();
        self.programs.iter().for_each(|program| quotas.add(program.pid, program.quota.clone()));
        self.real_time.into_iter().for_each(|(runtime, period)| quotas.set_real_time(runtime, period));
        quotas
    }

    /// Gives each item of the trace to `take`, until that answers `false`; says on the terminal `what` it is for.
    pub(crate) fn pass(
        &mut self,
        what: Option<&'static str>,
        mut take: impl FnMut(&Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let (first, last) = self.span();
        let mut progress = what.map(|what| (what, Progress::new(false)));
        let mut trace = self.super_trace();
        let mut count = 0;
        let mut problems = Vec::new();
        loop {
            match trace.next() {
                Ok(Some(item)) => {
                    count += 1;
                    if count % EACH == 0
                        && let (Item::Event(moment), Some((what, progress))) = (&item, &mut progress)
                    {
                        let done = (moment.event.time - first).0.max(0).cast_unsigned();
                        progress.working(what, done, (last - first).0.max(0).cast_unsigned());
                    }
                    if !take(&item)? {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => problems.push(Failure::text_of(&error)),
            }
        }
        drop(trace);
        // Another pass meets the same ones.
        problems.retain(|problem| !self.problems.contains(problem));
        self.problems.append(&mut problems);
        Ok(())
    }

    /// From its first to its last event.
    pub(crate) fn span(&self) -> (Time, Time) {
        let spans = self.streams.iter().filter_map(Stream::span);
        spans
            .reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
            .unwrap_or((Time(0), Time(0)))
    }

    /// The failure, behind what could not be read: that may be its cause.
    pub(crate) fn failing(&self, failure: Failure) -> Failure {
        for problem in &self.problems {
            message!("sordino: {problem}");
        }
        failure
    }

    /// Says what could not be read; a failure if there was anything.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let Some((last, others)) = self.problems.split_last() else { return Ok(()) };
        for problem in others {
            message!("sordino: {problem}");
        }
        Err(Failure::new(UNUSABLE, last.clone()))
    }
}

/// The time in each period that real-time threads have on a CPU, as the kernel's trace says.
fn real_time(trace: &read::Trace) -> Option<(Nanos, Nanos)> {
    Some((microseconds(trace, "sched_rt_runtime_us")?, microseconds(trace, "sched_rt_period_us")?))
}

fn microseconds(trace: &read::Trace, name: &str) -> Option<Nanos> {
    Some(Nanos(trace.environment().integer(name)?.saturating_mul(1000)))
}

/// The program that a trace is of, as its environment says.
fn program(trace: &read::Trace) -> Option<Program> {
    let environment = trace.environment();
    let pid = environment.integer("vpid").and_then(|pid| i32::try_from(pid).ok())?;
    let wake_up = environment.integer("wake_up_futex").map(i64::cast_unsigned);
    let time = |name| microseconds(trace, name);
    let quota = || {
        let group = Some(environment.text("cpu_quota_group")?.into());
        Some(Quota { group, runtime: time("cpu_quota_us")?, period: time("cpu_period_us")? })
    };
    let name = environment.text("procname")?.to_owned();
    Some(Program { pid: Pid(pid), name, wake_up, quota: quota() })
}
