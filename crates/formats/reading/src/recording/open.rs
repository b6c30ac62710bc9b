//! Opening of recordings: their traces, and the facts in these.

use super::{MergedRecording, OpenRecording, RecordedProgram, describes_state, span_of};
use crate::absent::absent_files;
use crate::addresses::{Symbols, mapped_files};
use crate::clocks::{PairedOffset, RelatedClocks};
use crate::gaps::{TraceCoverage, gaps};
use crate::{Error, several};
use sordino_analyze::{GroupQuotas, Quota};
use sordino_collect::{Directory, OffsetSummary, State, Summary};
use sordino_ctf::read::{self, Stream};
use sordino_ctf::{ClockDescription, CounterCorrections, CounterSample, Environment, Setting};
use sordino_event::text::with_causes;
use sordino_event::{Classes, Cpu, EventCosts, Nanos, Pid, PriorityNumbering, Ticks, Time};
use sordino_query::Facts;
use sordino_timeline::{Host, Hosts};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of the clock that counters show.
const CYCLES: &str = "cycles";

impl OpenRecording {
    /// Opens the recording that was named, or the newest in the current directory: any directory with CTF traces of one
    /// recording.
    ///
    /// # Errors
    /// There is no trace in it, or traces of several recordings.
    pub fn open(named: Option<&Path>) -> Result<Self, Error> {
        Self::open_all(named.map(Path::to_owned).as_slice(), &[])
    }

    /// Opens the recordings that were named, in this order, as one, or the newest in the current directory if none was.
    /// Events are put in order by the first recording's clock; `paired` are the offsets of the others, by index, as far
    /// as pairs of events give them.
    ///
    /// # Errors
    /// As for [`open`](Self::open); a directory that is named twice or lies inside another one; too many recordings.
    pub fn open_all(named: &[PathBuf], paired: &[Option<PairedOffset>]) -> Result<Self, Error> {
        let named = match named {
            [] => vec![Directory::newest(&std::env::current_dir()?)?.path().to_owned()],
            named => named.to_vec(),
        };
        several::refuse_overlaps(&named)?;
        let mut recording = Self {
            path: named[0].clone(),
            classes: Classes::default(),
            facts: Facts::default(),
            within: (Time::MIN, Time::MAX),
            streams: Vec::new(),
            recordings: Vec::new(),
            hosts: Hosts::default(),
            covered: Vec::new(),
            gaps: Vec::new(),
            programs: Vec::new(),
            real_time: None,
            priorities: None,
            numberings: Vec::new(),
            costs: Vec::new(),
            subtracts_overhead: false,
            host: None,
            kernel: [None, None],
            problems: Vec::new(),
            threads: None,
            function_names: Arc::default(),
        };
        let (mut clocks, mut boots, mut of_streams) = (RelatedClocks::default(), Vec::new(), Vec::new());
        for (index, path) in named.iter().enumerate() {
            let paired = paired.get(index).and_then(Option::as_ref);
            recording.add(path, &mut clocks, &mut boots, paired)?;
            let host = recording.recordings.last().map_or_else(Host::default, |added| added.host);
            of_streams.resize(recording.streams.len(), host);
        }
        if named.len() > 1 {
            let mut ends = BTreeMap::new();
            for (host, stream) in of_streams.iter().zip(&recording.streams) {
                let end = ends.entry(*host).or_insert(Time::MIN);
                *end = stream.span().map_or(*end, |(_, to)| to.max(*end));
            }
            recording.gaps = gaps(&recording.covered, &ends);
            of_streams.extend(recording.gaps.iter().map(|(host, _)| *host));
        }
        let mut of_classes = Vec::new();
        recording.recordings.iter().for_each(|added| of_classes.resize(added.classes, added.host));
        let last = recording.recordings.iter().map(|added| added.host).max();
        recording.hosts = Hosts::new(last.unwrap_or_default(), of_classes, of_streams);
        recording.facts.begin_at(recording.span().0);
        recording.read_symbols_by(Symbols::default());
        Ok(recording)
    }

    /// Adds the recording in a directory. `boots` are those of the hosts so far, as far as they are known.
    fn add(
        &mut self,
        path: &Path,
        clocks: &mut RelatedClocks,
        boots: &mut Vec<Option<String>>,
        paired: Option<&PairedOffset>,
    ) -> Result<(), Error> {
        let traces = read::find(path)?;
        if traces.is_empty() {
            let text = format!("{} holds no CTF trace: no file 'metadata' in it", path.display());
            return Err(Error::Unusable(text));
        }
        several::refuse_several(path, &traces)?;
        let parts = several::parts(path, &traces);
        let offsets: Vec<OffsetSummary> = parts.iter().flat_map(|part| self.look_at_summary(part)).collect();
        let (corrections, unusable) = corrections(&offsets);
        self.problems.extend(unusable.iter().map(|cpu| {
            let path = path.display();
            format!("{path}: the offsets of CPU {}'s counter in recording.json contradict each other and are not subtracted", cpu.0)
        }));
        let first_stream = self.streams.len();
        let mut opened = Vec::new();
        for trace in traces {
            let first = self.classes.len();
            let adjust = |environment: &Environment, clock: &mut ClockDescription| {
                if clock.name == CYCLES {
                    clock.corrections = corrections.clone();
                }
                clocks.adjust(environment, clock, paired);
            };
            match read::Trace::open_with(&trace, &mut self.classes, adjust) {
                Ok(trace) => {
                    if let Some(host) = trace.environment().text("hostname") {
                        self.facts.add_host(first, &self.classes, host);
                    }
                    self.streams.extend_from_slice(trace.streams());
                    opened.push((trace, first..self.classes.len()));
                }
                Err(error) => self.problems.push(with_causes(&error)),
            }
        }
        let span = span_of(&self.streams[first_stream..]);
        let (clock, boot) = clocks.end(span, paired);
        let known = boots.iter().position(|known| known.is_some() && known.as_deref() == boot);
        if known.is_none() {
            boots.push(boot.map(ToOwned::to_owned));
        }
        let number = known.unwrap_or(boots.len() - 1);
        let host =
            Host(u16::try_from(number).map_err(|_| Error::Unusable("too many recordings".to_owned()))?);
        opened.iter().for_each(|(trace, classes)| self.learn(trace, classes.clone(), host));
        let host_name = opened.iter().find_map(|(trace, _)| trace.environment().text("hostname"));
        let host_name = host_name.map(ToOwned::to_owned);
        let (path, classes) = (path.to_owned(), self.classes.len());
        self.recordings.push(MergedRecording { path, host, host_name, clock, classes });
        Ok(())
    }

    /// Adds the facts in a trace's environment.
    fn learn(&mut self, trace: &read::Trace, classes: Range<usize>, host: Host) {
        let environment = trace.environment();
        let pid = environment.integer("vpid").and_then(|pid| i32::try_from(pid).ok()).map(Pid);
        if pid.is_some() || environment.text("domain") == Some("kernel") {
            let streams = trace.streams().iter().filter(|stream| !describes_state(stream));
            let spans = streams.filter_map(Stream::span);
            let covered = spans.reduce(|(first, last), (from, to)| (first.min(from), last.max(to)));
            let recording = self.recordings.len();
            self.covered.extend(covered.map(|span| TraceCoverage { recording, host, pid, span, classes }));
        }
        self.programs.extend(program(trace, host));
        if let Some(numbering) = priorities(environment)
            && self.numberings.iter().all(|(known, _)| *known != host)
        {
            self.numberings.push((host, numbering));
        }
        let costs = EventCosts::from_entries(|name| environment.integer(name));
        let recording = self.recordings.len();
        self.costs.resize(recording + 1, EventCosts::default());
        self.costs[recording] = self.costs[recording].or(costs);
        if host != Host(0) {
            return;
        }
        let text = |name| environment.text(name).map(ToOwned::to_owned);
        self.host = self.host.take().or(text("hostname"));
        self.real_time = self.real_time.or(real_time(trace));
        for (known, name) in self.kernel.iter_mut().zip(["kernel_release", "machine"]) {
            *known = known.take().or(text(name));
        }
        self.priorities = self.priorities.or(priorities(environment));
    }

    /// Adds a problem if a part of the recording is not finished, so that kernel events are missing, or if files of it
    /// are missing. Returns the offsets of its CPUs' counters.
    fn look_at_summary(&mut self, part: &Path) -> Vec<OffsetSummary> {
        let Ok(directory) = Directory::open(part) else { return Vec::new() };
        let path = part.display();
        let summary = Summary::read(&directory);
        let offsets = summary.as_ref().map_or(Vec::new(), |summary| summary.clock.offsets.clone());
        match summary {
            Ok(summary) if summary.state == State::Recording => self.problems.push(format!(
                "{path} is not finished: it is being recorded, or its recorder was killed (then: sordino recover {path})"
            )),
            Ok(summary) if summary.state == State::Incomplete => self.problems.push(format!(
                "{path} lacks kernel events, whose pages are kept: make room, then run: sordino recover {path}"
            )),
            Ok(summary) => self.problems.extend(absent_files(part, &summary)),
            Err(error) => self.problems.push(with_causes(&error)),
        }
        offsets
    }
}

/// Returns the corrections of the counters whose offsets are greater than their uncertainty at some time, and the CPUs
/// whose offsets contradict each other.
fn corrections(offsets: &[OffsetSummary]) -> (CounterCorrections, Vec<Cpu>) {
    let mut of_cpus: BTreeMap<Cpu, Vec<OffsetSummary>> = BTreeMap::new();
    offsets.iter().for_each(|offset| of_cpus.entry(offset.cpu).or_default().push(*offset));
    of_cpus.retain(|_, own| own.iter().any(|offset| offset.ticks.unsigned_abs() > offset.uncertainty));
    let mut corrections = CounterCorrections::default();
    let sample = |offset: &OffsetSummary| {
        // By the CPU's own counter, as its timestamps are.
        CounterSample { at: Ticks(offset.at.saturating_add_signed(offset.ticks)), offset: offset.ticks }
    };
    let unusable =
        of_cpus.iter().filter(|(cpu, own)| !corrections.set(**cpu, own.iter().map(sample).collect()));
    let unusable = unusable.map(|(cpu, _)| *cpu).collect();
    (corrections, unusable)
}

/// Returns the time that real-time threads may use on a CPU and the period of that limit, from the kernel's trace.
fn real_time(trace: &read::Trace) -> Option<(Nanos, Nanos)> {
    Some((microseconds(trace, "sched_rt_runtime_us")?, microseconds(trace, "sched_rt_period_us")?))
}

fn microseconds(trace: &read::Trace, name: &str) -> Option<Nanos> {
    Some(Nanos(trace.environment().integer(name)?.saturating_mul(1000)))
}

/// Returns the numbering of priorities in a trace of the kernel: the one that its environment states, or that of a
/// known tracer which states none.
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
fn program(trace: &read::Trace, host: Host) -> Option<RecordedProgram> {
    let environment = trace.environment();
    let pid = environment.integer("vpid").and_then(|pid| i32::try_from(pid).ok())?;
    let wake_up = environment.integer("wake_up_futex").map(i64::cast_unsigned);
    let time = |name: &str| microseconds(trace, name);
    let quota = |of: &str| {
        let group = Some(environment.text(&format!("{of}_quota_group"))?.into());
        let [runtime, period] = ["quota", "period"].map(|name| time(&format!("{of}_{name}_us")));
        Some(Quota { group, runtime: runtime?, period: period? })
    };
    let has_real_time = environment.text("rt_quota_group").is_some();
    let quotas = GroupQuotas { ordinary: quota("cpu"), real_time: has_real_time.then(|| quota("rt")) };
    let name = environment.text("procname")?.to_owned();
    Some(RecordedProgram { host, pid: Pid(pid), name, wake_up, quotas, files: mapped_files(environment) })
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
