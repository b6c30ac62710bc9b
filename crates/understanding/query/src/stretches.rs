//! The pasts of threads and fibers, and the links that a path through a stretch of their time consists of.

use crate::record_gap::RecordGap;
use foldhash::HashMap;
use sordino_event::{Loss, Pid, Tid, Time};
use sordino_timeline::ThreadOrFiber;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of stretches that are remembered of each thread, and of each fiber: there may be many more of these.
const THREADS_KEPT: usize = 256;
const FIBERS_KEPT: usize = 32;
/// The maximum number of threads and fibers on a path, and of its links.
const DEPTH_MAX: usize = 32;
const LINKS_MAX: usize = 1024;

/// The use of the time of a thread or a fiber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Runs,
    WaitsForCpu,
    Sleeps(WakeSource),
    /// This thread executes the fiber: its time is the fiber's.
    Mounted(Tid),
    WaitsForThread,
}

/// The source of the wake-up that ends a sleep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WakeSource {
    By(ThreadOrFiber),
    ByInterrupt(Arc<str>),
    Unknown,
}

/// A stretch of the time of a thread or a fiber.
#[derive(Clone, Debug)]
struct PastStretch {
    from: Time,
    to: Time,
    does: Does,
}

/// The present and the past of a thread or a fiber.
#[derive(Debug, Default)]
struct StretchHistory {
    now: Option<(Does, Time)>,
    past: VecDeque<PastStretch>,
}

/// A link of a path: a stretch of time of a thread or a fiber, which may be unknown.
#[derive(Clone, Debug)]
pub(crate) struct PathLink {
    pub(crate) from: Time,
    pub(crate) to: Time,
    pub(crate) of: ThreadOrFiber,
    pub(crate) does: Option<Does>,
}

/// The pasts of all threads and fibers so far.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    all: HashMap<ThreadOrFiber, StretchHistory>,
    gap: RecordGap,
    /// The gaps in the records of programs, which are about fibers.
    gaps: HashMap<Pid, RecordGap>,
}

impl Stretches {
    /// Returns true if records of a thread or a fiber may be missing in a stretch that begins then.
    pub(crate) fn touches_loss(&self, subject: ThreadOrFiber, from: Time) -> bool {
        let of_program = match subject {
            ThreadOrFiber::Fiber(fiber) => self.gaps.get(&fiber.pid).is_some_and(|gap| gap.touches(from)),
            ThreadOrFiber::Thread(_) => false,
        };
        of_program || self.gap.touches(from)
    }

    /// Returns the present use of the time of a thread or a fiber.
    pub(crate) fn present(&mut self, subject: ThreadOrFiber) -> Option<(&mut Does, Time)> {
        let now = self.all.get_mut(&subject)?.now.as_mut();
        now.map(|(does, since)| (does, *since))
    }

    /// Returns true if no record is missing that could have changed the present.
    pub(crate) fn is_certain(&self, subject: ThreadOrFiber) -> bool {
        let now = self.all.get(&subject).and_then(|history| history.now.as_ref());
        now.is_some_and(|(_, since)| !self.touches_loss(subject, *since))
    }

    /// Ends the present stretch at this time, and begins another. Returns the links of the one that ends: an empty list
    /// if records of it may be missing, `None` if there is none.
    pub(crate) fn enter(
        &mut self,
        subject: ThreadOrFiber,
        does: Option<Does>,
        now: Time,
    ) -> Option<Vec<PathLink>> {
        let history = self.all.entry(subject).or_default();
        let (does, from) = std::mem::replace(&mut history.now, does.map(|does| (does, now)))?;
        if self.touches_loss(subject, from) {
            return Some(Vec::new());
        }
        let kept = if matches!(subject, ThreadOrFiber::Thread(_)) { THREADS_KEPT } else { FIBERS_KEPT };
        let past = &mut self.all.entry(subject).or_default().past;
        if past.len() == kept {
            past.pop_front();
        }
        past.push_back(PastStretch { from, to: now, does: does.clone() });
        let mut links = Vec::new();
        self.resolve(subject, &does, (from, now), 0, &mut links);
        Some(links)
    }

    /// Returns the links that the time of a thread or a fiber consists of.
    pub(crate) fn path(&self, subject: ThreadOrFiber, span: (Time, Time)) -> Vec<PathLink> {
        let mut links = Vec::new();
        self.follow(subject, subject, span, 0, &mut links);
        links
    }

    /// Adds the links that a stretch consists of.
    fn resolve(
        &self,
        of: ThreadOrFiber,
        does: &Does,
        span: (Time, Time),
        depth: usize,
        links: &mut Vec<PathLink>,
    ) {
        let may_follow = depth < DEPTH_MAX && links.len() < LINKS_MAX;
        match does {
            Does::Sleeps(WakeSource::By(by)) if may_follow => self.follow(*by, *by, span, depth + 1, links),
            Does::Mounted(tid) if may_follow => {
                self.follow(ThreadOrFiber::Thread(*tid), of, span, depth + 1, links);
            }
            _ => links.push(PathLink { from: span.0, to: span.1, of, does: Some(does.clone()) }),
        }
    }

    /// Adds the links of the time of `subject` to the path of `of`.
    fn follow(
        &self,
        subject: ThreadOrFiber,
        of: ThreadOrFiber,
        (from, to): (Time, Time),
        depth: usize,
        links: &mut Vec<PathLink>,
    ) {
        let unknown = |from, to| PathLink { from, to, of, does: None };
        let mut at = from;
        if let Some(history) = self.all.get(&subject) {
            let present = history.now.clone().filter(|(_, since)| !self.touches_loss(subject, *since));
            let present = present.map(|(does, since)| PastStretch { from: since, to, does });
            let first = history.past.partition_point(|stretch| stretch.to <= from);
            for stretch in history.past.range(first..).chain(&present) {
                let (begin, end) = (stretch.from.max(at), stretch.to.min(to));
                if begin >= end {
                    continue;
                }
                if at < begin {
                    links.push(unknown(at, begin));
                }
                self.resolve(of, &stretch.does, (begin, end), depth, links);
                at = end;
            }
        }
        if at < to {
            links.push(unknown(at, to));
        }
    }

    /// Forgets a thread or a fiber that is gone. Returns true if its present was known.
    pub(crate) fn forget(&mut self, subject: ThreadOrFiber) -> bool {
        self.all.remove(&subject).is_some_and(|history| history.now.is_some())
    }

    /// Forgets the part of the present that is not known any more.
    pub(crate) fn doubt(&mut self, subject: ThreadOrFiber) -> bool {
        self.all.get_mut(&subject).and_then(|history| history.now.take()).is_some()
    }

    /// Processes a loss. Returns the threads and fibers whose present is not known any more.
    pub(crate) fn lose(&mut self, loss: &Loss) -> Vec<ThreadOrFiber> {
        match loss.pid {
            Some(pid) => self.gaps.entry(pid).or_default().add(loss),
            None => self.gap.add(loss),
        }
        let is_lost = |subject: &ThreadOrFiber| match (subject, loss.pid) {
            (ThreadOrFiber::Thread(_), pid) => pid.is_none(),
            (ThreadOrFiber::Fiber(fiber), pid) => pid == Some(fiber.pid),
        };
        let lost = self.all.extract_if(|subject, _| is_lost(subject));
        lost.filter_map(|(subject, history)| history.now.map(|_| subject)).collect()
    }

    /// Returns the threads and fibers whose present is known.
    pub(crate) fn known(&self) -> impl Iterator<Item = ThreadOrFiber> {
        self.all.iter().filter(|(_, history)| history.now.is_some()).map(|(subject, _)| *subject)
    }
}
