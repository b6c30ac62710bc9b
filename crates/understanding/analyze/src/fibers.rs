//! The explained fibers: their time follows from the threads that carry them.
//!
//! A mounted fiber does what its thread does. A fiber that is ready waits for the thread that it was on last, or was
//! made on: either for the fiber that the thread executes meanwhile, or for the cause that keeps the thread itself from
//! its CPU. A blocked fiber has no thread.

use crate::cause::{Cause, FiberName, Thread, Waker};
use crate::cpu::Serial;
use crate::thread::{Activity, Happening, SleepEnd};
use crate::track::Tracker;
use sordino_event::{Cpu, Pid, Time};
use sordino_timeline::{FiberEvent, FiberId, FiberState, Moment, Mounted, ReadySince};

/// The explained fibers at one moment.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    fibers: Vec<Fiber>,
}

/// A fiber with explained time.
#[derive(Debug)]
struct Fiber {
    id: FiberId,
    /// The index of its story.
    story: usize,
    position: FiberPosition,
    /// The time since which it has the position, and the event that gave it.
    since: (Time, Serial),
    /// The CPU on which it ran last.
    cpu: Option<Cpu>,
}

/// The relation of a fiber to threads, which are given by their index in the tracker's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FiberPosition {
    Unknown,
    /// The thread executes it.
    Mounted(usize),
    /// It waits for the thread, which executes another fiber, or none.
    Ready {
        thread: usize,
        behind: Occupant,
    },
    /// It has no thread, for this cause.
    Off(Cause),
}

/// The code that a thread executes while a fiber waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    Fiber(FiberName),
    Scheduler,
    Unknown,
}

impl FiberPosition {
    fn thread(&self) -> Option<usize> {
        match self {
            Self::Mounted(thread) | Self::Ready { thread, .. } => Some(*thread),
            Self::Unknown | Self::Off(_) => None,
        }
    }

    /// Returns true if the positions are equal, apart from the name of the fiber that is ahead.
    fn is_renamed(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Ready { thread, behind: Occupant::Fiber(fiber) },
                Self::Ready { thread: of_other, behind: Occupant::Fiber(other) },
            ) => (thread, fiber.number) == (of_other, other.number),
            _ => false,
        }
    }

    /// Returns the cause of the time of a fiber without a thread.
    fn cause(&self) -> Option<Cause> {
        match self {
            Self::Unknown => Some(Cause::Unknown),
            Self::Off(cause) => Some(cause.clone()),
            Self::Mounted(_) | Self::Ready { .. } => None,
        }
    }
}

impl Followed {
    /// Creates the state of fibers without any records yet, each with the index of its story.
    pub(crate) fn new(ids: impl IntoIterator<Item = (FiberId, usize)>) -> Self {
        let fiber = |(id, story)| Fiber {
            id,
            story,
            position: FiberPosition::Unknown,
            since: (Time::MIN, Serial::default()),
            cpu: None,
        };
        Self { fibers: ids.into_iter().map(fiber).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fibers.is_empty()
    }

    /// Forgets a fiber whose intervals are all explained.
    pub(crate) fn forget(&mut self, story: usize) {
        self.fibers.retain(|fiber| fiber.story != story);
    }

    /// Returns the changes of fibers that follow from the change of a thread, each with the index of its story.
    pub(crate) fn derived(&mut self, happening: &Happening) -> Vec<(usize, Happening)> {
        let fibers = self.fibers.iter_mut();
        fibers.filter_map(|fiber| Some((fiber.story, fiber.derived(happening)?))).collect()
    }

    /// Finds the fibers that change their position with an event, by the indexes of their stories, and the new
    /// positions. The time of their threads has been accounted for until now.
    pub(crate) fn changes(&self, moment: &Moment<'_>, tracker: &mut Tracker) -> Vec<(usize, FiberPosition)> {
        if self.fibers.is_empty() || (moment.about_fibers().is_none() && moment.contradiction().is_none()) {
            return Vec::new();
        }
        let thread = moment.tid.and_then(|tid| tracker.index(tid));
        let mut changes = Vec::new();
        for fiber in &self.fibers {
            if Some(fiber.id.pid) != moment.pid() || !fiber.is_concerned(moment, thread) {
                continue;
            }
            let position = position(fiber.id, moment, tracker);
            if position != fiber.position {
                let threads = [fiber.position.thread(), position.thread()];
                threads.into_iter().flatten().for_each(|thread| tracker.account(thread));
                changes.push((fiber.story, position));
            }
        }
        changes
    }

    /// Gives a fiber its new position. Returns the changes of its story.
    pub(crate) fn change(
        &mut self,
        (story, position): (usize, FiberPosition),
        moment: &Moment<'_>,
        now: (Time, Serial),
    ) -> Vec<Happening> {
        let mut happenings = Vec::new();
        let of_story = self.fibers.iter_mut().find(|fiber| fiber.story == story);
        let Some(fiber) = of_story else { return happenings };
        if position.is_renamed(&fiber.position) {
            fiber.position = position;
            return happenings;
        }
        happenings.extend(fiber.woken(&position, moment, now.0));
        happenings.extend(fiber.left(now.0));
        if matches!(position, FiberPosition::Mounted(_))
            && let Some(to) = moment.cpu
        {
            let from = fiber.cpu.replace(to).filter(|from| *from != to);
            let moved = |from| Happening::Moved { thread: fiber.story, at: now.0, from, to };
            happenings.extend(from.map(moved));
        }
        (fiber.position, fiber.since) = (position, now);
        happenings
    }

    /// Makes the fibers of a process unknown, as records of it are missing. Returns the changes of their stories.
    pub(crate) fn lose(&mut self, lost: Pid, now: (Time, Serial)) -> Vec<(usize, Happening)> {
        self.leave(|pid| pid == lost, now)
    }

    /// Returns the threads that carry fibers of the process, by their index in the tracker's list.
    pub(crate) fn carriers(&self, pid: Pid) -> Vec<usize> {
        let its = self.fibers.iter().filter(|fiber| fiber.id.pid == pid);
        its.filter_map(|fiber| fiber.position.thread()).collect()
    }

    /// Accounts for the time until the end of the trace.
    pub(crate) fn finish(&mut self, now: (Time, Serial)) -> Vec<(usize, Happening)> {
        self.leave(|_| true, now)
    }

    fn leave(&mut self, of: impl Fn(Pid) -> bool, now: (Time, Serial)) -> Vec<(usize, Happening)> {
        let mut left = Vec::new();
        for fiber in self.fibers.iter_mut().filter(|fiber| of(fiber.id.pid)) {
            left.extend(fiber.left(now.0).map(|happening| (fiber.story, happening)));
            (fiber.position, fiber.since) = (FiberPosition::Unknown, now);
        }
        left
    }
}

impl Fiber {
    /// Returns true if the event can change the position: it is about this fiber, or it is an event of the thread that
    /// carries it.
    fn is_concerned(&self, moment: &Moment<'_>, thread: Option<usize>) -> bool {
        let about = match moment.about_fibers() {
            Some(FiberEvent::Switch { from, to, .. }) => [from, to],
            Some(
                FiberEvent::New { fiber, .. }
                | FiberEvent::Present { fiber, .. }
                | FiberEvent::End { fiber }
                | FiberEvent::Wake { fiber, .. }
                | FiberEvent::Rename { fiber, .. },
            ) => [Some(fiber), None],
            _ => [None, None],
        };
        let carrier = self.position.thread();
        about.contains(&Some(self.id.number))
            || carrier.is_some() && carrier == thread
            || moment.contradiction().is_some()
    }

    /// Returns the change for a fiber that shares the activity of its thread.
    fn derived(&mut self, happening: &Happening) -> Option<Happening> {
        let carrier = self.position.thread()?;
        let is_mounted = matches!(self.position, FiberPosition::Mounted(_));
        match happening {
            Happening::Spent { thread, from, to, activity } if *thread == carrier => {
                let from = (*from).max(self.since.0);
                if from > *to {
                    return None;
                }
                let activity = self.activity(activity);
                Some(Happening::Spent { thread: self.story, from, to: *to, activity })
            }
            Happening::Woken { thread, at, wake_up } if *thread == carrier && is_mounted => {
                Some(Happening::Woken { thread: self.story, at: *at, wake_up: wake_up.clone() })
            }
            Happening::Moved { thread, at, from, to } if *thread == carrier && is_mounted => {
                self.cpu = Some(*to);
                Some(Happening::Moved { thread: self.story, at: *at, from: *from, to: *to })
            }
            _ => None,
        }
    }

    /// Returns the fiber's activity during an activity of its thread.
    fn activity(&self, of_thread: &Activity) -> Activity {
        let FiberPosition::Ready { behind, .. } = &self.position else { return of_thread.clone() };
        let is_threads = of_thread.cause.is_its_own()
            || of_thread.cause.is_page_fault()
            || matches!(of_thread.cause, Cause::Blocked { .. } | Cause::LateTimer { .. });
        let cause = match behind {
            // It does not matter what the other fiber does with the thread.
            Occupant::Fiber(behind) if is_threads => Cause::FiberWait { behind: Some(behind.clone()) },
            Occupant::Scheduler if is_threads => Cause::FiberWait { behind: None },
            Occupant::Unknown if is_threads => Cause::Unknown,
            _ => return of_thread.clone(),
        };
        Activity::of(cause, self.since.1)
    }

    /// Returns the time that it has spent without a thread.
    fn left(&self, now: Time) -> Option<Happening> {
        let activity = Activity::of(self.position.cause()?, self.since.1);
        Some(Happening::Spent { thread: self.story, from: self.since.0, to: now, activity })
    }

    /// Returns the end of its sleep, if the new position shows one.
    fn woken(&self, position: &FiberPosition, moment: &Moment<'_>, at: Time) -> Option<Happening> {
        let (Some(cause), FiberPosition::Ready { .. }) = (self.position.cause(), position) else {
            return None;
        };
        let FiberState::Ready { since: ReadySince::Woken { by } } = moment.system.fibers().state(self.id)
        else {
            return None;
        };
        let thread = moment.tid.map(|tid| Thread::of(moment.system, tid))?;
        let waker = match by {
            Some(number) => {
                let by = FiberId { number: *number, ..self.id };
                Waker::Fiber { fiber: FiberName::of(moment.system, by), thread: thread.clone() }
            }
            None => Waker::Thread { thread: thread.clone() },
        };
        let since = self.since.0;
        let wake_up = SleepEnd { sleeper: thread, since, cause, waker, lock: None, chain: Vec::new() };
        Some(Happening::Woken { thread: self.story, at, wake_up })
    }
}

/// Returns the earlier cause of a wait, from the time when the fiber ahead had no name; `None` if it is no wait behind
/// a named fiber.
pub(crate) fn before_name(cause: &Cause) -> Option<Cause> {
    let Cause::FiberWait { behind: Some(fiber) } = cause else { return None };
    fiber.name.as_ref()?;
    Some(Cause::FiberWait { behind: Some(FiberName { name: None, ..fiber.clone() }) })
}

/// Returns the position of a fiber after an event.
fn position(id: FiberId, moment: &Moment<'_>, tracker: &mut Tracker) -> FiberPosition {
    let fibers = moment.system.fibers();
    match fibers.state(id) {
        FiberState::Unknown => FiberPosition::Unknown,
        FiberState::Mounted { tid } => FiberPosition::Mounted(tracker.follow(*tid, moment)),
        FiberState::Blocked { on } => FiberPosition::Off(Cause::FiberBlocked { on: on.clone() }),
        FiberState::Unmounted => FiberPosition::Off(Cause::FiberUnmounted),
        FiberState::Ready { .. } => {
            let Some(tid) = fibers.last_thread(id) else { return FiberPosition::Unknown };
            let behind = match fibers.mounted(id.pid, tid) {
                Mounted::Fiber(other) => Occupant::Fiber(FiberName::of(moment.system, other)),
                Mounted::Scheduler => Occupant::Scheduler,
                Mounted::Unknown => Occupant::Unknown,
                Mounted::Outside => return FiberPosition::Off(Cause::FiberWait { behind: None }),
            };
            FiberPosition::Ready { thread: tracker.follow(tid, moment), behind }
        }
    }
}
