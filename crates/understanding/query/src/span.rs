//! A stretch of time that a measure finds.

use sordino_event::{Cpu, Nanos, Tid, Time};
use sordino_intervals::Interval;
use sordino_timeline::{FiberId, System};
use std::cmp::Reverse;
use std::sync::Arc;

/// The parts of spans in which the span's thread or CPU records little or nothing.
const UNRECORDED: [&str; 3] = ["other fibers", "idle and switch", "unknown"];

/// A stretch of time of a thread or a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The begin of the stretch.
    pub from: Time,
    /// The end of the stretch.
    pub to: Time,
    /// The thread that the time belongs to, or that an interrupt came in.
    pub tid: Option<Tid>,
    /// The state in which the thread was, of measures that follow threads' states.
    pub state: Option<SpanState>,
    /// The fiber that the time belongs to, if the measure knows it.
    pub fiber: Option<FiberId>,
    /// The CPU on which it ended.
    pub cpu: Option<Cpu>,
    /// The name of the interrupt, the system call or the link of a path.
    pub name: Option<Arc<str>>,
    /// The other thread that is involved: the holder of a lock.
    pub other: Option<Tid>,
    /// The address of a lock.
    pub address: Option<u64>,
    /// The regularity of a periodic event that ends the stretch.
    pub regularity: Option<Regularity>,
    /// The part of the stretch that recording took, if it is subtracted.
    pub overhead: Nanos,
    /// The parts of the time, which add up to it, as [`Measure::parts`](crate::Measure::parts) names them; empty if the
    /// measure has none.
    pub parts: Vec<Nanos>,
}

/// A state of a thread during a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpanState {
    /// The thread had a CPU.
    Running,
    /// The thread was woken, and waited for a CPU.
    Woken,
    /// The thread was preempted, and waited for a CPU.
    Preempted,
    /// The thread had left its CPU, and waited for a wake-up.
    Sleeping,
}

/// The regularity of one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regularity {
    /// The deviation from the usual length, without sign.
    pub deviation: Nanos,
    /// The number of events that did not come in it.
    pub missed: u64,
    /// The number of late periods up to this one, if it is late; 0 otherwise.
    pub late: u64,
}

impl Span {
    pub(crate) fn between(from: Time, to: Time) -> Self {
        Self { from, to, ..Self::default() }
    }

    /// Returns the measured time: the length of the stretch without its overhead, or the deviation of a period.
    pub fn length(&self) -> Nanos {
        self.regularity.map_or(self.to - self.from - self.overhead, |regularity| regularity.deviation)
    }

    /// Returns the span as an interval to explain; `None` if it belongs to no thread.
    pub(crate) fn interval(&self, system: &System) -> Option<Interval> {
        let tid = self.tid.filter(|tid| *tid != Tid(0) && self.from < self.to)?;
        Some(Interval {
            begin: self.from,
            end: self.to,
            tid,
            pid: system.pid(tid),
            begin_cpu: None,
            end_cpu: self.cpu,
            fiber: self.fiber,
            overhead: self.overhead,
        })
    }

    /// Returns the span without an overhead, which its longest parts bear, and last those in which nothing is recorded;
    /// `names` are the names of the parts.
    pub(crate) fn without(&self, overhead: Nanos, names: &[&str]) -> Self {
        let mut span = Self { overhead, ..self.clone() };
        let mut parts: Vec<_> = span.parts.iter_mut().zip(names).collect();
        parts.sort_by_key(|(time, name)| (UNRECORDED.contains(name), Reverse(**time)));
        let mut rest = overhead;
        for (time, _) in parts {
            let borne = rest.min(*time);
            *time -= borne;
            rest -= borne;
        }
        span
    }
}

/// A result of a finder: a span, or one that is known in part only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundSpan {
    Whole(Span),
    /// The thread has had the CPU since before the recording.
    Cut(Span),
    /// Records are missing, or the begin was not recorded.
    Broken,
}
