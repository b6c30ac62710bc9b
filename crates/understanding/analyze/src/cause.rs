//! The causes that can take a thread's time.

use crate::missing::{Missing, Unrecorded};
use serde::{Serialize, Serializer};
use sordino_event::{Cpu, Tid};
use sordino_intervals::number;
use sordino_timeline::kernel::{FaultReason, Function, Interrupt, softirq_name};
use sordino_timeline::{FiberId, Priority, System, TaskState};
use std::sync::Arc;

/// A thread as a finding names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Thread {
    /// The thread's number; 0 is the idle thread.
    #[serde(serialize_with = "number::tid")]
    pub tid: Tid,
    /// The thread's name at that time, if the trace has it.
    pub comm: Option<Arc<str>>,
    /// The thread's priority at that time, if the trace has it.
    #[serde(serialize_with = "number::priority")]
    pub priority: Option<Priority>,
    /// True if the thread belongs to sordino's recorder, as recorded in the trace.
    #[serde(skip_serializing_if = "is_false")]
    pub is_recorder: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Thread {
    /// Returns the thread as `system` knows it.
    pub fn of(system: &System, tid: Tid) -> Self {
        Self {
            tid,
            comm: system.comm(tid).cloned(),
            priority: system.priority(tid),
            is_recorder: system.is_recorder(tid),
        }
    }

    /// Returns true for the idle thread, which stands for a CPU without work.
    pub fn is_idle(&self) -> bool {
        self.tid == Tid(0)
    }

    /// Returns true if the scheduler prefers it to `other`, as far as the trace has both priorities.
    pub(crate) fn outranks(&self, other: &Self) -> bool {
        match (self.priority, other.priority) {
            (Some(own), Some(priority)) => !other.is_idle() && !other.stops_a_cpu() && own.outranks(priority),
            _ => false,
        }
    }

    /// Returns true for the kernel's thread that stops a CPU. It precedes all other threads, whatever its priority.
    fn stops_a_cpu(&self) -> bool {
        self.comm.as_deref().is_some_and(|comm| comm.starts_with("migration/"))
    }
}

/// A fiber as a finding names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FiberName {
    /// The number of the fiber, which is unique in its process while the fiber is alive.
    pub number: u64,
    /// The fiber's name, if it has one.
    pub name: Option<Arc<str>>,
    /// True if records were lost since the fiber got the name, so that another fiber may have the number now.
    #[serde(skip_serializing_if = "is_false")]
    pub is_doubtful: bool,
}

impl FiberName {
    /// Returns the fiber as `system` knows it.
    pub(crate) fn of(system: &System, fiber: FiberId) -> Self {
        let name = system.fibers().name(fiber).cloned();
        let is_doubtful = name.is_some() && !system.fibers().is_name_certain(fiber);
        Self { number: fiber.number, name, is_doubtful }
    }
}

/// A cause that takes the time of a thread, or of a fiber; at any moment, exactly one does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The thread's own code; in a loop that always does the same (npt's), as long as that normally takes.
    Own,
    /// The thread's own code, or something that only events of these kinds would show; they are not recorded.
    OwnOrUnrecorded {
        /// The kinds of events.
        missing: Arc<[Missing]>,
    },
    /// The thread had the CPU in a loop that always does the same, for longer than normal, and no event shows the
    /// reason: the hardware, a hypervisor, or something that was not traced.
    Unexplained,
    /// The thread's own system call, while it ran.
    Syscall {
        /// The call's name, or `syscall` and its number.
        call: Arc<str>,
    },
    /// sordino's own system call in the thread, while it ran: it wakes the recorder, with `--wakeup`.
    RecorderWakeUp,
    /// The program's own handler of a signal: from the signal's delivery until the handler returns to the kernel.
    SignalHandler {
        /// The signal's name, or `signal` and its number.
        signal: Arc<str>,
        /// The sender of the signal.
        sender: Waker,
    },
    /// A page fault, at most: its end leaves no event, so this lasts until a record shows the thread elsewhere.
    PageFault {
        /// Reason for the fault, if the trace has it.
        #[serde(serialize_with = "fault_reason")]
        reason: Option<FaultReason>,
        /// True if an event shows that the kernel gets a huge page for it.
        huge: bool,
    },
    /// An interrupt of a device.
    Irq {
        /// The number of the interrupt.
        number: i64,
        /// The name of its handler.
        name: Arc<str>,
    },
    /// An interrupt that the kernel keeps for itself, such as the local timer.
    Vector {
        /// The name that the kernel's events have for it.
        name: Arc<str>,
    },
    /// Work that interrupt handlers left for later.
    Softirq {
        /// The number of the softirq.
        number: i64,
        /// The softirq's name, or `softirq` and its number.
        name: Arc<str>,
    },
    /// A non-maskable interrupt (NMI).
    Nmi {
        /// The function that handled it.
        handler: Arc<str>,
    },
    /// The thread could have run, but did not.
    Waiting {
        /// The event since which it waited.
        after: After,
        /// The thread that ran on its CPU; thread 0 if the CPU was idle, `None` if that is not recorded.
        behind: Option<Thread>,
        /// The system call it was in.
        syscall: Option<Arc<str>>,
    },
    /// The thread could have run, but a limit kept it from its CPU. The scheduler shows it: it gave the CPU to the idle
    /// thread, or to a thread of a lower class, while this thread stood in that CPU's queue.
    Throttled {
        /// The limit that was reached.
        limit: Limit,
        /// The system call it was in.
        syscall: Option<Arc<str>>,
    },
    /// The thread slept, or was stopped.
    Blocked {
        /// The thread's state: the letter of `ps`.
        #[serde(serialize_with = "letter")]
        state: TaskState,
        /// The system call it was in.
        syscall: Option<Arc<str>>,
        /// True if it was in a page fault: for a page that has to be read, or a lock of its address space.
        in_page_fault: bool,
    },
    /// The thread slept on, although the timer that woke it was due.
    LateTimer {
        /// True for the time that the timer's slack allows.
        in_slack: bool,
        /// The thread that had the CPU on which the timer's interrupt came; thread 0 if the CPU was idle, `None` if
        /// that is not recorded, or in the slack.
        behind: Option<Thread>,
    },
    /// The fiber could continue, but its thread executed something else.
    FiberWait {
        /// The fiber that the thread executed; `None` if it executed the fiber scheduler, or its own code.
        behind: Option<FiberName>,
    },
    /// The fiber waited for something else than a thread.
    FiberBlocked {
        /// The thing that it waited for, as its library names it, if it does.
        on: Option<Arc<str>>,
    },
    /// The fiber had no thread, and its library does not record the reason.
    FiberUnmounted,
    /// Nothing is known of the thread or fiber: no event of it was seen yet, or records are missing.
    Unknown,
    /// Nobody recorded whether the thread had a CPU: it may have run its own code, or not at all.
    Unrecorded {
        /// The events that would have shown it.
        events: Unrecorded,
    },
}

/// A limit of CPU time that is used up, so that a thread may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The control group's: `cpu.max`, or `cpu.cfs_quota_us`.
    ControlGroup,
    /// All real-time threads': the fair server's part, `sched_rt_runtime_us`, or the control group's
    /// `cpu.rt_runtime_us`.
    RealTime,
    /// The thread's own, of `SCHED_DEADLINE`.
    Deadline,
}

/// Event after which a thread waits for its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// It ran and another thread took the CPU.
    Preemption,
    /// It slept and was woken.
    WakeUp,
}

/// The waker of a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Waker {
    /// A thread that woke it.
    Thread {
        /// The thread that woke it.
        thread: Thread,
    },
    /// An interrupt, a softirq or a timer of it.
    Interrupt {
        /// The kind of interrupt that woke it.
        cause: Box<Cause>,
        /// The CPU of the interrupt.
        #[serde(serialize_with = "number::cpu")]
        cpu: Option<Cpu>,
    },
    /// A fiber that woke another one.
    Fiber {
        /// The fiber that woke it.
        fiber: FiberName,
        /// The thread that executed that fiber.
        thread: Thread,
    },
    /// The trace does not show the waker.
    Unknown,
}

/// The kind of futex on which a thread slept: the waker woke it by the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lock {
    /// A lock for certain, which the waker held: `FUTEX_LOCK_PI` and `FUTEX_UNLOCK_PI`.
    Held,
    /// A lock as a rule, which the waker then held. The kernel can't tell it from a condition variable, a semaphore or
    /// a barrier: `FUTEX_WAIT` and `FUTEX_WAKE`.
    Inferred,
}

fn fault_reason<S: Serializer>(reason: &Option<FaultReason>, serializer: S) -> Result<S::Ok, S::Error> {
    let word = reason.map(|reason| match reason {
        FaultReason::Missing => "missing",
        FaultReason::WriteProtected => "write_protected",
    });
    word.serialize(serializer)
}

fn letter<S: Serializer>(state: &TaskState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_char(state.letter())
}

impl Limit {
    /// Returns the limit that keeps `own` from its CPU: it stands in that CPU's queue while the scheduler chooses
    /// `next`. `None` if the order of the scheduling classes may be the reason.
    pub(crate) fn shown_by(own: &Thread, next: &Thread) -> Option<Self> {
        let own = own.priority?;
        if !next.is_idle() {
            let is_lower = own.is_real_time() && !next.stops_a_cpu() && next.priority? >= own.class_end();
            return is_lower.then_some(if own.is_deadline() { Self::Deadline } else { Self::RealTime });
        }
        Some(match own {
            own if own.is_deadline() => Self::Deadline,
            own if own.is_real_time() => Self::RealTime,
            _ => Self::ControlGroup,
        })
    }
}

impl Cause {
    /// Returns the cause for an interrupt.
    pub fn of_interrupt(interrupt: &Interrupt<'_>) -> Self {
        match *interrupt {
            Interrupt::Irq(number, name) => Self::Irq { number, name: text(name) },
            Interrupt::Vector(name) => Self::Vector { name: name.into() },
            Interrupt::Ipi(reason) => Self::Vector { name: text(reason) },
            Interrupt::Softirq(number) => {
                let name = softirq_name(number).map_or_else(|| format!("softirq {number}").into(), Arc::from);
                Self::Softirq { number, name }
            }
        }
    }

    /// Returns the name of the cause's system call, signal or interrupt.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Syscall { call: name }
            | Self::SignalHandler { signal: name, .. }
            | Self::Irq { name, .. }
            | Self::Vector { name }
            | Self::Softirq { name, .. }
            | Self::Nmi { handler: name } => Some(name),
            _ => None,
        }
    }

    /// Returns the number of the cause's interrupt or softirq.
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Irq { number, .. } | Self::Softirq { number, .. } => Some(*number),
            _ => None,
        }
    }

    /// Returns the state in which the thread slept.
    pub fn state(&self) -> Option<TaskState> {
        match self {
            Self::Blocked { state, .. } => Some(*state),
            _ => None,
        }
    }

    /// Returns the thread that had the CPU; `None` also if the trace does not have it.
    pub fn behind(&self) -> Option<&Thread> {
        match self {
            Self::Waiting { behind, .. } | Self::LateTimer { behind, .. } => behind.as_ref(),
            _ => None,
        }
    }

    /// Returns the fiber that had the thread.
    pub fn behind_fiber(&self) -> Option<&FiberName> {
        match self {
            Self::FiberWait { behind } => behind.as_ref(),
            _ => None,
        }
    }

    /// Returns the thing that the fiber waited for.
    pub fn on(&self) -> Option<&str> {
        match self {
            Self::FiberBlocked { on } => on.as_deref(),
            _ => None,
        }
    }

    /// Returns the name of the system call that the thread was in while it did not run, or `a page fault`.
    pub fn within(&self) -> Option<&str> {
        match self {
            Self::Blocked { in_page_fault: true, .. } => Some("a page fault"),
            Self::Waiting { syscall, .. }
            | Self::Throttled { syscall, .. }
            | Self::Blocked { syscall, .. } => syscall.as_deref(),
            _ => None,
        }
    }

    /// Returns the sender of the signal, if the trace has it.
    pub fn sender(&self) -> Option<&Waker> {
        match self {
            Self::SignalHandler { sender: Waker::Unknown, .. } => None,
            Self::SignalHandler { sender, .. } => Some(sender),
            _ => None,
        }
    }

    /// Returns the kinds of unrecorded events that could show another cause than the thread's own code.
    pub fn missing(&self) -> Option<&[Missing]> {
        match self {
            Self::OwnOrUnrecorded { missing } => Some(missing),
            _ => None,
        }
    }

    /// Returns true for a page fault during which the thread has its CPU.
    pub(crate) const fn is_page_fault(&self) -> bool {
        matches!(self, Self::PageFault { .. })
    }

    /// Returns true if the cause is, or may be, the thread's own code.
    pub(crate) const fn is_own_code(&self) -> bool {
        matches!(self, Self::Own | Self::OwnOrUnrecorded { .. })
    }

    /// Returns true if the thread has the CPU during this cause.
    pub(crate) const fn is_its_own(&self) -> bool {
        matches!(self, Self::Own | Self::Syscall { .. } | Self::SignalHandler { .. } | Self::RecorderWakeUp)
    }

    /// Returns true if this cause is an interrupt and `exit` ends it.
    pub(crate) fn ends_with(&self, exit: &Interrupt<'_>) -> bool {
        match (self, exit) {
            (Self::Irq { number, .. }, Interrupt::Irq(exit, _)) => number == exit,
            (Self::Softirq { number, .. }, Interrupt::Softirq(exit)) => number == exit,
            (Self::Vector { name }, Interrupt::Vector(exit)) => **name == **exit,
            (Self::Vector { name }, Interrupt::Ipi(exit)) => **name == *String::from_utf8_lossy(exit),
            _ => false,
        }
    }

    /// Returns the cause without details that differ between its occurrences, for sums over a recording.
    pub(crate) fn in_general(&self) -> Self {
        match self {
            Self::Waiting { after, behind, .. } => {
                Self::Waiting { after: *after, behind: behind.clone(), syscall: None }
            }
            Self::Throttled { limit, .. } => Self::Throttled { limit: *limit, syscall: None },
            _ => self.clone(),
        }
    }
}

/// Text from a trace, which may have any bytes.
fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

/// A function's name, or its address as the kernel prints it.
pub(crate) fn function(system: &System, function: &Function<'_>) -> Arc<str> {
    match *function {
        Function::Address(address) => {
            let unknown = || format!("{address:#018x}").into();
            system.symbol(address).cloned().unwrap_or_else(unknown)
        }
        Function::Name(name) => text(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_ends_the_entry_of_the_same_interrupt_only() {
        let irq = Cause::of_interrupt(&Interrupt::Irq(5, b"eth0"));
        assert!(irq.ends_with(&Interrupt::Irq(5, b"")) && !irq.ends_with(&Interrupt::Irq(6, b"")));
        let softirq = Cause::of_interrupt(&Interrupt::Softirq(1));
        assert!(softirq.ends_with(&Interrupt::Softirq(1)) && !softirq.ends_with(&Interrupt::Irq(1, b"")));
        let ipi = Cause::of_interrupt(&Interrupt::Ipi(b"Rescheduling \xff"));
        assert!(ipi.ends_with(&Interrupt::Ipi(b"Rescheduling \xff")) && !ipi.ends_with(&Interrupt::Ipi(b"")));
    }

    #[test]
    fn a_function_is_named_or_shown_by_its_address() {
        let system = System::default();
        assert_eq!(&*function(&system, &Function::Address(0xffff_8000_0000_1234)), "0xffff800000001234");
        assert_eq!(&*function(&system, &Function::Name(b"tick_sched_timer")), "tick_sched_timer");
    }
}
