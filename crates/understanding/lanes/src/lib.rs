//! Lanes: the activities of CPUs and threads around an interval, as data for a picture.
//!
//! A [`Painter`] is one pass over a super-trace. It collects the [`Lanes`] of some [`Window`]s, in memory bounded by the
//! number of windows and of living threads.
#![forbid(unsafe_code)]

mod painter;
mod sheet;

pub use painter::Painter;

use sordino_analyze::{Interval, Thread};
use sordino_event::{Nanos, Tid, Time};
use sordino_timeline::TaskState;
use std::sync::Arc;

/// The share of an interval's length that a window shows before and after it.
const MARGIN: i64 = 4;
/// The shortest margin of a window.
const LEAST_MARGIN: Nanos = Nanos(20_000);

/// A window of time around an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The begin of the window.
    pub from: Time,
    /// The end of the window.
    pub to: Time,
    /// The thread whose lane always has a place.
    pub tid: Tid,
}

impl Window {
    /// Returns the window of an interval: the interval, and a quarter of its length, 20 us at least, on either side.
    pub fn around(interval: &Interval) -> Self {
        let margin = Nanos(interval.length().0 / MARGIN).max(LEAST_MARGIN);
        Self { from: interval.begin - margin, to: interval.end + margin, tid: interval.tid }
    }
}

/// The CPUs and threads in a window of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The window of time; everything below lies in it.
    pub window: Window,
    /// True if the trace has the switches between threads. Without them, lanes of CPUs are empty, and so are threads'.
    pub has_switches: bool,
    /// A lane for each CPU that has events in the window, by number.
    pub cpus: Vec<CpuLane>,
    /// The lane of the window's thread, then those of its wakers, then those of other threads by their time on its CPUs.
    pub threads: Vec<ThreadLane>,
    /// The number of threads that ran in the window and have no lane.
    pub hidden_threads: usize,
    /// The wake-ups of the threads that have a lane, in order of time.
    pub wake_ups: Vec<WakeUp>,
    /// The events of programs, in order of their first.
    pub marks: Vec<Mark>,
    /// The stretches of which records are missing.
    pub lost: Vec<Hole>,
    /// The number of spans, wake-ups and marks that are left out, because a window has more than a picture can show.
    pub left_out: u64,
}

/// A stretch of time with one activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSpan<T> {
    /// The begin of the stretch.
    pub from: Time,
    /// The end of the stretch.
    pub to: Time,
    /// The activity in that time.
    pub activity: T,
}

/// The lane of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuLane {
    /// The number of the CPU.
    pub cpu: u32,
    /// The threads that had the CPU, in order of time; `None` where the trace does not have it.
    pub runs: Vec<LaneSpan<Option<Thread>>>,
    /// The interrupts and softirqs, in the order of their ends.
    pub interrupts: Vec<LaneSpan<Handler>>,
}

/// An interrupt or a softirq that a CPU handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// The name of the interrupt: `irq 36 eth0`, `local_timer`, `NET_RX`.
    pub name: Arc<str>,
    /// The number of interrupts that it interrupts.
    pub depth: u32,
    /// True for a softirq.
    pub is_softirq: bool,
}

/// The lane of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadLane {
    /// The thread, by its last name and priority in the window.
    pub thread: Thread,
    /// The states of the thread, in order of time.
    pub states: Vec<LaneSpan<LaneState>>,
    /// The time for which it had a CPU.
    pub ran: Nanos,
}

impl ThreadLane {
    /// Returns the CPUs that it had.
    fn cpus(&self) -> impl Iterator<Item = u32> {
        self.states.iter().filter_map(|span| match span.activity {
            LaneState::Running(cpu) => Some(cpu),
            _ => None,
        })
    }

    /// Returns the time for which it had one of these CPUs.
    fn ran_on(&self, is_one: impl Fn(u32) -> bool) -> Nanos {
        let on_it =
            |span: &&LaneSpan<LaneState>| matches!(span.activity, LaneState::Running(cpu) if is_one(cpu));
        self.states.iter().filter(on_it).map(|span| span.to - span.from).sum()
    }
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// The trace does not have it.
    Unknown,
    /// The thread has this CPU.
    Running(u32),
    /// The thread waits for a CPU.
    Runnable,
    /// The thread sleeps, or is stopped.
    Asleep(TaskState),
}

/// A wake-up of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// The time of the wake-up.
    pub at: Time,
    /// The thread that is woken.
    pub tid: Tid,
    /// The CPU on which its waker ran.
    pub cpu: Option<u32>,
    /// The thread that woke it; `None` if an interrupt did, or if the trace does not have it.
    pub by: Option<Tid>,
}

/// Events of one name that a thread hit at about the same time: a 500th of the window apart at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The time of the first event.
    pub at: Time,
    /// The number of events.
    pub count: u64,
    /// The thread that hit the tracepoint.
    pub tid: Tid,
    /// The name of the event.
    pub name: Arc<str>,
}

/// A stretch of which records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The begin of the stretch.
    pub from: Time,
    /// The end of the stretch.
    pub to: Time,
    /// The CPU whose records are missing; `None` if that is not known.
    pub cpu: Option<u32>,
    /// True if a program's records are missing, and not the kernel's.
    pub is_programs: bool,
}
