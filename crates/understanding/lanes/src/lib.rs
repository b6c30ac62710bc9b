//! Lanes: the activities of CPUs, threads and fibers around an interval, as data for a picture.
//!
//! A [`Painter`] is one pass over a super-trace. It collects the [`Lanes`] of some [`Window`]s, in memory bounded by
//! the number of windows and of living threads and fibers.
//!
//! | module | content |
//! |---|---|
//! | `painter`, `fibers` | the pass over the trace, and its part about fibers |
//! | `sheet` | the painted contents of one window |
#![forbid(unsafe_code)]

mod fibers;
mod painter;
mod sheet;

pub use painter::Painter;

use sordino_analyze::Thread;
use sordino_event::{Domain, Nanos, Tid, Time};
use sordino_intervals::Interval;
use sordino_timeline::{FiberId, TaskState};
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
    /// The fiber whose lane always has a place, if the interval belongs to a fiber.
    pub fiber: Option<FiberId>,
}

impl Window {
    /// Returns the window of an interval: the interval, and a quarter of its length, 20 us at least, on either side.
    pub fn around(interval: &Interval) -> Self {
        let margin = Nanos(interval.length().0 / MARGIN).max(LEAST_MARGIN);
        let Interval { begin, end, tid, fiber, .. } = *interval;
        Self { from: begin - margin, to: end + margin, tid, fiber }
    }
}

/// The CPUs, threads and fibers in a window of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The window of time; everything below lies in it.
    pub window: Window,
    /// True if the trace has the switches between threads. Without them, the lanes of CPUs and of threads are empty.
    pub has_switches: bool,
    /// The lanes of CPUs by number: those of the window's thread, and others by the time for which threads had them.
    pub cpus: Vec<CpuLane>,
    /// The number of CPUs that have events in the window and no lane.
    pub hidden_cpus: usize,
    /// The lane of the window's thread, then those of its wakers, then those of other threads by their time on its
    /// CPUs.
    pub threads: Vec<ThreadLane>,
    /// The number of threads that ran in the window and have no lane.
    pub hidden_threads: usize,
    /// The number of threads that waited for a CPU, never had one in the window, and have no lane.
    pub waiting_threads: usize,
    /// The lane of the window's fiber, then those of others by their time on its thread.
    pub fibers: Vec<FiberLane>,
    /// The number of fibers that a thread executed in the window, or that could continue, and that have no lane.
    pub hidden_fibers: usize,
    /// The wake-ups of the threads that have a lane, in order of time.
    pub wake_ups: Vec<WakeUp>,
    /// The wake-ups of the fibers that have a lane, in order of time.
    pub fiber_wake_ups: Vec<FiberWakeUp>,
    /// The events of programs, and the page faults, of the threads that have a lane, in order of their first.
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

impl CpuLane {
    /// Returns the time for which threads had it.
    fn busy(&self) -> Nanos {
        let is_thread =
            |span: &&LaneSpan<Option<Thread>>| span.activity.as_ref().is_some_and(|thread| !thread.is_idle());
        self.runs.iter().filter(is_thread).map(|span| span.to - span.from).sum()
    }
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

/// The lane of a fiber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiberLane {
    /// The fiber, by its number in its process.
    pub fiber: FiberId,
    /// The last name of the fiber in the window, if it has one.
    pub name: Option<Arc<str>>,
    /// The activities of the fiber, in order of time.
    pub states: Vec<LaneSpan<FiberActivity>>,
}

/// The activity of a fiber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FiberActivity {
    /// The trace does not have it.
    Unknown,
    /// A thread executes the fiber while it has a CPU.
    On {
        /// The thread that executes it.
        tid: Tid,
        /// The state of that thread.
        state: LaneState,
    },
    /// The fiber can continue and has no thread.
    Ready,
    /// The fiber is blocked, or has no thread for another reason.
    Off {
        /// The thing that it waits for, as its library names it, if it does.
        on: Option<Arc<str>>,
    },
}

/// A wake-up of a fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiberWakeUp {
    /// The time of the wake-up.
    pub at: Time,
    /// The fiber that is woken.
    pub fiber: FiberId,
    /// The fiber that woke it; `None` for other code.
    pub by: Option<FiberId>,
}

/// Events of one name that a thread hit at about the same time: a 150th of the window apart at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The time of the first event.
    pub at: Time,
    /// The number of events.
    pub count: u64,
    /// The thread that hit the tracepoint, or had the page faults.
    pub tid: Tid,
    /// The name of the event, or of the kind of page fault.
    pub name: Arc<str>,
    /// [`Domain::User`] for events of a program, [`Domain::Kernel`] for page faults.
    pub domain: Domain,
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
