//! A recording that is opened for reading, or several.

mod merged;
mod open;

pub use merged::MergedRecording;

use crate::addresses::{Symbols, TraceNames};
use crate::ahead::{Decoders, StreamReader};
use crate::demand::Demand;
use crate::error::Error;
use crate::gaps::TraceCoverage;
use sordino_analyze::{GroupQuotas, Quotas};
use sordino_collect::Watch;
use sordino_ctf::read::{Events, Stream};
use sordino_event::text::with_causes;
use sordino_event::{Classes, Domain, EventCosts, Loss, Nanos, Pid, PriorityNumbering, Time};
use sordino_filter::condition::Expression;
use sordino_query::{Facts, FileMapping};
use sordino_timeline::{Consumer, Host, Hosts, Item, Recorded, Source, SuperTrace, System, Vocabulary};
use std::collections::HashMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

/// Number of items of a pass between two updates of its progress.
const EACH: u64 = 1 << 16;
/// Time before the first selected event that is also read, to determine the threads of the CPUs.
const LEAD: Nanos = Nanos(10_000_000);

/// The size of a recording in bytes below which it is decoded without threads.
const BYTES_FOR_THREADS: u64 = 4 << 20;

/// A recording, or several: all of their traces, read as one. A clone can be limited to another time.
#[derive(Clone)]
pub struct OpenRecording {
    /// The directory of the first recording.
    pub path: PathBuf,
    /// The event classes of all its traces.
    pub classes: Classes,
    /// The facts about its events that conditions use.
    pub facts: Facts,
    /// The first and the last time that a pass shows.
    within: (Time, Time),
    streams: Vec<Stream>,
    /// The recordings; nearly always one.
    pub recordings: Vec<MergedRecording>,
    /// The hosts of the classes, of the streams, and of the gaps.
    hosts: Hosts,
    /// The times that the traces cover.
    covered: Vec<TraceCoverage>,
    /// The times of hosts that no recording has.
    gaps: Vec<(Host, Vec<Loss>)>,
    programs: Vec<RecordedProgram>,
    /// The time that real-time threads may use on a CPU, and the period of that limit.
    real_time: Option<(Nanos, Nanos)>,
    /// The numbering of priorities in the events of the first host's kernel, if the traces state it.
    pub priorities: Option<PriorityNumbering>,
    /// The costs of events by recording, as far as the traces have them, and whether they are subtracted.
    costs: Vec<EventCosts>,
    subtracts_overhead: bool,
    /// The numbering of priorities of each host.
    numberings: Vec<(Host, PriorityNumbering)>,
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
struct RecordedProgram {
    host: Host,
    pid: Pid,
    name: String,
    /// The address of the futex by which it wakes sordino's recorder, if it does.
    wake_up: Option<u64>,
    /// The CPU quotas of its control groups.
    quotas: GroupQuotas,
    /// The files that it had mapped, if it records functions.
    files: Vec<FileMapping>,
}

impl OpenRecording {
    /// Shares the symbols of files with other recordings of the same programs, so that each file is read once.
    pub fn read_symbols_by(&mut self, symbols: Symbols) {
        let mut traces: HashMap<Pid, Vec<Vec<FileMapping>>> = HashMap::new();
        // Processes of two hosts may have one id.
        let is_one_host = self.host_count() == 1;
        let with_files = self.programs.iter().filter(|program| is_one_host && !program.files.is_empty());
        for RecordedProgram { pid, files, .. } in with_files {
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

    /// Limits passes to a part of the recording's time. Packets that lie wholly before it are not read, except those
    /// that describe the state of the machine.
    pub fn narrow(&mut self, from: Time, to: Time) {
        self.within = (self.within.0.max(from), self.within.1.min(to));
    }

    /// Subtracts the time that recording took from intervals and spans of the passes that follow. Returns what an event
    /// of each host costs.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the cost of an event of the recording is not known.
    pub fn subtract_overhead(&mut self) -> Result<Vec<EventCosts>, Error> {
        let lacks = |covered: &&TraceCoverage| {
            let domain = if covered.pid.is_some() { Domain::User } else { Domain::Kernel };
            self.costs.get(covered.recording).is_none_or(|costs| costs.of(domain).is_none())
        };
        if let Some(lacking) = self.covered.iter().find(lacks) {
            let path = self.recordings[lacking.recording].path.display();
            let text = match lacking.pid {
                Some(_) => format!(
                    "{path} does not state what an event of a program cost: it is of another tracer or an older version, or the recorder could not measure it; record it again"
                ),
                None => format!(
                    "{path} does not state what an event of the kernel cost: it is of another tracer or an older version, or the recorder could not measure it, for which it has to record timer:hrtimer_cancel; record it again, or subtract the overhead of a recording without the kernel"
                ),
            };
            return Err(Error::Unusable(text));
        }
        self.subtracts_overhead = true;
        Ok(self.host_costs().map(|(_, costs)| costs).collect())
    }

    /// Returns the costs of each host's events: of several recordings, the first that is known.
    fn host_costs(&self) -> impl Iterator<Item = (Host, EventCosts)> + '_ {
        let hosts = (0..=u16::MAX).map(Host).take(self.host_count());
        hosts.map(|host| {
            let its =
                self.recordings.iter().zip(&self.costs).filter(move |(recording, _)| recording.host == host);
            (host, its.fold(EventCosts::default(), |known, (_, costs)| known.or(*costs)))
        })
    }

    /// Sets the number of threads that decode streams in passes. The default is the number of CPUs; with 1, the pass's
    /// own thread decodes them.
    pub fn decode_with(&mut self, threads: usize) {
        self.threads = Some(threads);
    }

    /// Returns the threads that decode streams in a pass, if it has any.
    fn decoders(&self) -> Option<Decoders<Events>> {
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
        decoders: Option<&'a Decoders<Events>>,
    ) -> StreamReader<'a, Events> {
        let (from, to) = (self.within.0 - LEAD, self.within.1);
        let mut events = stream.events().without_fields(demand.bare());
        if from > Time::MIN && !describes_state(stream) {
            events.skip_to(from);
        }
        StreamReader::new(events, demand.of_stream(to), decoders)
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
        let trace = SuperTrace::new(&self.classes, sources).of_hosts(self.hosts.clone());
        let mut trace = trace.continuing(before);
        self.numberings.iter().for_each(|(host, numbering)| trace.number_priorities(*host, *numbering));
        if self.subtracts_overhead {
            self.host_costs().for_each(|(host, costs)| trace.subtract_overhead(host, costs));
        }
        for RecordedProgram { host, pid, name, wake_up, .. } in &self.programs {
            trace.name_program(*host, *pid, name);
            wake_up.iter().for_each(|futex| trace.set_wake_up(*host, *pid, *futex));
        }
        trace
    }

    /// Returns the streams of all traces.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Returns the quotas of the programs' control groups and of real-time threads from the traces.
    pub fn quotas(&self) -> Quotas {
        let mut quotas = Quotas::default();
        self.programs.iter().for_each(|program| quotas.add(program.pid, program.quotas.clone()));
        self.real_time.into_iter().for_each(|(runtime, period)| quotas.set_real_time(runtime, period));
        quotas
    }

    /// Passes each item of the trace to `take`, until that returns `false`; reports progress to `watch`.
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

    /// Passes the demanded items.
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

    /// Passes each item of one pass to all consumers, with the fields that any of them reads. Problems of reading are
    /// kept.
    pub fn feed(
        &mut self,
        watch: Option<(&'static str, &mut dyn Watch)>,
        consumers: &mut [&mut dyn Consumer],
    ) {
        let reads = |class| consumers.iter().any(|consumer| consumer.reads_fields(class));
        let demand = Demand::for_fields_of(&self.classes, reads);
        let has_lead = consumers.iter().any(|consumer| consumer.needs_lead());
        let demand = if has_lead { demand.with_lead() } else { demand };
        let begin = self.within.0;
        self.each(&demand, watch, &mut |item| {
            let is_lead = end_of(item) < begin;
            let fed = consumers.iter_mut().filter(|consumer| !is_lead || consumer.needs_lead());
            fed.for_each(|consumer| consumer.take(item));
            true
        });
    }

    /// Passes the demanded items to `take`, until that returns `false`. It is not generic: each caller's crate would
    /// compile the merge and the state of the machine again, and some crates are optimised for size.
    fn each(
        &mut self,
        demand: &Demand,
        mut watch: Option<(&'static str, &mut dyn Watch)>,
        take: &mut dyn FnMut(&Item<'_>) -> bool,
    ) {
        let from = if demand.has_lead { Time::MIN } else { self.within.0 };
        let until = self.within.1;
        let (first, last) = self.span();
        let (first, last) = (first.max(self.within.0), last.min(until));
        let decoders = self.decoders();
        let readers = self.streams.iter().map(|stream| self.reader(stream, demand, decoders.as_ref()));
        let gaps = self.gaps.iter().map(|(_, losses)| StreamReader::Losses(losses.clone().into_iter()));
        let mut trace = self.super_trace_after(System::default(), readers.chain(gaps));
        let mut count = 0;
        let mut problems = Vec::new();
        loop {
            match trace.next() {
                Ok(Some(item)) => {
                    count += 1;
                    if count % EACH == 0
                        && let (Item::Event(moment), Some((what, watch))) = (&item, &mut watch)
                    {
                        let steps = |until: Time| (until - first).0.max(0).cast_unsigned();
                        watch.working(what, steps(moment.event.time.min(last)), steps(last));
                    }
                    // The last time in a packet's header is no limit: the packet can have later events.
                    if begin_of(&item) > until || end_of(&item) >= from && !take(&item) {
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
        span_of(&self.streams)
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

/// Returns the earliest and the latest time of streams, or the epoch if they have no time.
fn span_of(streams: &[Stream]) -> (Time, Time) {
    let spans = streams.iter().filter_map(Stream::span);
    spans.reduce(|(first, last), (from, to)| (first.min(from), last.max(to))).unwrap_or((Time(0), Time(0)))
}

/// Returns true if a stream describes the state of the machine, which other events do not show.
pub fn describes_state(stream: &Stream) -> bool {
    let names = ["statedump", "recorder", "symbols", "steal"];
    stream.files().next().is_some_and(|file| names.iter().any(|name| file.ends_with(name)))
}

fn begin_of(item: &Item<'_>) -> Time {
    match item {
        Item::Event(moment) => moment.event.time,
        Item::Loss(loss, _) => loss.from,
        Item::Disorder(disorder) => disorder.at,
    }
}

fn end_of(item: &Item<'_>) -> Time {
    match item {
        Item::Loss(loss, _) => loss.to,
        item => begin_of(item),
    }
}
