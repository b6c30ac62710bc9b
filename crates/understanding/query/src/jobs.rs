//! Jobs of threads, and waits of fibers for a thread.

use crate::finder::SpanFinder;
use crate::followed::Follows;
use crate::gap::Gap;
use crate::span::{Found, Span};
use sordino_event::{ClassId, Classes, Loss, Pid, Tid, Time};
use sordino_timeline::{FiberEvent, FiberId, FiberState, Kernel, Moment, TaskState};
use std::collections::{HashMap, HashSet};

/// The jobs that have begun: from an event in a thread, or its wake-up, until the thread sleeps.
#[derive(Debug)]
pub(crate) struct Jobs {
    begins: HashSet<ClassId>,
    open: HashMap<Tid, Time>,
    gap: Gap,
}

impl Jobs {
    /// Creates the finder of jobs that begin with this event; `None` if the trace does not have it.
    pub(crate) fn new(event: &str, classes: &Classes) -> Option<Self> {
        let begins = classes.iter().filter(|(_, class)| class.name == event).map(|(id, _)| id);
        let begins: HashSet<ClassId> = begins.collect();
        (!begins.is_empty()).then(|| Self { begins, open: HashMap::new(), gap: Gap::default() })
    }
}

impl Follows for Jobs {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let now = moment.event.time;
        if self.begins.contains(&moment.event.class) {
            // The job of a wake-up is that of the thread that is woken.
            let tid = match moment.kernel {
                Some(Kernel::Waking { tid, .. } | Kernel::Woken { tid, .. }) => Some(tid),
                Some(Kernel::Switch { next, .. }) => Some(next.tid),
                _ => moment.tid,
            };
            // A second begin without sleep belongs to the same job.
            tid.filter(|tid| *tid != Tid(0))
                .into_iter()
                .for_each(|tid| _ = self.open.entry(tid).or_insert(now));
        }
        match moment.kernel {
            Some(Kernel::Switch { prev, state, .. }) if state != TaskState::Runnable => {
                found.extend(self.open.remove(&prev.tid).map(|from| match self.gap.touches(from) {
                    true => Found::Broken,
                    false => Found::Whole(Span {
                        tid: Some(prev.tid),
                        cpu: moment.cpu,
                        ..Span::between(from, now)
                    }),
                }));
            }
            Some(Kernel::Gone { tid }) => _ = self.open.remove(&tid),
            _ => {}
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<Found>) {
        self.gap.add(loss);
        found.extend(self.open.drain().map(|_| Found::Broken));
    }

    /// A thread that starts continues its job.
    fn starts(&mut self, _: Tid, _: Time, _: &Moment<'_>, _: &mut Vec<Found>) {}

    /// It may have slept: its job may be several.
    fn doubts(&mut self, tid: Tid, found: &mut Vec<Found>) {
        found.extend(self.open.remove(&tid).map(|_| Found::Broken));
    }

    fn cut(&self) -> u64 {
        self.open.len() as u64
    }
}

/// The fibers that can continue and have no thread.
#[derive(Debug, Default)]
pub(crate) struct FiberWaits {
    open: HashMap<FiberId, Time>,
    gaps: HashMap<Pid, Gap>,
}

impl SpanFinder for FiberWaits {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let (Some(about), Some(pid)) = (moment.about_fibers(), moment.pid()) else { return };
        let now = moment.event.time;
        let id = |number| FiberId { pid, number };
        // Whoever can continue has no thread; a wake-up of one that runs, or has ended, changes nothing.
        let is_ready = |number| matches!(moment.system.fibers().state(id(number)), FiberState::Ready { .. });
        match about {
            FiberEvent::New { fiber, .. } => _ = self.open.insert(id(fiber), now),
            FiberEvent::Wake { fiber, .. } | FiberEvent::Switch { from: Some(fiber), .. }
                if is_ready(fiber) =>
            {
                self.open.entry(id(fiber)).or_insert(now);
            }
            _ => {}
        }
        match about {
            FiberEvent::Switch { to: Some(fiber), .. } => {
                let gap = self.gaps.get(&pid).copied().unwrap_or_default();
                found.extend(self.open.remove(&id(fiber)).map(|from| {
                    if gap.touches(from) {
                        return Found::Broken;
                    }
                    let (tid, cpu, fiber) = (moment.tid, moment.cpu, Some(id(fiber)));
                    Found::Whole(Span { tid, cpu, fiber, ..Span::between(from, now) })
                }));
            }
            FiberEvent::End { fiber } => _ = self.open.remove(&id(fiber)),
            _ => {}
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<Found>) {
        loss.pid.into_iter().for_each(|pid| self.gaps.entry(pid).or_default().add(loss));
        let its = self.open.extract_if(|fiber, _| loss.pid == Some(fiber.pid));
        found.extend(its.map(|_| Found::Broken));
    }

    fn finish(&mut self, _end: Time, _found: &mut Vec<Found>) -> u64 {
        self.open.len() as u64
    }
}
