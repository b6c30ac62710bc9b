//! The stretches of each lane: their colours and words.

use crate::markup::named;
use crate::thin::DrawnStretch;
use sordino_analyze::Thread;
use sordino_event::{Tid, Time};
use sordino_lanes::{CpuLane, FiberActivity, FiberLane, Handler, LaneSpan, LaneState, Lanes, ThreadLane};
use sordino_timeline::TaskState;

/// The colours of threads, in the order of their lanes.
const COLOURS: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];

/// The colours of threads: the window's own thread, and those with a lane, have theirs.
pub(crate) struct Colours(Vec<Tid>);

impl Colours {
    pub(crate) fn of(lanes: &Lanes) -> Self {
        Self(
            lanes.threads.iter().map(|lane| lane.thread.tid).filter(|tid| *tid != lanes.window.tid).collect(),
        )
    }

    fn class(&self, tid: Tid, own: Tid) -> &'static str {
        match tid {
            _ if tid == own => "own",
            Tid(0) => "idle",
            _ => {
                let by_lane = self.0.iter().position(|listed| *listed == tid);
                COLOURS[by_lane.unwrap_or(tid.0.unsigned_abs() as usize) % COLOURS.len()]
            }
        }
    }
}

/// Returns a thread's name, with its id: `motor/4711`.
pub(crate) fn name(thread: &Thread) -> String {
    match &thread.comm {
        _ if thread.is_idle() => "idle".to_owned(),
        Some(comm) => format!("{}/{}", named(comm), thread.tid),
        None => format!("thread {}", thread.tid),
    }
}

/// Returns a thread's name and priority: `motor/4711 (RT 90)`.
pub(crate) fn described(thread: &Thread) -> String {
    match thread.priority {
        Some(priority) if !thread.is_idle() => format!("{} ({priority})", name(thread)),
        _ => name(thread),
    }
}

/// Returns the words that appear when a user points at a span: the activity, its length, and its begin from `origin`
/// on.
fn title<T>(span: &LaneSpan<T>, activity: &str, origin: Time) -> String {
    format!("{activity}: {} from {}", span.to - span.from, since(span.from, origin))
}

/// Returns a time relative to the origin: `+1.23 ms`.
pub(crate) fn since(at: Time, origin: Time) -> String {
    let sign = if at < origin { "" } else { "+" };
    format!("{sign}{}", at - origin)
}

/// Returns the stretches of the threads on a CPU.
pub(crate) fn runs(lane: &CpuLane, own: Tid, colours: &Colours, origin: Time) -> Vec<DrawnStretch> {
    let stretch = |span: &LaneSpan<Option<Thread>>| {
        let (class, label, activity) = match &span.activity {
            None => ("unknown", String::new(), "not recorded".to_owned()),
            Some(thread) if thread.is_idle() => ("idle", String::new(), "idle".to_owned()),
            Some(thread) => {
                let label = thread.comm.as_deref().map_or_else(|| name(thread), named);
                (colours.class(thread.tid, own), label, described(thread))
            }
        };
        let title = title(span, &format!("cpu{}: {activity}", lane.cpu), origin);
        DrawnStretch { from: span.from, to: span.to, class, label, title }
    };
    lane.runs.iter().map(stretch).collect()
}

/// Returns the stretches of the interrupts that a CPU handles at this depth.
pub(crate) fn interrupts(lane: &CpuLane, depth: u32, origin: Time) -> Vec<DrawnStretch> {
    let spans = lane.interrupts.iter().filter(|span| span.activity.depth == depth);
    let stretch = |span: &LaneSpan<Handler>| {
        let Handler { name, is_softirq, .. } = &span.activity;
        let kind = if *is_softirq { "softirq" } else { "interrupt" };
        let title = title(span, &format!("cpu{}: {kind} {}", lane.cpu, named(name)), origin);
        let class = if *is_softirq { "softirq" } else { "irq" };
        DrawnStretch { from: span.from, to: span.to, class, label: String::new(), title }
    };
    spans.map(stretch).collect()
}

/// Returns the stretches of a thread's states.
pub(crate) fn states(lane: &ThreadLane, own: Tid, colours: &Colours, origin: Time) -> Vec<DrawnStretch> {
    let stretch = |span: &LaneSpan<LaneState>| {
        let (class, label, activity) = match span.activity {
            LaneState::Unknown => ("unknown", String::new(), "not recorded".to_owned()),
            LaneState::Running(cpu) => {
                (colours.class(lane.thread.tid, own), format!("cpu{cpu}"), format!("runs on cpu{cpu}"))
            }
            LaneState::Runnable => ("runnable", "waits".to_owned(), "waits for a CPU".to_owned()),
            LaneState::Asleep(state) => asleep(state),
        };
        let title = title(span, &format!("{} {activity}", name(&lane.thread)), origin);
        DrawnStretch { from: span.from, to: span.to, class, label, title }
    };
    lane.states.iter().map(stretch).collect()
}

/// Returns a fiber's number and name: `16(work/14)`.
pub(crate) fn fiber_name(lane: &FiberLane) -> String {
    match &lane.name {
        Some(name) if !name.is_empty() => format!("{}({})", lane.fiber, named(name)),
        _ => lane.fiber.to_string(),
    }
}

/// Returns the stretches of a fiber's activities.
pub(crate) fn fibers(lane: &FiberLane, lanes: &Lanes, colours: &Colours, origin: Time) -> Vec<DrawnStretch> {
    let own = lanes.window.tid;
    let thread = |tid: Tid| {
        let found = lanes.threads.iter().find(|lane| lane.thread.tid == tid);
        found.map_or_else(|| format!("thread {tid}"), |lane| name(&lane.thread))
    };
    let stretch = |span: &LaneSpan<FiberActivity>| {
        let (class, label, activity) = match &span.activity {
            FiberActivity::Unknown => ("unknown", String::new(), "not recorded".to_owned()),
            FiberActivity::Ready => ("runnable", "waits".to_owned(), "waits for a thread".to_owned()),
            FiberActivity::Off { on: Some(on) } => {
                ("asleep", String::new(), format!("waits for {}", named(on)))
            }
            FiberActivity::Off { on: None } => ("asleep", String::new(), "has no thread".to_owned()),
            FiberActivity::On { tid, state } => {
                let carrier = thread(*tid);
                match state {
                    LaneState::Running(cpu) => {
                        let words = format!("runs on {carrier}, cpu{cpu}");
                        (colours.class(*tid, own), carrier, words)
                    }
                    LaneState::Runnable => {
                        ("runnable", "waits".to_owned(), format!("is on {carrier}, which waits for a CPU"))
                    }
                    LaneState::Asleep(state) => {
                        let (class, label, words) = asleep(*state);
                        (class, label, format!("is on {carrier}, which {words}"))
                    }
                    LaneState::Unknown => {
                        let words = format!("is on {carrier}");
                        (colours.class(*tid, own), carrier, words)
                    }
                }
            }
        };
        let title = title(span, &format!("fiber {} {activity}", fiber_name(lane)), origin);
        DrawnStretch { from: span.from, to: span.to, class, label, title }
    };
    lane.states.iter().map(stretch).collect()
}

fn asleep(state: TaskState) -> (&'static str, String, String) {
    let (class, words) = match state {
        TaskState::Uninterruptible => ("disk", "sleeps, uninterruptible"),
        TaskState::Stopped | TaskState::Traced => ("asleep", "is stopped"),
        TaskState::Dead => ("asleep", "has ended"),
        _ => ("asleep", "sleeps"),
    };
    (class, String::new(), format!("{words} ({})", state.letter()))
}
