//! The wakers of threads, and the purposes of the sleeps that they end.

use super::Tracker;
use crate::cause::{Cause, Lock, Thread, Waker};
use crate::thread::{Activity, Happening, Schedule, SleepEnd};
use sordino_event::{Tid, Time};
use sordino_timeline::{FutexOperation, Moment, System, TaskState};

impl Tracker {
    pub(super) fn woken(&mut self, index: usize, waker: Waker, system: &System) {
        let thread = &self.threads[index];
        let since = thread.changed.0;
        let (lock, chain) = match &waker {
            Waker::Thread { thread: waker } => {
                let is_stopped =
                    matches!(thread.schedule, Schedule::Blocked(TaskState::Stopped | TaskState::Traced));
                let chain =
                    if is_stopped { Vec::new() } else { self.past.chain(thread.tid, waker, since, self.now) };
                (self.lock(thread.tid, waker.tid), chain)
            }
            _ => (None, Vec::new()),
        };
        let (sleeper, activity) = (Thread::of(system, thread.tid), thread.activity.clone());
        let due = self.due(&waker).filter(|([first, _], _)| *first >= since);
        let wake_up = SleepEnd { sleeper, since, cause: activity.cause.clone(), waker, lock, chain };
        let at = due.as_ref().map_or(self.now, |([first, _], _)| *first);
        self.happenings.push(Happening::Woken { thread: index, at, wake_up });
        let Some(([first, last], behind)) = due else { return };
        let late = |in_slack, behind| Activity::of(Cause::LateTimer { in_slack, behind }, self.serial);
        let (slack, late) = (late(true, None), late(false, behind));
        self.spend(index, first, activity);
        self.spend(index, last, slack);
        self.spend(index, self.now, late);
    }

    /// Returns the times at which the timer was due, and the thread that had its CPU, if a timer's function wakes a
    /// thread now.
    fn due(&self, waker: &Waker) -> Option<([Time; 2], Option<Thread>)> {
        let Waker::Interrupt { cpu: Some(cpu), .. } = waker else { return None };
        let processor = self.cpus.get(cpu)?;
        let behind = processor.certainly_running().map(|run| run.thread.clone());
        Some((processor.interrupt()?.due?, behind))
    }

    /// Returns the lock that the sleeper waits for, if it waits on the same futex by which the other thread wakes.
    fn lock(&self, sleeper: Tid, waker: Tid) -> Option<Lock> {
        let (waits, wakes) = (self.futexes.get(&sleeper)?, self.futexes.get(&waker)?);
        let lock = match (waits.operation, wakes.operation) {
            (FutexOperation::Wait, FutexOperation::Wake) if waits.may_lock(wakes) => Lock::Inferred,
            (FutexOperation::LockPi, FutexOperation::UnlockPi) => Lock::Held,
            _ => return None,
        };
        (waits.word == wakes.word).then_some(lock)
    }

    /// Returns the waker of a thread in the event of `moment`.
    pub(super) fn waker(&self, moment: &Moment<'_>) -> Waker {
        let interrupt = moment.cpu.and_then(|cpu| self.cpus.get(&cpu)?.interrupt());
        let sender = interrupt.and_then(|handling| handling.sender.clone());
        if let Some(thread) = sender.filter(|_| self.has_interrupts()) {
            return Waker::Thread { thread };
        }
        if let Some(handling) = interrupt {
            return Waker::Interrupt { cause: Box::new(handling.cause.clone()), cpu: moment.cpu };
        }
        match moment.tid {
            // Unless all interrupts are recorded, an interrupt of the thread may be the waker.
            Some(tid) if tid != Tid(0) && self.has_interrupts() => {
                Waker::Thread { thread: Thread::of(moment.system, tid) }
            }
            _ => Waker::Unknown,
        }
    }
}
