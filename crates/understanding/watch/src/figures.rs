//! All figures that are shown at one moment.

use crate::stretch::StretchSums;
use crate::tally::{Tally, label};
use crate::threads::{LongestWait, SortKey, ThreadRow};
use serde::Serialize;
use sordino_event::Nanos;
use sordino_query::{Bar, Measure};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Version of the JSON.
pub const SCHEMA_VERSION: u32 = 1;

/// The state of a recording, as a terminal or JSON shows it. Shares are of one CPU, or of the whole: 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Version of this structure.
    pub schema: u32,
    /// The name of the session, or the directory.
    pub name: String,
    /// The state of the recording in words.
    pub state: String,
    /// The condition that events and waits meet, if there is one.
    pub condition: Option<String>,
    /// The time of the trace so far, in nanoseconds.
    pub duration_ns: i64,
    /// The time of the last event in nanoseconds since 1970; `None` if there is none.
    pub last_ns: Option<i64>,
    /// The time over which rates and the histogram reach, in nanoseconds.
    pub window_ns: i64,
    /// The share of the window that was read; the rest was left out.
    pub read_share: f64,
    /// Events per second, of all names.
    pub events_per_s: f64,
    /// The number of events so far.
    pub events_total: u64,
    /// The events by name, most frequent first.
    pub events: Vec<EventFigures>,
    /// The wake-up latencies by thread.
    pub threads: Vec<ThreadFigures>,
    /// The number of waits that are known in part only.
    pub waits_unknown: u64,
    /// The wake-up latencies of the window; each bar has twice the limit of the one before.
    pub histogram: Vec<Bar>,
    /// The CPUs in order of their numbers.
    pub cpus: Vec<CpuFigures>,
    /// The handlers of interrupts and softirqs, most time first.
    pub interrupts: Vec<HandlerFigures>,
    /// The lost records so far.
    pub losses: LossFigures,
    /// The cost of the tracer, as far as it is known.
    pub cost: Cost,
    /// Further notes for the user.
    pub notes: Vec<String>,
}

/// An event and its rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventFigures {
    /// The name of the event.
    pub name: String,
    /// Number of its events per second.
    pub per_s: f64,
    /// The number of events so far.
    pub total: u64,
}

/// The wake-up latencies of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadFigures {
    /// The id of the thread.
    pub tid: i32,
    /// The name of the thread and its id.
    pub label: String,
    /// The priority, as `chrt` and `nice` number it.
    pub priority: Option<String>,
    /// Number of its wake-ups per second.
    pub per_s: f64,
    /// The number of wake-ups so far.
    pub count: u64,
    /// The wait that half of the waits do not exceed.
    pub median_ns: i64,
    /// The wait that 99 % of the waits do not exceed.
    pub p99_ns: i64,
    /// The longest wait so far.
    pub worst: Option<PeakFigures>,
}

/// A long wait, and its causes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeakFigures {
    /// The length of the wait.
    pub length_ns: i64,
    /// The time of the wake-up since 1970.
    pub at_ns: i64,
    /// The CPU on which the thread then ran.
    pub cpu: Option<u32>,
    /// The longest part in words.
    pub cause: String,
    /// The thread that had the CPU until then.
    pub before: Option<String>,
    /// The parts of the wait in nanoseconds, by name.
    pub parts_ns: BTreeMap<&'static str, i64>,
}

/// A CPU and its use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuFigures {
    /// The number of the CPU.
    pub cpu: u32,
    /// The share of time for which a thread had it; `None` if that is not known.
    pub busy_share: Option<f64>,
    /// Number of events on it per second.
    pub events_per_s: f64,
}

/// A handler of an interrupt or a softirq.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HandlerFigures {
    /// The number or name of the interrupt, or the name of the softirq.
    pub name: String,
    /// Number of its calls per second.
    pub per_s: f64,
    /// The share of a CPU that it took.
    pub share: f64,
    /// The longest call of the window.
    pub max_ns: i64,
}

/// The numbers of lost records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LossFigures {
    /// The number of records that were counted.
    pub count: u64,
    /// The number of losses whose records could not be counted.
    pub uncounted: u64,
    /// The number of records by cause.
    pub by_cause: BTreeMap<String, u64>,
}

/// The CPU time that the tracer took lately, as shares of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// The whole recorder; `None` if none runs.
    pub recorder_share: Option<f64>,
    /// The recorder's threads, most time first.
    pub threads: Vec<ThreadCost>,
    /// The process that shows this.
    pub reader_share: Option<f64>,
}

/// A thread of the recorder, and its share of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadCost {
    /// The name of the thread.
    pub name: String,
    /// The thread's share of a CPU.
    pub share: f64,
}

impl Figures {
    /// Returns the figures of a trace after the last stretch, with the threads in this order. The names, the state and
    /// the cost are the caller's to add.
    pub fn of(tally: &mut Tally, sort: SortKey) -> Self {
        let mut window = StretchSums::default();
        tally.past.iter().for_each(|stretch| window.add(stretch));
        let seconds = seconds(window.time.covered);
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let share = |part: Nanos, whole: Nanos| part.0 as f64 / whole.0.max(1) as f64;
        let events = events(tally, &window, rate);
        let cpus = window.cpus.iter().map(|(cpu, sums)| CpuFigures {
            cpu: cpu.0,
            busy_share: (sums.time.known > Nanos::ZERO).then(|| share(sums.time.busy, sums.time.known)),
            events_per_s: rate(sums.events),
        });
        let interrupts = window.handlers.iter().map(|(name, sums)| HandlerFigures {
            name: name.to_string(),
            per_s: rate(sums.count),
            share: share(sums.total, window.time.covered),
            max_ns: sums.max.0,
        });
        let mut interrupts: Vec<_> = interrupts.collect();
        interrupts.sort_by(|a, b| b.share.total_cmp(&a.share));
        let threads = tally.threads.sorted(sort).into_iter();
        let threads = threads.map(|(row, quantiles)| thread(row, quantiles, rate)).collect();
        Self {
            schema: SCHEMA_VERSION,
            name: String::new(),
            state: String::new(),
            condition: None,
            duration_ns: tally.span.map_or(0, |(first, last)| (last - first).0),
            last_ns: tally.span.map(|(_, last)| last.0),
            window_ns: window.time.elapsed.0,
            read_share: match window.time.elapsed {
                Nanos(0) => 1.0,
                elapsed => share(window.time.covered, elapsed).min(1.0),
            },
            events_per_s: rate(window.events.values().sum()),
            events_total: tally.totals.values().sum(),
            events,
            threads,
            waits_unknown: tally.broken,
            histogram: histogram(&window),
            cpus: cpus.collect(),
            interrupts,
            losses: losses(tally),
            cost: Cost::default(),
            notes: notes(tally),
        }
    }
}

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

fn events(tally: &Tally, window: &StretchSums, rate: impl Fn(u64) -> f64) -> Vec<EventFigures> {
    let mut events: Vec<_> = tally.totals.iter().collect();
    let lately = |name| window.events.get(name).copied().unwrap_or(0);
    events.sort_by_key(|(name, total)| (Reverse(lately(*name)), Reverse(**total)));
    let figures = events.into_iter().map(|(name, total)| EventFigures {
        name: name.to_string(),
        per_s: rate(lately(name)),
        total: *total,
    });
    figures.collect()
}

fn thread(row: &ThreadRow, [median, p99]: [Nanos; 2], rate: impl Fn(u64) -> f64) -> ThreadFigures {
    ThreadFigures {
        tid: row.tid.0,
        label: label(row.name.as_ref(), row.tid).to_string(),
        priority: row.priority.clone(),
        per_s: rate(row.count_lately()),
        count: row.waits.count(),
        median_ns: median.0,
        p99_ns: p99.0,
        worst: row.worst.as_ref().map(peak),
    }
}

fn peak(peak: &LongestWait) -> PeakFigures {
    PeakFigures {
        length_ns: peak.length().0,
        at_ns: peak.from.0,
        cpu: peak.cpu.map(|cpu| cpu.0),
        cause: peak.cause(),
        before: peak.before.as_ref().map(ToString::to_string),
        parts_ns: Measure::Latency
            .parts()
            .iter()
            .zip(&peak.parts)
            .map(|(name, part)| (*name, part.0))
            .collect(),
    }
}

fn histogram(window: &StretchSums) -> Vec<Bar> {
    let is_used = |count: &u64| *count > 0;
    let (Some(first), Some(last)) =
        (window.bars.iter().position(is_used), window.bars.iter().rposition(is_used))
    else {
        return Vec::new();
    };
    let below = |bits: usize| Nanos(1_i64.checked_shl(bits as u32).filter(|n| *n > 0).unwrap_or(i64::MAX));
    (first..=last).map(|bits| Bar { below: below(bits), count: window.bars[bits] }).collect()
}

fn losses(tally: &Tally) -> LossFigures {
    let mut losses = LossFigures::default();
    for (cause, (count, uncounted)) in &tally.losses {
        losses.count += count;
        losses.uncounted += uncounted;
        losses.by_cause.insert(cause.to_string(), *count);
    }
    losses
}

fn notes(tally: &Tally) -> Vec<String> {
    let mut notes = Vec::new();
    if !tally.recorded.switches {
        notes.push("no waits and CPUs: the kernel's schedule is not recorded (--kernel sched)".to_owned());
    } else if !tally.recorded.wakeups {
        notes.push("no waits: the kernel's wake-ups are not recorded (--kernel sched)".to_owned());
    }
    if tally.threads.left_out > 0 {
        notes.push("not all threads are listed: there were too many".to_owned());
    }
    notes
}
