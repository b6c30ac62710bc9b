//! The spans of time in which threads, fibers and interrupts were in one state.

use sordino_event::{Cpu, Nanos, Pid, Tid, Time};
use sordino_query::{Span, SpanState, Spans};
use sordino_timeline::{FiberEvent, FiberId, Item, Kernel, Moment, System, ThreadState};
use std::collections::HashMap;
use std::sync::Arc;

/// A row of the table `intervals`, or of `latencies`.
#[derive(Debug)]
pub(crate) struct IntervalRow {
    pub(crate) from: Time,
    pub(crate) to: Time,
    pub(crate) cpu: Option<Cpu>,
    pub(crate) pid: Option<Pid>,
    pub(crate) tid: Option<Tid>,
    pub(crate) comm: Option<Arc<str>>,
    /// The number of the fiber that was mounted.
    pub(crate) fiber: Option<u64>,
    pub(crate) state: &'static str,
    /// The name of the interrupt or of the fiber.
    pub(crate) name: Option<Arc<str>>,
    /// The thread that woke or preempted this one, with its name.
    pub(crate) by: Option<(Tid, Option<Arc<str>>)>,
    pub(crate) priority: Option<i32>,
    /// The parts of a wake-up latency.
    pub(crate) parts: Vec<Nanos>,
}

/// The state whose spans are the wake-up latencies.
pub(crate) const WOKEN: &str = "woken";

/// The states of all threads, fibers and interrupts of a trace, so far.
#[derive(Debug)]
pub(crate) struct IntervalFinder {
    /// The finders, each with the state of its spans if these have no state of their own.
    finders: Vec<(&'static str, Spans)>,
    /// The thread that woke or preempted each thread last.
    by: HashMap<Tid, Tid>,
    /// The fiber of each thread, with the time at which the thread began to execute it; `None` if fibers are not
    /// requested.
    mounted: Option<HashMap<(Pid, Tid), (u64, Time)>>,
}

impl IntervalFinder {
    /// Finds the spans of all states.
    pub(crate) fn all() -> Self {
        let finders =
            vec![("", Spans::states()), ("interrupt", Spans::interrupts()), ("softirq", Spans::softirqs())];
        Self { finders, by: HashMap::new(), mounted: Some(HashMap::new()) }
    }

    /// Finds the waits from a wake-up until the thread has a CPU.
    pub(crate) fn latencies() -> Self {
        Self { finders: vec![(WOKEN, Spans::latencies())], by: HashMap::new(), mounted: None }
    }

    /// Processes the next item of the trace, and passes on the spans that end with it.
    pub(crate) fn take(&mut self, item: &Item<'_>, mut add: impl FnMut(IntervalRow)) {
        let system = match item {
            Item::Event(moment) => {
                self.note_cause(moment);
                Some(moment.system)
            }
            _ => None,
        };
        for (own, finder) in &mut self.finders {
            finder.take(item, |span| {
                if let Some((span, system)) = span.zip(system) {
                    add(interval(own, span, system, &self.by));
                }
            });
        }
        match item {
            Item::Event(moment) => {
                if let Some(interval) = self.mounted.as_mut().and_then(|mounted| unmount(mounted, moment)) {
                    add(interval);
                }
                if let Some(Kernel::Gone { tid }) = moment.kernel {
                    self.by.remove(&tid);
                }
            }
            Item::Loss(loss, _) => {
                let mounted = self.mounted.iter_mut();
                mounted.for_each(|mounted| mounted.retain(|(pid, _), _| Some(*pid) != loss.pid));
            }
            Item::Disorder(_) => {}
        }
    }

    /// Notes the thread that wakes or preempts another.
    fn note_cause(&mut self, moment: &Moment<'_>) {
        let (tid, by) = match moment.kernel {
            Some(Kernel::Switch { prev, .. }) => match moment.system.thread_state(prev.tid) {
                ThreadState::Preempted { by } => (prev.tid, Some(by)),
                _ => return,
            },
            Some(Kernel::Waking { tid, .. } | Kernel::Woken { tid, .. }) => {
                match moment.system.thread_state(tid) {
                    ThreadState::Woken { by } => (tid, by),
                    _ => return,
                }
            }
            _ => return,
        };
        match by {
            Some(by) => self.by.insert(tid, by),
            None => self.by.remove(&tid),
        };
    }
}

fn interval(own: &'static str, span: Span, system: &System, by: &HashMap<Tid, Tid>) -> IntervalRow {
    let comm = |tid| system.comm(tid).cloned();
    let (state, has_cause) = match span.state {
        Some(SpanState::Running) => ("running", false),
        Some(SpanState::Woken) => (WOKEN, true),
        Some(SpanState::Preempted) => ("preempted", true),
        Some(SpanState::Sleeping) => ("sleeping", true),
        None => (own, false),
    };
    let by = span.tid.filter(|_| has_cause).and_then(|tid| by.get(&tid));
    IntervalRow {
        from: span.from,
        to: span.to,
        cpu: span.cpu,
        pid: span.tid.and_then(|tid| system.pid(tid)),
        tid: span.tid,
        comm: span.tid.and_then(comm),
        fiber: span.fiber.map(|fiber| fiber.number),
        state,
        name: span.name,
        by: by.map(|by| (*by, comm(*by))),
        priority: span.tid.and_then(|tid| system.priority(tid)).map(|priority| priority.0),
        parts: span.parts,
    }
}

/// Applies a switch between fibers. Returns the span of the fiber that leaves its thread, if its begin is known.
fn unmount(mounted: &mut HashMap<(Pid, Tid), (u64, Time)>, moment: &Moment<'_>) -> Option<IntervalRow> {
    if let Some(Kernel::Gone { tid }) = moment.kernel
        && let Some(pid) = moment.pid()
    {
        mounted.remove(&(pid, tid));
    }
    let about = moment.about_fibers()?;
    let (pid, tid, now) = (moment.pid()?, moment.tid?, moment.event.time);
    let (from, to) = match about {
        FiberEvent::Switch { from, to, .. } => (from, to),
        FiberEvent::Leave => (None, None),
        _ => return None,
    };
    let before = match to {
        Some(to) => mounted.insert((pid, tid), (to, now)),
        None => mounted.remove(&(pid, tid)),
    };
    let (number, since) = before.filter(|(number, _)| Some(*number) == from)?;
    let fibers = moment.system.fibers();
    let id = FiberId { pid, number };
    Some(IntervalRow {
        from: since,
        to: now,
        cpu: moment.cpu,
        pid: Some(pid),
        tid: Some(tid),
        comm: moment.comm().cloned(),
        fiber: Some(number),
        state: "mounted",
        name: fibers.name(id).filter(|_| fibers.is_name_certain(id)).cloned(),
        by: None,
        priority: moment.priority().map(|priority| priority.0),
        parts: Vec::new(),
    })
}
