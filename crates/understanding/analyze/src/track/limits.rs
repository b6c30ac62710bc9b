//! Limits that keep threads from their CPUs: the scheduler's choice shows them, where it is certain which threads stand
//! in its queue.

use super::Tracker;
use crate::cause::{After, Limit, Thread};
use crate::thread::Schedule;
use sordino_event::{Cpu, Tid, Time};
use sordino_timeline::{Priority, System};

impl Tracker {
    /// Finds the threads that a limit keeps from the CPU: they stand in its queue, and the scheduler has just given it
    /// to the idle thread, or to a thread of a lower class, at `at` or later. Any other choice shows nothing about a
    /// limit.
    pub(super) fn throttle(&mut self, cpu: Cpu, prev: Tid, at: Time, system: &System) {
        if !self.recorded.migrations {
            return;
        }
        let Some(processor) = self.cpus.get(&cpu) else { return };
        let Some(next) = processor.running.as_ref().map(|run| run.thread.clone()) else { return };
        for index in processor.explained.clone() {
            let thread = &self.threads[index];
            if !matches!(thread.schedule, Schedule::Waiting(_) | Schedule::Throttled(_)) {
                continue;
            }
            // At the same nanosecond the choice may have come first.
            let is_queued = thread.tid == prev || thread.queued.is_some_and(|since| since < at);
            let limit = Limit::shown_by(&Thread::of(system, thread.tid), &next);
            match (thread.schedule, limit) {
                (Schedule::Waiting(_), Some(by)) if is_queued => self.set(index, Schedule::Throttled(by)),
                (Schedule::Throttled(_), None) => self.may_run(index),
                _ => {}
            }
        }
    }

    /// Returns true if the thread waits for its next period, which is the purpose of `sched_yield` under
    /// `SCHED_DEADLINE`.
    pub(super) fn awaits_period(&self, index: usize, system: &System) -> bool {
        let thread = &self.threads[index];
        let yields = thread.syscall.as_ref().is_some_and(|call| &*call.name == "sched_yield");
        yields && system.priority(thread.tid).is_some_and(Priority::is_deadline)
    }

    /// Notes that a thread certainly stands in the queue of its CPU.
    pub(super) fn queued(&mut self, tid: Tid) {
        if let Some(&index) = self.by_tid.get(&tid) {
            self.threads[index].queued = Some(self.now);
        }
    }

    /// Notes that the order of the threads in the queues is not known any more.
    pub(super) fn reorder(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.queued = None);
    }

    /// Ends the certainty that a limit keeps a thread from its CPU.
    pub(super) fn may_run(&mut self, index: usize) {
        if matches!(self.threads[index].schedule, Schedule::Throttled(_)) {
            self.set(index, Schedule::Waiting(After::Preemption));
        }
    }
}
