//! A recording that is opened for reading.

use crate::absent::absent_files;
use crate::addresses::{Symbols, TraceNames, mapped_files};
use crate::ahead::{Decoders, Reader};
use crate::demand::Demand;
use crate::{Error, several};
use sordino_analyze::{Quota, Quotas};
use sordino_collect::{Directory, State, Summary, Watch};
use sordino_ctf::read::{self, Stream};
use sordino_ctf::{Environment, Setting};
use sordino_event::text::with_causes;
use sordino_event::{Classes, Event, Nanos, Pid, PriorityNumbering, Time};
use sordino_filter::condition::Expression;
use sordino_query::{Facts, FileMapping};
use sordino_timeline::{Item, Recorded, Source, SuperTrace, System, Vocabulary};
use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// Number of items of a pass between two updates of its progress.
const EACH: u64 = 1 << 16;
/// Time before the first wanted event from which on events are read, so that it is known who runs where.
const LEAD: Nanos = Nanos(10_000_000);

/// The number of bytes of a recording below which threads that decode it are not worth their while.
const BYTES_FOR_THREADS: u64 = 4 << 20;

/// A recording: all of its traces, read as one. A clone can be limited to another time.
#[derive(Clone)]
pub struct OpenRecording {
    /// The directory of the recording.
    pub path: PathBuf,
    /// The event classes of all its traces.
    pub classes: Classes,
    /// The facts about its events that conditions use.
    pub facts: Facts,
    /// The first and the last time that a pass shows.
    within: (Time, Time),
    streams: Vec<Stream>,
    programs: Vec<Program>,
    /// The time that real-time threads may use on a CPU, and the period of that limit.
    real_time: Option<(Nanos, Nanos)>,
    /// The numbering of priorities in the kernel's events, if the traces state it.
    pub priorities: Option<PriorityNumbering>,
    /// The name of the traced machine, if a trace has it.
    pub host: Option<String>,
    /// The release of the traced kernel, and the machine's architecture, if a trace has them.
    pub kernel: [Option<String>; 2],
    /// The reasons why parts can't be read.
    problems: Vec<String>,
    /// The number of threads that decode, if it is set.
    threads: Option<usize>,
    function_names: Arc<TraceNames>,
}

/// A program, from its trace's environment.
#[derive(Clone)]
struct Program {
    pid: Pid,
    name: String,
    /// The address of the futex by which it wakes sordino's recorder, if it does.
    wake_up: Option<u64>,
    /// The CPU quota of its control group, if that is known.
    quota: Option<Quota>,
    /// The files that it had mapped, if it records functions.
    files: Vec<FileMapping>,
}

impl OpenRecording {
    /// Opens the recording that was named, or the newest in the current directory: any directory with CTF traces of one
    /// recording.
    ///
    /// # Errors
    /// There is no trace in it, or traces of several recordings.
    pub fn open(named: Option<&Path>) -> Result<Self, Error> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => Directory::newest(&std::env::current_dir()?)?.path().to_owned(),
        };
        let mut recording = Self {
            path,
            classes: Classes::default(),
            facts: Facts::default(),
            within: (Time::MIN, Time::MAX),
            streams: Vec::new(),
            programs: Vec::new(),
            real_time: None,
            priorities: None,
            host: None,
            kernel: [None, None],
            problems: Vec::new(),
            threads: None,
            function_names: Arc::default(),
        };
        let traces = read::find(&recording.path)?;
        if traces.is_empty() {
            let text = format!("{} holds no CTF trace: no file 'metadata' in it", recording.path.display());
            return Err(Error::Unusable(text));
        }
        several::refuse_several(&recording.path, &traces)?;
        for part in several::parts(&recording.path, &traces) {
            recording.look_at_summary(&part);
        }
        for trace in traces {
            let first = recording.classes.iter().count();
            match read::Trace::open(&trace, &mut recording.classes) {
                Ok(trace) => {
                    if let Some(host) = trace.environment().text("hostname") {
                        recording.facts.add_host(first, &recording.classes, host);
                        recording.host.get_or_insert_with(|| host.to_owned());
                    }
                    recording.streams.extend_from_slice(trace.streams());
                    recording.programs.extend(program(&trace));
                    recording.real_time = recording.real_time.or(real_time(&trace));
                    for (known, name) in recording.kernel.iter_mut().zip(["kernel_release", "machine"]) {
                        let found = trace.environment().text(name).map(ToOwned::to_owned);
                        *known = known.take().or(found);
                    }
                    recording.priorities = recording.priorities.or(priorities(trace.environment()));
                }
                Err(error) => recording.problems.push(with_causes(&error)),
            }
        }
        recording.facts.begin_at(recording.span().0);
        recording.read_symbols_by(Symbols::default());
        Ok(recording)
    }

    /// Shares the symbols of files with other recordings of the same programs, so that each file is read once.
    pub fn read_symbols_by(&mut self, symbols: Symbols) {
        let mut traces: HashMap<Pid, Vec<Vec<FileMapping>>> = HashMap::new();
        for Program { pid, files, .. } in self.programs.iter().filter(|program| !program.files.is_empty()) {
            traces.entry(*pid).or_default().push(files.clone());
        }
        self.function_names = Arc::new(TraceNames::new(traces, symbols));
        self.facts.name_functions(Arc::clone(&self.function_names) as _);
    }

    /// Returns the names of functions in programs whose traces list their files.
    pub(crate) fn function_names(&self) -> &Arc<TraceNames> {
        &self.function_names
    }

    /// Limits passes to the time in which events can meet the condition.
    pub fn limit_to(&mut self, condition: &Expression) {
        let (begin, span) = (self.span().0, condition.span());
        self.narrow(begin + *span.start(), begin + *span.end());
    }

    /// Limits passes to a part of the recording's time. Packets that lie wholly before it are not read, but for those
    /// that describe the state of the machine.
    pub fn narrow(&mut self, from: Time, to: Time) {
        self.within = (self.within.0.max(from), self.within.1.min(to));
    }

    /// Adds a problem if a part of the recording is not finished, and so lacks kernel events, or if files of it are missing.
    fn look_at_summary(&mut self, part: &Path) {
        let Ok(directory) = Directory::open(part) else { return };
        let path = part.display();
        match Summary::read(&directory) {
            Ok(summary) if summary.state == State::Recording => self.problems.push(format!(
                "{path} is not finished: it is being recorded, or its recorder was killed (then: sordino recover {path})"
            )),
            Ok(summary) if summary.state == State::Incomplete => self.problems.push(format!(
                "{path} lacks kernel events, whose pages are kept: make room, then run: sordino recover {path}"
            )),
            Ok(summary) => self.problems.extend(absent_files(part, &summary)),
            Err(error) => self.problems.push(with_causes(&error)),
        }
    }

    /// Sets the number of threads that decode streams in passes, which is otherwise that of CPUs; 1 decodes them in the
    /// pass's own thread.
    pub fn decode_with(&mut self, threads: usize) {
        self.threads = Some(threads);
    }

    /// Returns the threads that decode streams in a pass, if it has any.
    fn decoders(&self) -> Option<Decoders> {
        let bytes: u64 = self.streams.iter().flat_map(Stream::packets).map(|packet| packet.bytes).sum();
        let threads = match self.threads {
            Some(threads) => threads,
            None if bytes < BYTES_FOR_THREADS => 1,
            None => thread::available_parallelism().map_or(1, NonZero::get),
        };
        Decoders::start(threads, self.streams.len())
    }

    /// Returns the kinds of the kernel's events that the traces declare.
    pub fn recorded(&self) -> Recorded {
        Vocabulary::new(&self.classes).recorded()
    }

    /// Returns a reader of a stream: from the start, or from a little before the time to which passes are limited.
    fn reader<'a>(
        &self,
        stream: &Stream,
        demand: &Demand,
        decoders: Option<&'a Decoders>,
    ) -> impl Source<Error = sordino_ctf::Error> + use<'a> {
        let (from, to) = (self.within.0 - LEAD, self.within.1);
        let mut events = stream.events().without_fields(demand.bare());
        if from > Time::MIN && !describes_state(stream) {
            events.skip_to(from);
        }
        Reader::new(move |event: &mut Event| events.next(event), demand.of_stream(to), decoders)
    }

    /// Returns the events that `source` returns from each stream, in order of time.
    pub fn super_trace_of<'a, S>(&'a self, source: impl FnMut(&'a Stream) -> S) -> SuperTrace<S>
    where
        S: Source<Error = sordino_ctf::Error>,
    {
        self.super_trace_after(System::default(), self.streams.iter().map(source))
    }

    /// Returns the events of these sources in order of time, which begin with the given state of the machine.
    pub fn super_trace_after<S>(&self, before: System, sources: impl IntoIterator<Item = S>) -> SuperTrace<S>
    where
        S: Source<Error = sordino_ctf::Error>,
    {
        let mut trace = SuperTrace::new(&self.classes, sources).continuing(before);
        self.priorities.into_iter().for_each(|numbering| trace.number_priorities(numbering));
        for program in &self.programs {
            trace.introduce(program.pid, &program.name);
            program.wake_up.into_iter().for_each(|futex| trace.introduce_wake_up(program.pid, futex));
        }
        trace
    }

    /// Returns the streams of all traces.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns the quotas of the programs' control groups and of real-time threads, as the traces say.
    pub fn quotas(&self) -> Quotas {
        let mut quotas = Quotas::default();
        self.programs.iter().for_each(|program| quotas.add(program.pid, program.quota.clone()));
        self.real_time.into_iter().for_each(|(runtime, period)| quotas.set_real_time(runtime, period));
        quotas
    }

    /// Passes each item of the trace to `take`, until that returns `false`; reports progress to `watch`, as its name says.
    ///
    /// # Errors
    /// Those of `take`; problems of reading are kept.
    pub fn pass<E>(
        &mut self,
        watch: Option<(&'static str, &mut dyn Watch)>,
        take: impl FnMut(&Item<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        self.pass_of(&Demand::default(), watch, take)
    }

    /// Passes what is demanded.
    ///
    /// # Errors
    /// Those of `take`; problems of reading are kept.
    pub fn pass_of<E>(
        &mut self,
        demand: &Demand,
        watch: Option<(&'static str, &mut dyn Watch)>,
        mut take: impl FnMut(&Item<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut failed = Ok(());
        self.each(demand, watch, &mut |item| {
            take(item).unwrap_or_else(|error| {
                failed = Err(error);
                false
            })
        });
        failed
    }

    /// Passes what is demanded to `take`, until that returns `false`. It is not generic: the merge and the state of the
    /// machine would be compiled in each caller's crate, of which some are optimised for size.
    fn each(
        &mut self,
        demand: &Demand,
        mut watch: Option<(&'static str, &mut dyn Watch)>,
        take: &mut dyn FnMut(&Item<'_>) -> bool,
    ) {
        let from = if demand.has_lead { Time::MIN } else { self.within.0 };
        let (first, last) = self.span();
        let (first, last) = (first.max(self.within.0), last.min(self.within.1));
        let decoders = self.decoders();
        let mut trace = self.super_trace_of(|stream| self.reader(stream, demand, decoders.as_ref()));
        let mut count = 0;
        let mut problems = Vec::new();
        loop {
            match trace.next() {
                Ok(Some(item)) => {
                    count += 1;
                    if count % EACH == 0
                        && let (Item::Event(moment), Some((what, watch))) = (&item, &mut watch)
                    {
                        let done = (moment.event.time - first).0.max(0).cast_unsigned();
                        watch.working(what, done, (last - first).0.max(0).cast_unsigned());
                    }
                    if begin_of(&item) > last || end_of(&item) >= from && !take(&item) {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => problems.push(with_causes(&error)),
            }
        }
        drop(trace);
        // A further pass has the same problems.
        problems.retain(|problem| !self.problems.contains(problem));
        self.problems.append(&mut problems);
    }

    /// Returns the times of the first and the last event.
    pub fn span(&self) -> (Time, Time) {
        let spans = self.streams.iter().filter_map(Stream::span);
        spans
            .reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
            .unwrap_or((Time(0), Time(0)))
    }

    /// Returns the first and the last time that passes show.
    pub fn within(&self) -> (Time, Time) {
        self.within
    }

    /// Returns the first time that passes show.
    pub fn begin(&self) -> Time {
        self.within.0
    }

    /// Returns the problems of reading so far.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// Returns true if a stream describes the state of the machine, which other events do not show.
pub fn describes_state(stream: &Stream) -> bool {
    let names = ["statedump", "recorder", "symbols", "steal"];
    stream.files().next().is_some_and(|file| names.iter().any(|name| file.ends_with(name)))
}

fn begin_of(item: &Item<'_>) -> Time {
    match item {
        Item::Event(moment) => moment.event.time,
        Item::Loss(loss) => loss.from,
        Item::Disorder(disorder) => disorder.at,
    }
}

fn end_of(item: &Item<'_>) -> Time {
    match item {
        Item::Loss(loss) => loss.to,
        item => begin_of(item),
    }
}

/// Returns the time that real-time threads may use on a CPU and the period of that limit, from the kernel's trace.
fn real_time(trace: &read::Trace) -> Option<(Nanos, Nanos)> {
    Some((microseconds(trace, "sched_rt_runtime_us")?, microseconds(trace, "sched_rt_period_us")?))
}

fn microseconds(trace: &read::Trace, name: &str) -> Option<Nanos> {
    Some(Nanos(trace.environment().integer(name)?.saturating_mul(1000)))
}

/// Returns the numbering of priorities in a trace of the kernel: the one that its environment states, or that of a known
/// tracer which states none.
fn priorities(environment: &Environment) -> Option<PriorityNumbering> {
    let of_kernel = environment.text("domain") == Some("kernel");
    match environment.get(PriorityNumbering::ENTRY).filter(|_| of_kernel) {
        Some(Setting::Text(name)) => PriorityNumbering::from_name(name),
        Some(Setting::Integer(_)) => None,
        None => {
            let tracer = environment.text("tracer_name").filter(|_| of_kernel);
            // Of sordino's traces, those of versions before the entry.
            matches!(tracer, Some("lttng-modules" | "sordino")).then_some(PriorityNumbering::Lttng)
        }
    }
}

/// Returns the program of a trace, from its environment.
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
    Some(Program { pid: Pid(pid), name, wake_up, quota: quota(), files: mapped_files(environment) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(domain: &str, tracer: &str, numbering: Option<Setting>) -> Option<PriorityNumbering> {
        let mut environment = Environment::default();
        environment.set("domain", domain).set("tracer_name", tracer);
        if let Some(numbering) = numbering {
            environment.set(PriorityNumbering::ENTRY, numbering);
        }
        priorities(&environment)
    }

    #[test]
    fn priorities_are_numbered_as_the_trace_states() {
        for numbering in [PriorityNumbering::Kernel, PriorityNumbering::Lttng] {
            for tracer in ["sordino", "lttng-modules", "another"] {
                assert_eq!(of("kernel", tracer, Some(numbering.name().into())), Some(numbering));
            }
        }
    }

    #[test]
    fn a_trace_that_states_no_numbering_has_its_tracers() {
        assert_eq!(of("kernel", "lttng-modules", None), Some(PriorityNumbering::Lttng));
        assert_eq!(of("kernel", "sordino", None), Some(PriorityNumbering::Lttng));
        assert_eq!(of("kernel", "another", None), None);
    }

    #[test]
    fn a_programs_trace_and_a_statement_that_makes_no_sense_say_nothing() {
        assert_eq!(of("ust", "sordino", None), None);
        assert_eq!(of("ust", "sordino", Some("lttng".into())), None);
        assert_eq!(of("kernel", "sordino", Some("backwards".into())), None);
        assert_eq!(of("kernel", "sordino", Some(20.into())), None);
    }
}
