//! Critical paths: the activities and waits of threads and fibers, followed through their wakers.
//!
//! The time of a thread's sleep belongs to the thread that ended it: to that thread's running and waiting for a CPU,
//! or, while that thread slept, to its own waker, and so on. A sleep that an interrupt ended belongs to the interrupt.
//! A fiber's time is that of the thread that executes it; while the fiber is blocked, its time is that of the fiber or
//! the thread that wakes it.

use crate::cpu_handlers::CpuHandlers;
use crate::evidence_finder::Follows;
use crate::finder::{OfRule, SpanFinder};
use crate::kernel_names::KernelNames;
use crate::span::{FoundSpan, Span};
use crate::stretches::{Does, PathLink, Stretches, WakeSource};
use sordino_event::{Loss, Tid, Time};
use sordino_timeline::{
    FiberEvent, FiberId, FiberState, Kernel, Moment, Mounted, PresentState, System, TaskState, ThreadOrFiber,
    ThreadState,
};
use std::sync::Arc;

/// The spans of time that paths are found for.
#[derive(Debug)]
pub(crate) enum PathsOf {
    Threads,
    Fibers,
    Intervals(OfRule),
}

/// The finder of the links of paths.
#[derive(Debug)]
pub(crate) struct Paths {
    of: PathsOf,
    handlers: CpuHandlers,
    stretches: Stretches,
    names: KernelNames,
}

impl Paths {
    pub(crate) fn new(of: PathsOf) -> Self {
        Self {
            of,
            handlers: CpuHandlers::default(),
            stretches: Stretches::default(),
            names: KernelNames::default(),
        }
    }

    /// Returns true if the stretches of these are found one by one.
    fn is_selected(&self, subject: ThreadOrFiber) -> bool {
        match subject {
            ThreadOrFiber::Thread(_) => matches!(self.of, PathsOf::Threads),
            ThreadOrFiber::Fiber(_) => matches!(self.of, PathsOf::Fibers),
        }
    }

    /// Ends the present stretch of a thread or a fiber at this time, and begins another.
    fn enter(
        &mut self,
        subject: ThreadOrFiber,
        does: Option<Does>,
        now: Time,
        moment: &Moment<'_>,
        found: &mut Vec<FoundSpan>,
    ) {
        if subject == ThreadOrFiber::Thread(Tid(0)) {
            return;
        }
        let Some(links) = self.stretches.enter(subject, does, now).filter(|_| self.is_selected(subject))
        else {
            return;
        };
        if links.is_empty() {
            found.push(FoundSpan::Broken);
        }
        self.add(subject, links, moment, found);
    }

    /// Adds the links of the path of a thread or a fiber.
    fn add(
        &mut self,
        own: ThreadOrFiber,
        links: Vec<PathLink>,
        moment: &Moment<'_>,
        found: &mut Vec<FoundSpan>,
    ) {
        let (tid, fiber) = match own {
            ThreadOrFiber::Thread(tid) => (Some(tid), None),
            ThreadOrFiber::Fiber(fiber) => {
                (moment.system.fibers().last_thread(fiber).or(moment.tid), Some(fiber))
            }
        };
        for link in links {
            let name = Some(self.name(own, &link, moment.system));
            let span = Span::between(link.from, link.to);
            found.push(FoundSpan::Whole(Span { tid, fiber, cpu: moment.cpu, name, ..span }));
        }
    }

    /// Returns the name of a link on the path of a thread or a fiber: `runs`, `db/17 runs`, `interrupt 36 eth0`.
    fn name(&mut self, own: ThreadOrFiber, link: &PathLink, system: &System) -> Arc<str> {
        let what = match (&link.does, link.of) {
            (Some(Does::Runs), _) => "runs",
            (Some(Does::WaitsForCpu), _) => "waits for a CPU",
            (Some(Does::WaitsForThread), _) => "waits for a thread",
            (Some(Does::Sleeps(WakeSource::ByInterrupt(name))), _) => {
                let text = format!("interrupt {name}");
                return self.names.text(&text);
            }
            (Some(Does::Sleeps(_)), ThreadOrFiber::Thread(_)) => "sleeps",
            (Some(Does::Sleeps(_)), ThreadOrFiber::Fiber(_)) => "is blocked",
            (Some(Does::Mounted(_)) | None, _) => "is not known",
        };
        if own == link.of {
            return self.names.text(what);
        }
        let text = match link.of {
            ThreadOrFiber::Thread(tid) => {
                format!("{}/{} {what}", system.comm(tid).map_or("?", |comm| comm), tid.0)
            }
            ThreadOrFiber::Fiber(fiber) => {
                let fibers = system.fibers();
                match fibers.name(fiber).filter(|_| fibers.is_name_certain(fiber)) {
                    Some(name) => format!("{name}/{fiber} {what}"),
                    None => format!("fiber {fiber} {what}"),
                }
            }
        };
        self.names.text(&text)
    }

    fn wake(&mut self, tid: Tid, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let is_woken = matches!(moment.system.thread_state(tid), ThreadState::Woken { .. });
        let context = moment.cpu.and_then(|cpu| self.handlers.on(cpu));
        let by = match (context, moment.tid) {
            (Some(context), _) => WakeSource::ByInterrupt(Arc::clone(&context.origin.name)),
            (None, Some(by)) if by != Tid(0) => WakeSource::By(ThreadOrFiber::Thread(by)),
            _ => WakeSource::Unknown,
        };
        let subject = ThreadOrFiber::Thread(tid);
        let present = self.stretches.present(subject).filter(|_| is_woken);
        if let Some((does @ Does::Sleeps(_), _)) = present {
            *does = Does::Sleeps(by);
            self.enter(subject, Some(Does::WaitsForCpu), moment.event.time, moment, found);
        }
    }

    fn take_kernel(&mut self, kernel: Kernel<'_>, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let now = moment.event.time;
        match kernel {
            Kernel::Switch { prev, state, next } => {
                let does = match state {
                    TaskState::Dead => None,
                    TaskState::Runnable => Some(Does::WaitsForCpu),
                    _ => Some(Does::Sleeps(WakeSource::Unknown)),
                };
                self.enter(ThreadOrFiber::Thread(prev.tid), does, now, moment, found);
                self.enter(ThreadOrFiber::Thread(next.tid), Some(Does::Runs), now, moment, found);
            }
            Kernel::Waking { tid, .. } | Kernel::Woken { tid, .. } => self.wake(tid, moment, found),
            Kernel::Gone { tid } => _ = self.stretches.forget(ThreadOrFiber::Thread(tid)),
            _ => {}
        }
    }

    /// Processes the record that a fiber leaves its thread.
    fn leave(&mut self, fiber: FiberId, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let subject = ThreadOrFiber::Fiber(fiber);
        let is_certain = self.stretches.is_certain(subject);
        let does = match moment.system.fibers().state(fiber) {
            FiberState::Ready { .. } => Some(Does::WaitsForThread),
            FiberState::Blocked { .. } | FiberState::Unmounted if is_certain => {
                Some(Does::Sleeps(WakeSource::Unknown))
            }
            // A wake-up may be missing, or it has ended.
            _ => None,
        };
        let is_gone = does.is_none();
        self.enter(subject, does, moment.event.time, moment, found);
        if is_gone {
            self.stretches.forget(subject);
        }
    }

    fn take_fiber(&mut self, about: &FiberEvent<'_>, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let (Some(pid), Some(tid), now) = (moment.pid(), moment.tid, moment.event.time) else { return };
        let id = |number| FiberId { pid, number };
        match *about {
            FiberEvent::New { fiber, .. } => {
                self.stretches.forget(ThreadOrFiber::Fiber(id(fiber)));
                self.enter(ThreadOrFiber::Fiber(id(fiber)), Some(Does::WaitsForThread), now, moment, found);
            }
            FiberEvent::Present { fiber, state, .. } => {
                let does = match state {
                    PresentState::Mounted => Some(Does::Mounted(tid)),
                    PresentState::Blocked => Some(Does::Sleeps(WakeSource::Unknown)),
                    _ => None,
                };
                self.enter(ThreadOrFiber::Fiber(id(fiber)), does, now, moment, found);
            }
            FiberEvent::Switch { from, to, .. } => {
                if let Some(from) = from {
                    self.leave(id(from), moment, found);
                }
                if let Some(to) = to {
                    self.enter(ThreadOrFiber::Fiber(id(to)), Some(Does::Mounted(tid)), now, moment, found);
                }
            }
            FiberEvent::Wake { fiber, by } => {
                let fiber = id(fiber);
                let by = by.map(id).or(moment.fiber_id());
                let is_outside = matches!(moment.fiber, Mounted::Outside | Mounted::Scheduler);
                let by = match by {
                    Some(by) if by != fiber => WakeSource::By(ThreadOrFiber::Fiber(by)),
                    None if is_outside => WakeSource::By(ThreadOrFiber::Thread(tid)),
                    _ => WakeSource::Unknown,
                };
                let is_ready = matches!(moment.system.fibers().state(fiber), FiberState::Ready { .. });
                let present = self.stretches.present(ThreadOrFiber::Fiber(fiber)).filter(|_| is_ready);
                if let Some((does @ Does::Sleeps(_), _)) = present {
                    *does = Does::Sleeps(by);
                    self.enter(ThreadOrFiber::Fiber(fiber), Some(Does::WaitsForThread), now, moment, found);
                }
            }
            _ => {}
        }
    }

    /// Adds the paths of the intervals that end with this event.
    fn take_intervals(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let PathsOf::Intervals(rule) = &mut self.of else { return };
        let mut intervals = Vec::new();
        rule.take(moment, &mut intervals);
        for interval in intervals {
            let FoundSpan::Whole(Span { from, to, fiber, tid: Some(tid), .. }) = interval else {
                found.push(interval);
                continue;
            };
            let own = fiber.map_or(ThreadOrFiber::Thread(tid), ThreadOrFiber::Fiber);
            if self.stretches.touches_loss(own, from) {
                found.push(FoundSpan::Broken);
            } else {
                let links = self.stretches.path(own, (from, to));
                self.add(own, links, moment, found);
            }
        }
    }
}

impl Follows for Paths {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        if let Some(kernel) = moment.kernel {
            self.take_kernel(kernel, moment, found);
        } else if !matches!(self.of, PathsOf::Threads)
            && let Some(about) = moment.about_fibers()
        {
            self.take_fiber(&about, moment, found);
        }
        self.take_intervals(moment, found);
        self.handlers.take(moment);
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        self.handlers.lose(loss);
        if let PathsOf::Intervals(rule) = &mut self.of {
            rule.lose(loss, found);
        }
        let lost = self.stretches.lose(loss).into_iter().filter(|subject| self.is_selected(*subject));
        found.extend(lost.map(|_| FoundSpan::Broken));
    }

    fn starts(&mut self, tid: Tid, since: Time, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let subject = ThreadOrFiber::Thread(tid);
        match self.stretches.present(subject) {
            // It was woken after the last record of its CPU.
            Some((Does::WaitsForCpu, from)) => {
                let since = since.max(from);
                self.enter(subject, Some(Does::Runs), since, moment, found);
            }
            Some(_) => self.doubts(tid, found),
            None => self.enter(subject, Some(Does::Runs), since, moment, found),
        }
    }

    fn doubts(&mut self, tid: Tid, found: &mut Vec<FoundSpan>) {
        let is_known = self.stretches.doubt(ThreadOrFiber::Thread(tid));
        found.extend((is_known && self.is_selected(ThreadOrFiber::Thread(tid))).then_some(FoundSpan::Broken));
    }

    fn cut(&mut self, end: Time) -> u64 {
        match &mut self.of {
            PathsOf::Intervals(rule) => rule.finish(end, &mut Vec::new()),
            _ => self.stretches.known().filter(|subject| self.is_selected(*subject)).count() as u64,
        }
    }
}
