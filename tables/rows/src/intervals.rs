//! The spans of time in which threads, fibers and interrupts were in one state.

use sordino_event::{Cpu, Nanos, Pid, Tid, Time};
use sordino_query::{Span, SpanState, Spans};
use sordino_timeline::{Item, Kernel, Moment, MountedStretch, MountedStretches, System, ThreadState};
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
    /// The stretches of fibers; `None` if they are not requested.
    mounted: Option<MountedStretches>,
}

impl IntervalFinder {
    /// Finds the spans of all states.
    pub(crate) fn all() -> Self {
        let finders =
            vec![("", Spans::states()), ("interrupt", Spans::interrupts()), ("softirq", Spans::softirqs())];
        Self { finders, by: HashMap::new(), mounted: Some(MountedStretches::default()) }
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
        let stretch = self.mounted.as_mut().and_then(|mounted| mounted.take(item));
        if let Item::Event(moment) = item {
            stretch.into_iter().for_each(|stretch| add(mounted(&stretch, moment)));
            if let Some(Kernel::Gone { tid }) = moment.kernel {
                self.by.remove(&tid);
            }
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

/// Returns the row of a stretch that ends with this event.
fn mounted(stretch: &MountedStretch, moment: &Moment<'_>) -> IntervalRow {
    let MountedStretch { fiber, tid, from, to } = *stretch;
    let fibers = moment.system.fibers();
    IntervalRow {
        from,
        to,
        cpu: moment.cpu,
        pid: Some(fiber.pid),
        tid: Some(tid),
        comm: moment.comm().cloned(),
        fiber: Some(fiber.number),
        state: "mounted",
        name: fibers.name(fiber).filter(|_| fibers.is_name_certain(fiber)).cloned(),
        by: None,
        priority: moment.priority().map(|priority| priority.0),
        parts: Vec::new(),
    }
}
