//! The measures, and the kernel's events that each needs.

use crate::jitter::Periods;
use crate::key::Per;
use crate::span::Span;
use crate::{function_calls, locks, reactivity};
use sordino_intervals::{IntervalRule, Key};
use sordino_timeline::{Payer, Recorded, ThreadOrFiber};

/// The spans of time, or the events, that a query finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// All events, which have no length.
    Count,
    /// The time for which threads have a CPU, also where the recording's begin or end cuts it.
    Active,
    /// The stretches for which threads have a CPU, each with its length.
    Slices,
    /// The waits of threads from a wake-up until they have a CPU.
    Latency,
    /// The waits of threads from a preemption until they have a CPU again.
    Preemption,
    /// The sleeps of threads until a wake-up.
    Sleep,
    /// The intervals of a rule, from an event to another.
    Duration(IntervalRule),
    /// The intervals from each event of a name to the next one in its thread, measured by their deviation from usual
    /// periods.
    Jitter(String, Periods),
    /// The jobs of threads, from an event of this name until the thread sleeps. If the event is a wake-up, the job is
    /// that of the woken thread.
    Jobs(String),
    /// The waits of fibers for a thread, from when they can continue.
    FiberWaits,
    /// System calls, from entry to exit.
    Syscalls,
    /// Calls of functions, from entry to exit.
    Calls,
    /// Handlers of interrupts, nested ones included.
    Irqs,
    /// Handlers of softirqs, with the interrupts in them.
    Softirqs,
    /// The waits of threads in calls of `futex` in which they sleep.
    Locks,
    /// The reactions to interrupts, until the first event of the thread that handles each.
    Reactivity,
    /// The links of critical paths.
    Path(PathOf),
}

/// The stretches of time that critical paths are found for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathOf {
    /// The whole time of each thread.
    Threads,
    /// The whole time of each fiber.
    Fibers,
    /// The intervals of a rule: the links of each add up to its length.
    Intervals(IntervalRule),
}

/// The kernel's events that a measure needs and a recording lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingEvents {
    /// The group of events that `--kernel` of `sordino record` takes.
    pub group: &'static str,
    /// True if the measure finds nothing without them.
    pub is_needed: bool,
}

impl Measure {
    /// Returns the measure's name, as a user names it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Active => "active",
            Self::Slices => "slices",
            Self::Latency => "latency",
            Self::Preemption => "preemption",
            Self::Sleep => "sleep",
            Self::Duration(rule) if rule.is_chain() => "period",
            Self::Duration(_) => "duration",
            Self::Syscalls => "syscalls",
            Self::Calls => "calls",
            Self::Irqs => "irqs",
            Self::Softirqs => "softirqs",
            Self::Jitter(..) => "jitter",
            Self::Jobs(_) => "jobs",
            Self::FiberWaits => "fiber-waits",
            Self::Locks => "locks",
            Self::Reactivity => "reactivity",
            Self::Path(PathOf::Fibers) => "fiber-path",
            Self::Path(_) => "path",
        }
    }

    /// Returns the thread, fiber or CPU whose events lengthen a span; `None` where recording takes no part of it, as a
    /// thread that sleeps records nothing.
    pub(crate) fn payer(&self, span: &Span) -> Option<Payer> {
        match self {
            Self::Count | Self::Sleep | Self::Jitter(..) | Self::FiberWaits | Self::Locks | Self::Path(_) => {
                None
            }
            Self::Latency | Self::Preemption | Self::Reactivity | Self::Irqs | Self::Softirqs => {
                span.cpu.map(Payer::Cpu)
            }
            Self::Active
            | Self::Slices
            | Self::Duration(_)
            | Self::Jobs(_)
            | Self::Syscalls
            | Self::Calls => {
                let thread = span.tid.map(ThreadOrFiber::Thread);
                span.fiber.map(ThreadOrFiber::Fiber).or(thread).map(Payer::Owner)
            }
        }
    }

    /// Returns the noun for a span of this measure.
    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Self::Count => "event",
            Self::Active | Self::Slices => "slice",
            Self::Latency => "wake-up",
            Self::Preemption => "preemption",
            Self::Sleep => "sleep",
            Self::Duration(_) => "interval",
            Self::Calls | Self::Syscalls => "call",
            Self::Irqs => "interrupt",
            Self::Softirqs => "softirq",
            Self::Jitter(..) => "period",
            Self::Jobs(_) => "job",
            Self::FiberWaits | Self::Locks => "wait",
            Self::Reactivity => "reaction",
            Self::Path(_) => "link",
        }
    }

    /// Returns the keys of a table if the user names none.
    pub fn usual_keys(&self) -> Vec<Per> {
        let one = match self {
            Self::Locks => return vec![Per::Thread, Per::Holder, Per::Address],
            Self::Reactivity => return vec![Per::Irq, Per::Thread],
            Self::Path(PathOf::Fibers) => return vec![Per::Fiber, Per::Link],
            Self::Path(_) => return vec![Per::Thread, Per::Link],
            Self::FiberWaits => Per::Fiber,
            Self::Jitter(..) | Self::Jobs(_) => Per::Thread,
            Self::Count => Per::Event,
            Self::Active | Self::Slices | Self::Latency | Self::Preemption | Self::Sleep => Per::Thread,
            Self::Duration(_) => Per::Thread,
            Self::Syscalls => Per::Syscall,
            Self::Calls => Per::Function,
            Self::Irqs => Per::Irq,
            Self::Softirqs => Per::Softirq,
        };
        vec![one]
    }

    /// Returns true if a span may begin on one host and end on another: the two events of an interval have the same
    /// value in a field, on any host. Measures of single events return false.
    pub fn is_between_hosts(&self) -> bool {
        let is_field = |key: &Key| matches!(key, Key::Field(_));
        matches!(self, Self::Duration(rule) if is_field(&rule.begin.key) && is_field(&rule.end.key))
    }

    /// Returns true if spans depend on event fields that the super-trace does not read for its own knowledge of
    /// threads, CPUs, interrupts and system calls.
    pub(crate) fn reads_fields(&self) -> bool {
        !matches!(
            self,
            Self::Count
                | Self::Active
                | Self::Slices
                | Self::Latency
                | Self::Preemption
                | Self::Sleep
                | Self::Syscalls
                | Self::Irqs
                | Self::Softirqs
        )
    }

    /// Returns the names of the parts of each span.
    pub fn parts(&self) -> &'static [&'static str] {
        match self {
            // Beside the part that the CPU was idle, until it switched to the thread.
            Self::Latency | Self::Preemption => {
                &["interrupts", "other threads", "idle and switch", "unknown"]
            }
            Self::Calls => &function_calls::PARTS,
            Self::Locks => &locks::PARTS,
            Self::Reactivity => &reactivity::PARTS,
            _ => &[],
        }
    }

    /// Returns true if the key distinguishes spans of this measure.
    pub fn fits(&self, per: &Per) -> bool {
        match per {
            Per::Irq => matches!(self, Self::Irqs | Self::Reactivity),
            Per::Holder | Per::Address => *self == Self::Locks,
            Per::Function => *self == Self::Calls,
            Per::Link => matches!(self, Self::Path(_)),
            Per::Softirq => *self == Self::Softirqs,
            Per::Syscall => *self == Self::Syscalls,
            Per::Event | Per::Field(_) => matches!(self, Self::Count | Self::Duration(_) | Self::Jitter(..)),
            Per::Thread | Per::Process | Per::Comm | Per::Cpu | Per::Priority | Per::Fiber => true,
            Per::Host => true,
        }
    }

    /// Returns the kernel's events that the measure needs and the trace lacks.
    pub fn missing(&self, recorded: Recorded) -> Vec<MissingEvents> {
        let needs: &[(bool, &'static str, bool)] = match self {
            Self::Count | Self::Duration(_) | Self::Jitter(..) | Self::FiberWaits | Self::Calls => &[],
            Self::Active | Self::Slices | Self::Jobs(_) => &[(recorded.switches, "sched", true)],
            Self::Latency | Self::Preemption => &[
                (recorded.switches && recorded.wakeups, "sched", true),
                (recorded.irqs && recorded.softirqs, "irq", false),
            ],
            Self::Sleep => &[(recorded.switches && recorded.wakeups, "sched", true)],
            Self::Syscalls => &[(recorded.syscalls, "syscalls", true)],
            Self::Irqs => &[(recorded.irqs || recorded.vectors, "irq", true)],
            Self::Softirqs => &[(recorded.softirqs, "irq", true)],
            Self::Locks => &[
                (recorded.switches && recorded.wakeups, "sched", true),
                (recorded.syscalls, "syscalls", true),
            ],
            Self::Reactivity | Self::Path(_) => &[
                (recorded.switches && recorded.wakeups, "sched", true),
                (recorded.irqs || recorded.vectors, "irq", true),
            ],
        };
        let lacking = needs.iter().filter(|(is_recorded, ..)| !is_recorded);
        lacking.map(|&(_, group, is_needed)| MissingEvents { group, is_needed }).collect()
    }
}
