//! The state of an explained thread at one moment.

use crate::cause::{After, Cause, Limit, Lock, Thread, Waker};
use crate::cpu::{CpuMessage, Processor, Serial};
use crate::files::{Awaited, File};
use crate::thread_history::Link;
use sordino_event::{Cpu, Tid, Time};
use sordino_timeline::kernel::FaultReason;
use sordino_timeline::{TaskState, is_made_to_wait};
use std::sync::Arc;

/// A thread whose time is explained.
#[derive(Debug)]
pub(crate) struct ExplainedThread {
    pub(crate) tid: Tid,
    pub(crate) schedule: Schedule,
    /// The time and the event in which `schedule` changed.
    pub(crate) changed: (Time, Serial),
    /// The CPU on which it runs, waits, or ran last.
    pub(crate) cpu: Option<Cpu>,
    /// The system call that it is in.
    pub(crate) syscall: Option<CurrentCall>,
    /// The time since which it certainly stands in its CPU's queue, while it waits.
    pub(crate) queued: Option<Time>,
    /// The signal handlers that it is in, the innermost last.
    pub(crate) handlers: Vec<SignalHandling>,
    /// The page fault that it may still be in.
    pub(crate) fault: Option<Fault>,
    /// The file whose page it has requested since it entered the kernel, with the thread that reads it.
    pub(crate) file: Option<Awaited>,
    /// The file of which it has requested a page since then.
    pub(crate) asked: Option<File>,
    pub(crate) activity: Activity,
    /// True while `activity` stays the same whatever its CPU does.
    pub(crate) is_settled: bool,
    /// The time at which `activity` began.
    pub(crate) since: Time,
}

/// A system call that a thread is in.
#[derive(Clone, Debug)]
pub(crate) struct CurrentCall {
    pub(crate) name: Arc<str>,
    pub(crate) since: Time,
    pub(crate) serial: Serial,
    /// True if it is sordino's own, which wakes the recorder.
    pub(crate) wakes_recorder: bool,
}

/// A page fault of user code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) since: Time,
    pub(crate) serial: Serial,
    pub(crate) reason: Option<FaultReason>,
    /// True if the kernel allocated a huge page.
    pub(crate) huge: bool,
}

/// A signal handler that a thread is in.
#[derive(Clone, Debug)]
pub(crate) struct SignalHandling {
    pub(crate) signal: Arc<str>,
    pub(crate) sender: Waker,
    pub(crate) serial: Serial,
}

/// The scheduler's state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    Unknown,
    Running,
    Waiting(After),
    Throttled(Limit),
    Blocked(TaskState),
}

/// The use of a thread's time at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    pub(crate) cause: Cause,
    /// The kernel's function that runs inside, if the trace has it.
    pub(crate) inside: Option<Arc<str>>,
    /// A thread of lower priority that has the CPU instead.
    pub(crate) inverted: Option<Thread>,
    /// The thread that has the CPU while a limit keeps this one from it.
    pub(crate) beside: Option<Thread>,
    /// The messages from other CPUs that the interrupt brings.
    pub(crate) messages: Option<Arc<[CpuMessage]>>,
    /// The file whose pages the thread waits for.
    pub(crate) file: Option<Awaited>,
    /// True if it follows from a switch that was not recorded.
    pub(crate) is_inferred: bool,
    pub(crate) serial: Serial,
}

/// A change of an explained thread, which is given by its index in the tracker's list.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// It spent time. There are no gaps: each begins where the thread's last one ended.
    Spent { thread: usize, from: Time, to: Time, activity: Activity },
    /// It slept and is woken. This comes before the time is spent.
    Woken { thread: usize, at: Time, wake_up: SleepEnd },
    /// It moves from one CPU to another.
    Moved { thread: usize, at: Time, from: Cpu, to: Cpu },
}

/// The end of a sleep.
#[derive(Clone, Debug)]
pub(crate) struct SleepEnd {
    pub(crate) sleeper: Thread,
    /// The begin of the sleep.
    pub(crate) since: Time,
    /// The cause to which the sleep is accounted.
    pub(crate) cause: Cause,
    pub(crate) waker: Waker,
    pub(crate) lock: Option<Lock>,
    /// The chain that it waited for, if the waker is a thread.
    pub(crate) chain: Vec<Link>,
}

impl ExplainedThread {
    /// Creates the state of a thread of which nothing is known yet.
    pub(crate) fn new(tid: Tid) -> Self {
        Self {
            tid,
            schedule: Schedule::Unknown,
            changed: (Time::MIN, Serial::default()),
            cpu: None,
            syscall: None,
            queued: None,
            handlers: Vec::new(),
            fault: None,
            file: None,
            asked: None,
            activity: Activity::of(Cause::Unknown, Serial::default()),
            is_settled: false,
            since: Time::MIN,
        }
    }

    /// Returns the thread's activity, given its CPU and its identity.
    pub(crate) fn activity(&self, processor: Option<&Processor>, own: &Thread) -> Activity {
        match self.schedule {
            Schedule::Unknown => Activity::of(Cause::Unknown, self.changed.1),
            Schedule::Blocked(state) => self.blocked(state, processor, own),
            Schedule::Running => interrupted(processor).unwrap_or_else(|| self.running()),
            Schedule::Waiting(after) => {
                interrupted(processor).unwrap_or_else(|| self.waiting(after, processor, own))
            }
            Schedule::Throttled(limit) => {
                interrupted(processor).unwrap_or_else(|| self.throttled(limit, processor))
            }
        }
    }

    fn running(&self) -> Activity {
        match (&self.syscall, self.fault) {
            (Some(call), _) if call.wakes_recorder => Activity::of(Cause::RecorderWakeUp, call.serial),
            (Some(call), _) => Activity::of(Cause::Syscall { call: call.name.clone() }, call.serial),
            (None, Some(fault)) => Activity::of(fault.cause(), fault.serial),
            (None, None) => match self.handlers.last() {
                Some(SignalHandling { signal, sender, serial }) => {
                    let cause = Cause::SignalHandler { signal: signal.clone(), sender: sender.clone() };
                    Activity::of(cause, *serial)
                }
                None => Activity::of(Cause::Own, self.changed.1),
            },
        }
    }

    fn throttled(&self, limit: Limit, processor: Option<&Processor>) -> Activity {
        let run = processor.and_then(Processor::certainly_running).map(|run| run.thread.clone());
        Activity {
            beside: run.filter(|thread| !thread.is_idle()),
            ..Activity::of(Cause::Throttled { limit, syscall: self.call() }, self.changed.1)
        }
    }

    fn waiting(&self, after: After, processor: Option<&Processor>, own: &Thread) -> Activity {
        let run = processor.and_then(Processor::certainly_running);
        let run = run.filter(|run| run.thread.tid != self.tid);
        let behind = run.map(|run| run.thread.clone());
        let serial = run.map_or(self.changed.1, |run| run.serial);
        Activity {
            inside: run.and_then(|run| run.work.clone()),
            is_inferred: run.is_some_and(|run| run.is_inferred),
            inverted: behind.clone().filter(|other| own.outranks(other)),
            ..Activity::of(Cause::Waiting { after, behind, syscall: self.call() }, serial)
        }
    }

    /// Returns true if the thread's activity is its own code, outside of signal handlers.
    pub(crate) fn is_in_own_code(&self) -> bool {
        let Activity { cause, serial, is_inferred, .. } = &self.activity;
        self.schedule == Schedule::Running
            && self.syscall.is_none()
            && self.fault.is_none()
            && self.file.is_none()
            && self.handlers.is_empty()
            && (cause, *serial, *is_inferred) == (&Cause::Own, self.changed.1, false)
    }

    /// Returns true if the thread's activity changes with what its CPU does.
    pub(crate) fn depends_on_cpu(&self) -> bool {
        match self.schedule {
            Schedule::Unknown => false,
            Schedule::Blocked(_) => !self.is_sleep_expected(),
            Schedule::Running | Schedule::Waiting(_) | Schedule::Throttled(_) => true,
        }
    }

    /// Returns true if the thread sleeps outside of a call, or in one that is made to wait.
    fn is_sleep_expected(&self) -> bool {
        self.syscall.as_ref().is_none_or(|call| is_made_to_wait(&call.name))
    }

    fn blocked(&self, state: TaskState, processor: Option<&Processor>, own: &Thread) -> Activity {
        let call = self.call();
        let run = processor.filter(|_| !self.is_sleep_expected()).and_then(Processor::certainly_running);
        let in_page_fault = call.is_none() && self.fault.is_some() && is_sleep(state);
        Activity {
            inverted: run.map(|run| run.thread.clone()).filter(|other| own.outranks(other)),
            file: self.file.clone().filter(|_| state == TaskState::Uninterruptible),
            ..Activity::of(Cause::Blocked { state, syscall: call, in_page_fault }, self.changed.1)
        }
    }

    fn call(&self) -> Option<Arc<str>> {
        self.syscall.as_ref().map(|call| call.name.clone())
    }
}

impl Fault {
    /// Returns the cause of the time of the fault while the thread has the CPU.
    pub(crate) fn cause(self) -> Cause {
        Cause::PageFault { reason: self.reason, huge: self.huge }
    }
}

/// Returns true if a thread in this state waits for something, and was not stopped from outside.
fn is_sleep(state: TaskState) -> bool {
    matches!(state, TaskState::Interruptible | TaskState::Uninterruptible)
}

fn interrupted(processor: Option<&Processor>) -> Option<Activity> {
    let handling = processor?.interrupt()?;
    let (inside, messages) = (handling.inside.clone(), handling.messages.clone());
    Some(Activity { inside, messages, ..Activity::of(handling.cause.clone(), handling.serial) })
}

impl Activity {
    /// Creates an activity with a cause alone.
    pub(crate) fn of(cause: Cause, serial: Serial) -> Self {
        Self {
            cause,
            inside: None,
            inverted: None,
            beside: None,
            messages: None,
            file: None,
            is_inferred: false,
            serial,
        }
    }
}
