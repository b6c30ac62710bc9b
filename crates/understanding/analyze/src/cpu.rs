//! The state of one CPU, as the trace shows it: its running thread and the interrupts of that thread.

use crate::cause::{Cause, Thread, Waker};
use crate::entry_cost::Entered;
use foldhash::{HashMap, HashSet};
use sordino_event::{Nanos, Tid, Time};
use sordino_timeline::kernel::{Interrupt, softirq_name};
use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum depth of nested interrupts; a trace with more has lost their exits.
const DEPTH_MAX: usize = 32;
/// The maximum number of threads that are remembered as leaving a CPU without a record. Beyond it, no thread is certain
/// to run.
const SILENT_MAX: usize = 1024;

/// The number of interrupts that are remembered: those of one gap in a loop.
const HANDLED: usize = 8;
/// The maximum number of messages from other CPUs that are remembered until their interrupt comes; one interrupt may
/// bring several.
const MESSAGES_MAX: usize = 32;

/// The sender of an interrupt to another CPU, and the function that this CPU is to call; `None` if it is to reschedule.
pub(crate) type CpuMessage = (Waker, Option<Arc<str>>);

/// The identity of an occurrence, unique among all occurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Serial(pub(crate) u64);

/// The state of one CPU at one moment.
#[derive(Debug, Default)]
pub(crate) struct Processor {
    /// The details of the running thread, if it is known.
    pub(crate) running: Option<CurrentThread>,
    /// Threads that have left this CPU without a record, and may do so again.
    silent: HashSet<Tid>,
    /// The interrupts that are being handled, the innermost last.
    interrupts: Vec<Handling>,
    /// The messages whose interrupts have not come yet.
    messages: Vec<CpuMessage>,
    /// The softirqs that were raised and have not begun, each with the thread that raised it in a system call. No
    /// thread is kept if another thread or an interrupt raised the softirq, too.
    raised: HashMap<i64, Option<Tid>>,
    /// The latest interrupts that were not nested in another one: the times of entry and exit, and how the CPU entered
    /// it, if it did.
    handled: VecDeque<(Time, Time, Option<Entered>)>,
    /// The explained threads that run here, wait for this CPU, or slept on it last.
    pub(crate) explained: Vec<usize>,
}

/// A thread that has the CPU.
#[derive(Clone, Debug)]
pub(crate) struct CurrentThread {
    pub(crate) thread: Thread,
    /// The piece of work that it executes, if it is a worker of the kernel.
    pub(crate) work: Option<Arc<str>>,
    pub(crate) since: Time,
    pub(crate) serial: Serial,
    /// True if it is certainly in a system call: it has entered one since it got the CPU.
    pub(crate) in_call: bool,
    /// True if no switch to it is recorded.
    pub(crate) is_inferred: bool,
}

/// An interrupt that is being handled.
#[derive(Clone, Debug)]
pub(crate) struct Handling {
    pub(crate) cause: Cause,
    /// The timer's function that runs inside, if any.
    pub(crate) inside: Option<Arc<str>>,
    /// The first and the last time at which that timer was due.
    pub(crate) due: Option<[Time; 2]>,
    /// The messages from other CPUs that the interrupt brings.
    pub(crate) messages: Option<Arc<[CpuMessage]>>,
    /// The thread that has the CPU, if the softirq delivers data that this thread sends.
    pub(crate) sender: Option<Thread>,
    since: Time,
    pub(crate) serial: Serial,
}

impl Processor {
    /// Returns the innermost interrupt, if there is one.
    pub(crate) fn interrupt(&self) -> Option<&Handling> {
        self.interrupts.last()
    }

    /// Returns the running thread, unless it may have left without a record.
    pub(crate) fn certainly_running(&self) -> Option<&CurrentThread> {
        let is_silent =
            |run: &&CurrentThread| self.silent.len() == SILENT_MAX || self.silent.contains(&run.thread.tid);
        self.running.as_ref().filter(|run| !is_silent(run))
    }

    /// Notes that a thread has left this CPU without a record.
    pub(crate) fn leave_silently(&mut self, tid: Tid) {
        if self.silent.len() < SILENT_MAX {
            self.silent.insert(tid);
        }
    }

    pub(crate) fn enter(&mut self, interrupt: &Interrupt<'_>, now: Time, serial: Serial) {
        if self.interrupts.len() < DEPTH_MAX {
            let (messages, sender) = (self.messages_of(interrupt), self.sender_of(interrupt));
            let cause = Cause::of_interrupt(interrupt);
            self.interrupts.push(Handling {
                cause,
                inside: None,
                due: None,
                messages,
                sender,
                since: now,
                serial,
            });
        }
    }

    /// Adds a message by which another CPU requests an interrupt here.
    pub(crate) fn message(&mut self, message: CpuMessage) {
        if self.messages.len() < MESSAGES_MAX {
            self.messages.push(message);
        }
    }

    /// Notes that a softirq is raised by an interrupt or by the thread.
    pub(crate) fn raise(&mut self, softirq: i64) {
        let run = self.running.as_ref().filter(|run| run.in_call && self.interrupts.is_empty());
        let by = run.map(|run| run.thread.tid);
        if softirq_name(softirq).is_some() {
            self.raised
                .entry(softirq)
                .and_modify(|before| *before = before.filter(|_| *before == by))
                .or_insert(by);
        }
    }

    /// Returns the thread whose data this softirq delivers: the thread raised the softirq and still has the CPU, as
    /// over the loopback device.
    fn sender_of(&mut self, interrupt: &Interrupt<'_>) -> Option<Thread> {
        const NETWORK: [i64; 2] = [2, 3];
        let Interrupt::Softirq(number) = *interrupt else { return None };
        let by = self.raised.remove(&number)??;
        let run = self.certainly_running().filter(|run| run.thread.tid == by)?;
        (NETWORK.contains(&number) && self.interrupts.is_empty() && by != Tid(0)).then(|| run.thread.clone())
    }

    /// Removes the messages that an interrupt brings, and returns them.
    fn messages_of(&mut self, interrupt: &Interrupt<'_>) -> Option<Arc<[CpuMessage]>> {
        let calls = match interrupt {
            Interrupt::Vector("reschedule") => false,
            Interrupt::Vector("call_function" | "call_function_single") => true,
            _ => return None,
        };
        let its = self.messages.extract_if(.., |(_, function)| function.is_some() == calls);
        let its: Vec<CpuMessage> = its.collect();
        (!its.is_empty()).then(|| its.into())
    }

    /// Leaves the innermost interrupt of this name, and the ones nested in it, which have no recorded exits.
    pub(crate) fn exit(&mut self, interrupt: &Interrupt<'_>, now: Time) {
        let Some(depth) = self.interrupts.iter().rposition(|inner| inner.cause.ends_with(interrupt)) else {
            return;
        };
        if let (0, Some(left)) = (depth, self.interrupts.first()) {
            if self.handled.len() == HANDLED {
                self.handled.pop_front();
            }
            self.handled.push_back((left.since, now, Entered::of(&left.cause)));
        }
        self.interrupts.truncate(depth);
    }

    /// Returns the time that the CPU took to enter and leave an interrupt, and the interrupt's kind. `None` unless
    /// exactly one interrupt and nothing else came in the stretch of time, in which one thread ran.
    pub(crate) fn entry_cost(&self, from: Time, to: Time) -> Option<(Entered, Nanos)> {
        let run = self.certainly_running().filter(|run| run.since <= from)?;
        let is_whole =
            self.handled.len() < HANDLED || self.handled.front().is_some_and(|(enter, ..)| *enter < from);
        let inside = self.handled.iter().filter(|(enter, exit, _)| from <= *enter && *exit <= to);
        let mut entered = Vec::new();
        let mut cost = to - from;
        for (enter, exit, how) in inside {
            entered.extend(*how);
            cost -= *exit - *enter;
        }
        let [entered] = entered[..] else { return None };
        let is_alone = is_whole && run.thread.tid != Tid(0) && self.interrupts.is_empty();
        (is_alone && cost > Nanos::ZERO).then_some((entered, cost))
    }

    /// Sets the timer function that begins, with the times at which it was due if they are known; `None` if no function
    /// runs any more.
    pub(crate) fn timer(&mut self, function: Option<Arc<str>>, due: Option<[Time; 2]>) {
        if let Some(innermost) = self.interrupts.last_mut() {
            (innermost.inside, innermost.due) = (function, due);
        }
    }

    /// Gives the CPU to `run`. The softirqs of the thread that leaves are returned, as they belong to it: on a
    /// real-time kernel they can be preempted. Other interrupts cannot, so they are over.
    pub(crate) fn switch(&mut self, run: CurrentThread, softirqs: Vec<Handling>) -> Vec<Handling> {
        self.running = Some(run);
        // An idle CPU processes messages without an interrupt.
        self.messages.clear();
        // The softirqs may still be pending.
        self.raised.values_mut().for_each(|by| *by = None);
        let mut left = std::mem::replace(&mut self.interrupts, softirqs);
        left.retain(|handling| matches!(handling.cause, Cause::Softirq { .. }));
        left
    }

    /// Ends the interrupts that began before `now`, as the CPU is known to run user code, or to enter or leave it.
    pub(crate) fn is_in_thread(&mut self, now: Time) {
        self.interrupts.retain(|handling| handling.since >= now);
    }

    /// Forgets the state, as records are missing.
    pub(crate) fn forget(&mut self) {
        self.running = None;
        self.interrupts.clear();
        self.messages.clear();
        self.raised.clear();
    }
}
