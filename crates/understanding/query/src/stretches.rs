//! The pasts of threads and fibers, and the links of a path that a stretch of their time consists of.

use crate::gap::Gap;
use foldhash::HashMap;
use sordino_event::{Loss, Pid, Tid, Time};
use sordino_timeline::FiberId;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of stretches that are remembered of each thread, and of each fiber: there may be many more of these.
const THREADS_KEPT: usize = 256;
const FIBERS_KEPT: usize = 32;
/// The maximum number of threads and fibers on a path, and of its links.
const DEPTH_MAX: usize = 32;
const LINKS_MAX: usize = 1024;

/// A thread or a fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Thread(Tid),
    Fiber(FiberId),
}

/// The use of the time of a thread or a fiber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Runs,
    WaitsForCpu,
    Sleeps(Ended),
    /// This thread executes the fiber: its time is the fiber's.
    Mounted(Tid),
    WaitsForThread,
}

/// The end of a sleep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    By(Subject),
    ByInterrupt(Arc<str>),
    Unknown,
}

/// A stretch of the time of a thread or a fiber.
#[derive(Clone, Debug)]
struct Stretch {
    from: Time,
    to: Time,
    does: Does,
}

/// The present and the past of a thread or a fiber.
#[derive(Debug, Default)]
struct History {
    now: Option<(Does, Time)>,
    past: VecDeque<Stretch>,
}

/// A link of a path: a stretch of time of a thread or a fiber, which may be unknown.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) from: Time,
    pub(crate) to: Time,
    pub(crate) of: Subject,
    pub(crate) does: Option<Does>,
}

/// The pasts of all threads and fibers so far.
#[derive(Debug, Default)]
pub(crate) struct Stretches {
    all: HashMap<Subject, History>,
    gap: Gap,
    /// The gaps in the records of programs, which are about fibers.
    gaps: HashMap<Pid, Gap>,
}

impl Stretches {
    /// Returns true if records of a thread or a fiber may be missing in a stretch that begins then.
    pub(crate) fn touches_loss(&self, subject: Subject, from: Time) -> bool {
        let of_program = match subject {
            Subject::Fiber(fiber) => self.gaps.get(&fiber.pid).is_some_and(|gap| gap.touches(from)),
            Subject::Thread(_) => false,
        };
        of_program || self.gap.touches(from)
    }

    /// Returns the present use of the time of a thread or a fiber.
    pub(crate) fn present(&mut self, subject: Subject) -> Option<(&mut Does, Time)> {
        let now = self.all.get_mut(&subject)?.now.as_mut();
        now.map(|(does, since)| (does, *since))
    }

    /// Returns true if no record is missing that could have changed the present.
    pub(crate) fn is_certain(&self, subject: Subject) -> bool {
        let now = self.all.get(&subject).and_then(|history| history.now.as_ref());
        now.is_some_and(|(_, since)| !self.touches_loss(subject, *since))
    }

    /// Ends the present stretch at this time, and begins another. Returns the links of the one that ends: an empty list
    /// if records of it may be missing, `None` if there is none.
    pub(crate) fn turn(&mut self, subject: Subject, does: Option<Does>, now: Time) -> Option<Vec<Link>> {
        let history = self.all.entry(subject).or_default();
        let (does, from) = std::mem::replace(&mut history.now, does.map(|does| (does, now)))?;
        if self.touches_loss(subject, from) {
            return Some(Vec::new());
        }
        let kept = if matches!(subject, Subject::Thread(_)) { THREADS_KEPT } else { FIBERS_KEPT };
        let past = &mut self.all.entry(subject).or_default().past;
        if past.len() == kept {
            past.pop_front();
        }
        past.push_back(Stretch { from, to: now, does: does.clone() });
        let mut links = Vec::new();
        self.resolve(subject, &does, (from, now), 0, &mut links);
        Some(links)
    }

    /// Returns the links that the time of a thread or a fiber consists of.
    pub(crate) fn path(&self, subject: Subject, span: (Time, Time)) -> Vec<Link> {
        let mut links = Vec::new();
        self.follow(subject, subject, span, 0, &mut links);
        links
    }

    /// Adds the links that a stretch consists of.
    fn resolve(&self, of: Subject, does: &Does, span: (Time, Time), depth: usize, links: &mut Vec<Link>) {
        let may_follow = depth < DEPTH_MAX && links.len() < LINKS_MAX;
        match does {
            Does::Sleeps(Ended::By(by)) if may_follow => self.follow(*by, *by, span, depth + 1, links),
            Does::Mounted(tid) if may_follow => {
                self.follow(Subject::Thread(*tid), of, span, depth + 1, links);
            }
            _ => links.push(Link { from: span.0, to: span.1, of, does: Some(does.clone()) }),
        }
    }

    /// Adds the links of the time of `subject` as those of `of`.
    fn follow(
        &self,
        subject: Subject,
        of: Subject,
        (from, to): (Time, Time),
        depth: usize,
        links: &mut Vec<Link>,
    ) {
        let unknown = |from, to| Link { from, to, of, does: None };
        let mut at = from;
        if let Some(history) = self.all.get(&subject) {
            let present = history.now.clone().filter(|(_, since)| !self.touches_loss(subject, *since));
            let present = present.map(|(does, since)| Stretch { from: since, to, does });
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
    pub(crate) fn forget(&mut self, subject: Subject) -> bool {
        self.all.remove(&subject).is_some_and(|history| history.now.is_some())
    }

    /// Gives up what is not known any more of the present.
    pub(crate) fn doubt(&mut self, subject: Subject) -> bool {
        self.all.get_mut(&subject).and_then(|history| history.now.take()).is_some()
    }

    /// Processes a loss. Returns the threads and fibers whose present is not known any more.
    pub(crate) fn lose(&mut self, loss: &Loss) -> Vec<Subject> {
        match loss.pid {
            Some(pid) => self.gaps.entry(pid).or_default().add(loss),
            None => self.gap.add(loss),
        }
        let is_lost = |subject: &Subject| match (subject, loss.pid) {
            (Subject::Thread(_), pid) => pid.is_none(),
            (Subject::Fiber(fiber), pid) => pid == Some(fiber.pid),
        };
        let lost = self.all.extract_if(|subject, _| is_lost(subject));
        lost.filter_map(|(subject, history)| history.now.map(|_| subject)).collect()
    }

    /// Returns the threads and fibers whose present is known.
    pub(crate) fn known(&self) -> impl Iterator<Item = Subject> {
        self.all.iter().filter(|(_, history)| history.now.is_some()).map(|(subject, _)| *subject)
    }
}
