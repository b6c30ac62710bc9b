//! Critical paths: what threads and fibers did and waited for, through those that woke them.
//!
//! A thread's sleep is the time of the thread that ended it: while that one ran or waited for a CPU, it was that; while
//! it slept, it was the time of its own waker; and so on. A sleep that an interrupt ended is that interrupt's. A
//! fiber's time is that of the thread that executes it, and while it is blocked, that of the fiber or the thread that
//! wakes it.

use crate::contexts::Contexts;
use crate::finder::{OfRule, SpanFinder};
use crate::followed::Follows;
use crate::names::Names;
use crate::span::{Found, Span};
use crate::stretches::{Does, Ended, Link, Stretches, Subject};
use sordino_event::{Loss, Tid, Time};
use sordino_timeline::{
    FiberEvent, FiberId, FiberState, Kernel, Moment, Mounted, System, TaskState, ThreadState,
};
use std::sync::Arc;

/// The spans of time whose paths are found.
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
    contexts: Contexts,
    stretches: Stretches,
    names: Names,
}

impl Paths {
    pub(crate) fn new(of: PathsOf) -> Self {
        Self { of, contexts: Contexts::default(), stretches: Stretches::default(), names: Names::default() }
    }

    /// Returns true if the stretches of these are found one by one.
    fn is_wanted(&self, subject: Subject) -> bool {
        match subject {
            Subject::Thread(_) => matches!(self.of, PathsOf::Threads),
            Subject::Fiber(_) => matches!(self.of, PathsOf::Fibers),
        }
    }

    /// Ends the present stretch of a thread or a fiber at this time, and begins another.
    fn turn(
        &mut self,
        subject: Subject,
        does: Option<Does>,
        now: Time,
        moment: &Moment<'_>,
        found: &mut Vec<Found>,
    ) {
        if subject == Subject::Thread(Tid(0)) {
            return;
        }
        let Some(links) = self.stretches.turn(subject, does, now).filter(|_| self.is_wanted(subject)) else {
            return;
        };
        if links.is_empty() {
            found.push(Found::Broken);
        }
        self.add(subject, links, moment, found);
    }

    /// Adds the links of the path of a thread or a fiber.
    fn add(&mut self, own: Subject, links: Vec<Link>, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let (tid, fiber) = match own {
            Subject::Thread(tid) => (Some(tid), None),
            Subject::Fiber(fiber) => (moment.system.fibers().last_thread(fiber).or(moment.tid), Some(fiber)),
        };
        for link in links {
            let name = Some(self.name(own, &link, moment.system));
            let span = Span::between(link.from, link.to);
            found.push(Found::Whole(Span { tid, fiber, cpu: moment.cpu, name, ..span }));
        }
    }

    /// Returns the name of a link on the path of a thread or a fiber: `runs`, `db/17 runs`, `interrupt 36 eth0`.
    fn name(&mut self, own: Subject, link: &Link, system: &System) -> Arc<str> {
        let what = match (&link.does, link.of) {
            (Some(Does::Runs), _) => "runs",
            (Some(Does::WaitsForCpu), _) => "waits for a CPU",
            (Some(Does::WaitsForThread), _) => "waits for a thread",
            (Some(Does::Sleeps(Ended::ByInterrupt(name))), _) => {
                let text = format!("interrupt {name}");
                return self.names.text(&text);
            }
            (Some(Does::Sleeps(_)), Subject::Thread(_)) => "sleeps",
            (Some(Does::Sleeps(_)), Subject::Fiber(_)) => "is blocked",
            (Some(Does::Mounted(_)) | None, _) => "is not known",
        };
        if own == link.of {
            return self.names.text(what);
        }
        let text = match link.of {
            Subject::Thread(tid) => format!("{}/{} {what}", system.comm(tid).map_or("?", |comm| comm), tid.0),
            Subject::Fiber(fiber) => {
                let fibers = system.fibers();
                match fibers.name(fiber).filter(|_| fibers.is_name_certain(fiber)) {
                    Some(name) => format!("{name}/{fiber} {what}"),
                    None => format!("fiber {fiber} {what}"),
                }
            }
        };
        self.names.text(&text)
    }

    fn wake(&mut self, tid: Tid, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let is_woken = matches!(moment.system.thread_state(tid), ThreadState::Woken { .. });
        let context = moment.cpu.and_then(|cpu| self.contexts.on(cpu));
        let by = match (context, moment.tid) {
            (Some(context), _) => Ended::ByInterrupt(Arc::clone(&context.origin.name)),
            (None, Some(by)) if by != Tid(0) => Ended::By(Subject::Thread(by)),
            _ => Ended::Unknown,
        };
        let subject = Subject::Thread(tid);
        let present = self.stretches.present(subject).filter(|_| is_woken);
        if let Some((does @ Does::Sleeps(_), _)) = present {
            *does = Does::Sleeps(by);
            self.turn(subject, Some(Does::WaitsForCpu), moment.event.time, moment, found);
        }
    }

    fn take_kernel(&mut self, kernel: Kernel<'_>, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let now = moment.event.time;
        match kernel {
            Kernel::Switch { prev, state, next } => {
                let does = match state {
                    TaskState::Dead => None,
                    TaskState::Runnable => Some(Does::WaitsForCpu),
                    _ => Some(Does::Sleeps(Ended::Unknown)),
                };
                self.turn(Subject::Thread(prev.tid), does, now, moment, found);
                self.turn(Subject::Thread(next.tid), Some(Does::Runs), now, moment, found);
            }
            Kernel::Waking { tid, .. } | Kernel::Woken { tid, .. } => self.wake(tid, moment, found),
            Kernel::Gone { tid } => _ = self.stretches.forget(Subject::Thread(tid)),
            _ => {}
        }
    }

    /// Processes the record that a fiber leaves its thread.
    fn leave(&mut self, fiber: FiberId, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let subject = Subject::Fiber(fiber);
        let is_certain = self.stretches.is_certain(subject);
        let does = match moment.system.fibers().state(fiber) {
            FiberState::Ready { .. } => Some(Does::WaitsForThread),
            FiberState::Blocked { .. } | FiberState::Unmounted if is_certain => {
                Some(Does::Sleeps(Ended::Unknown))
            }
            // A wake-up may be missing, or it has ended.
            _ => None,
        };
        let is_gone = does.is_none();
        self.turn(subject, does, moment.event.time, moment, found);
        if is_gone {
            self.stretches.forget(subject);
        }
    }

    fn take_fiber(&mut self, about: &FiberEvent<'_>, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let (Some(pid), Some(tid), now) = (moment.pid(), moment.tid, moment.event.time) else { return };
        let id = |number| FiberId { pid, number };
        match *about {
            FiberEvent::New { fiber, .. } => {
                self.stretches.forget(Subject::Fiber(id(fiber)));
                self.turn(Subject::Fiber(id(fiber)), Some(Does::WaitsForThread), now, moment, found);
            }
            FiberEvent::Switch { from, to, .. } => {
                if let Some(from) = from {
                    self.leave(id(from), moment, found);
                }
                if let Some(to) = to {
                    self.turn(Subject::Fiber(id(to)), Some(Does::Mounted(tid)), now, moment, found);
                }
            }
            FiberEvent::Wake { fiber, by } => {
                let fiber = id(fiber);
                let by = by.map(id).or(moment.fiber_id());
                let is_outside = matches!(moment.fiber, Mounted::Outside | Mounted::Scheduler);
                let by = match by {
                    Some(by) if by != fiber => Ended::By(Subject::Fiber(by)),
                    None if is_outside => Ended::By(Subject::Thread(tid)),
                    _ => Ended::Unknown,
                };
                let is_ready = matches!(moment.system.fibers().state(fiber), FiberState::Ready { .. });
                let present = self.stretches.present(Subject::Fiber(fiber)).filter(|_| is_ready);
                if let Some((does @ Does::Sleeps(_), _)) = present {
                    *does = Does::Sleeps(by);
                    self.turn(Subject::Fiber(fiber), Some(Does::WaitsForThread), now, moment, found);
                }
            }
            _ => {}
        }
    }

    /// Adds the paths of the intervals that end with this event.
    fn take_intervals(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let PathsOf::Intervals(rule) = &mut self.of else { return };
        let mut intervals = Vec::new();
        rule.take(moment, &mut intervals);
        for interval in intervals {
            let Found::Whole(Span { from, to, fiber, tid: Some(tid), .. }) = interval else {
                found.push(interval);
                continue;
            };
            let own = fiber.map_or(Subject::Thread(tid), Subject::Fiber);
            if self.stretches.touches_loss(own, from) {
                found.push(Found::Broken);
            } else {
                let links = self.stretches.path(own, (from, to));
                self.add(own, links, moment, found);
            }
        }
    }
}

impl Follows for Paths {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<Found>) {
        if let Some(kernel) = moment.kernel {
            self.take_kernel(kernel, moment, found);
        } else if !matches!(self.of, PathsOf::Threads)
            && let Some(about) = moment.about_fibers()
        {
            self.take_fiber(&about, moment, found);
        }
        self.take_intervals(moment, found);
        self.contexts.take(moment);
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<Found>) {
        self.contexts.lose(loss);
        if let PathsOf::Intervals(rule) = &mut self.of {
            rule.lose(loss, found);
        }
        let lost = self.stretches.lose(loss).into_iter().filter(|subject| self.is_wanted(*subject));
        found.extend(lost.map(|_| Found::Broken));
    }

    fn starts(&mut self, tid: Tid, since: Time, moment: &Moment<'_>, found: &mut Vec<Found>) {
        let subject = Subject::Thread(tid);
        match self.stretches.present(subject) {
            // It was woken after the last record of its CPU.
            Some((Does::WaitsForCpu, from)) => {
                let since = since.max(from);
                self.turn(subject, Some(Does::Runs), since, moment, found);
            }
            Some(_) => self.doubts(tid, found),
            None => self.turn(subject, Some(Does::Runs), since, moment, found),
        }
    }

    fn doubts(&mut self, tid: Tid, found: &mut Vec<Found>) {
        let is_known = self.stretches.doubt(Subject::Thread(tid));
        found.extend((is_known && self.is_wanted(Subject::Thread(tid))).then_some(Found::Broken));
    }

    fn cut(&mut self, end: Time) -> u64 {
        match &mut self.of {
            PathsOf::Intervals(rule) => rule.finish(end, &mut Vec::new()),
            _ => self.stretches.known().filter(|subject| self.is_wanted(*subject)).count() as u64,
        }
    }
}
