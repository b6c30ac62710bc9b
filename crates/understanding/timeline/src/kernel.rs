//! The kernel's events with their meaning, independent of the tracer that recorded them.

use crate::TaskState;
use crate::scheduling::Scheduling;
use sordino_event::{Cpu, Nanos, Pid, Tid};

/// An event of the kernel, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kernel<'a> {
    /// The CPU switched from one thread to another.
    Switch {
        /// The thread that leaves the CPU.
        prev: Task<'a>,
        /// The state in which it leaves.
        state: TaskState,
        /// The thread that runs now.
        next: Task<'a>,
    },
    /// A sleeping thread is woken. The event is recorded on the CPU that wakes it.
    Waking {
        /// The thread that is woken.
        tid: Tid,
        /// The CPU on which it ran last.
        cpu: Option<Cpu>,
        /// The thread's priority as the tracer numbers it.
        priority: Option<i32>,
    },
    /// A thread waits for its CPU from now on: it was woken, or is new.
    Woken {
        /// The thread that waits.
        tid: Tid,
        /// The CPU that it waits for.
        cpu: Option<Cpu>,
        /// The thread's priority as the tracer numbers it.
        priority: Option<i32>,
    },
    /// A runnable thread is moved to another CPU.
    Migrate {
        /// The thread that is moved.
        tid: Tid,
        /// The CPU that it leaves.
        from: Option<Cpu>,
        /// The CPU that it is moved to.
        to: Cpu,
        /// The thread's priority as the tracer numbers it.
        priority: Option<i32>,
    },
    /// A thread's priority changes: it inherits that of a lock's waiter, or gets its own back.
    Boost {
        /// The thread whose priority changes.
        tid: Tid,
        /// The new priority as the tracer numbers it; see [`Task::priority`].
        priority: i32,
    },
    /// The CPU begins to handle an interrupt.
    Enter(Interrupt<'a>),
    /// The CPU has handled an interrupt.
    Exit(Interrupt<'a>),
    /// A softirq is raised on this CPU.
    Raise {
        /// The softirq's number: [`softirq_name`].
        softirq: i64,
    },
    /// A non-maskable interrupt has just been handled.
    Nmi {
        /// The function that handled it.
        handler: Function<'a>,
        /// The time that the handler took, until this event.
        duration: Nanos,
    },
    /// The name of a function of the kernel.
    Symbol {
        /// The address of the function.
        address: u64,
        /// The name of the function.
        name: &'a [u8],
    },
    /// The hypervisor took a CPU away for some time within the last `window`.
    Stolen {
        /// The number of the CPU that was stopped.
        cpu: Cpu,
        /// The time for which it was stopped.
        time: Nanos,
        /// The span before this event in which the time lies.
        window: Nanos,
    },
    /// A page fault needs a page of a file, or such a page comes into memory.
    File {
        /// The file system's device: major and minor number.
        device: (u32, u32),
        /// The file's inode number.
        inode: u64,
        /// The page's index in the file.
        index: u64,
        /// The logarithm, to the base of two, of the number of pages that come into memory now, beginning with this
        /// one: read or new, on behalf of the thread that runs here. `None` for a page fault.
        read: Option<u32>,
    },
    /// A gap in the recorder's own loop, which interrupts of its CPU caused, ends now.
    Interrupted {
        /// The CPU on which the loop ran.
        cpu: Cpu,
        /// The time for which it stood still.
        time: Nanos,
    },
    /// The running thread, or its interrupt, sends an interrupt to another CPU.
    Message {
        /// The CPU that is interrupted.
        to: Cpu,
        /// The function that it is to call; `None` if it is to reschedule.
        function: Option<Function<'a>>,
    },
    /// A page fault begins.
    Fault {
        /// True if the thread was in user code.
        user: bool,
        /// The reason for the fault; `None` if the trace does not have it, as it needs the error code of an x86
        /// processor.
        reason: Option<FaultReason>,
    },
    /// The running thread, or an interrupt in it, gets pages of memory from the kernel.
    Allocation {
        /// The number of pages as a power of two.
        order: u32,
    },
    /// The thread enters the kernel.
    SyscallEntry {
        /// The system call that it enters.
        call: Syscall<'a>,
        /// The first three arguments, if the trace has them. Of the calls that have events of their own, only `futex`
        /// has them.
        arguments: [Option<u64>; 3],
    },
    /// The thread leaves the system call.
    SyscallExit,
    /// The running thread, or its interrupt, sends a signal.
    SignalSent {
        /// The number of the signal.
        signal: i64,
        /// The thread that is to receive it, or one of the receiving process.
        tid: Tid,
        /// True if any thread of the process may receive it; `None` if the trace does not have it.
        is_for_process: Option<bool>,
        /// The signal's fate; `None` if the trace does not have it.
        result: Option<Sent>,
    },
    /// The thread receives a signal on its way to user code.
    SignalDelivered {
        /// The number of the signal.
        signal: i64,
        /// True if a function of the program handles it, which runs next.
        is_handled: bool,
    },
    /// A high-resolution timer is started.
    TimerStart {
        /// The address of the timer.
        timer: u64,
        /// The earliest and the latest expiry, by the timer's own clock; the difference is the timer's slack.
        due: [i64; 2],
    },
    /// A timer's function begins.
    TimerEntry {
        /// The function of the timer.
        function: Function<'a>,
        /// The address of a high-resolution timer, and the time by its own clock; `None` for another timer.
        timer: Option<(u64, i64)>,
    },
    /// The timer's function returns.
    TimerExit,
    /// A worker thread begins a piece of work.
    WorkEntry(Function<'a>),
    /// The worker thread has finished the work.
    WorkExit,
    /// A thread exists: it was just created, or is in the state dump.
    Thread(Born<'a>),
    /// A thread belongs to the recorder that made the trace.
    Recorder {
        /// The id of that thread.
        tid: Tid,
    },
    /// A thread changes its name.
    Rename {
        /// The thread that is renamed.
        tid: Tid,
        /// The new name of the thread.
        comm: &'a [u8],
    },
    /// A process executes another program.
    Exec {
        /// The only thread that the process has now.
        tid: Tid,
        /// The thread that called `exec`, by its id before.
        old: Option<Tid>,
    },
    /// A thread has ended, and its id is free again.
    Gone {
        /// The thread that has ended.
        tid: Tid,
    },
    /// An observation of the recorder about a program's thread.
    Context {
        /// The program's process id.
        pid: Pid,
        /// The thread, as the program's events name it.
        tid: Tid,
        /// The observation about the thread.
        seen: Observed<'a>,
    },
}

/// The reason for a page fault, by the error code of an x86 processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultReason {
    /// The thread's address space does not have the page yet.
    Missing,
    /// The thread writes to a page that is read-only so far: a copy-on-write, or the first write to a clean page of a
    /// shared file.
    WriteProtected,
}

/// The fate of a signal that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is pending from now on.
    Pending,
    /// It was pending already, and remains so once.
    Again,
    /// It is not delivered: it is ignored, or there is no room for it.
    Dropped,
}

/// An observation of the recorder about a thread, besides the thread's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed<'a> {
    /// The thread's id in the recorder's pid namespace, and its process's id in the thread's own.
    Ids {
        /// The id of the thread.
        tid: Tid,
        /// The process's id in its own pid namespace.
        vpid: Pid,
    },
    /// The thread's name, as the kernel has it.
    Comm(&'a [u8]),
    /// The thread's scheduling policy and priority.
    Scheduling(Scheduling),
    /// The path of the thread's cgroup.
    Cgroup(&'a [u8]),
    /// An annotation of the thread.
    Annotation {
        /// The name of the annotation.
        name: &'a [u8],
        /// The annotation's value; empty if it was removed.
        text: &'a [u8],
    },
    /// The thread has ended.
    End,
}

/// A thread as a `sched_switch` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    /// The thread's id; 0 is the idle thread.
    pub tid: Tid,
    /// The thread's name, if the trace has it.
    pub comm: Option<&'a [u8]>,
    /// The thread's priority as the tracer numbers it: LTTng subtracts 100 from the kernel's.
    /// [`System::priority`](crate::System::priority) always uses the kernel's numbering.
    pub priority: Option<i32>,
}

/// A thread as a fork or a state dump describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born<'a> {
    /// The id of the thread.
    pub tid: Tid,
    /// The process of the thread.
    pub process: Process,
    /// The thread's name, if the trace has it.
    pub comm: Option<&'a [u8]>,
    /// The thread's priority in the kernel's numbering, if the trace has it.
    pub priority: Option<i32>,
    /// True if the thread existed before: the event is of a state dump.
    pub dumped: bool,
}

/// The process to which a new thread belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The trace does not have the process.
    Unknown,
    /// The process has this id.
    Known(Pid),
    /// The thread belongs to the process of its creator.
    OfMaker,
}

/// An interruption of the thread that runs on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interrupt<'a> {
    /// A device's interrupt, by number, and the name of its handler, which is known on entry only.
    Irq(i64, &'a [u8]),
    /// An interrupt of the kernel's own, by the event's name: `local_timer`, `reschedule`, `call_function`.
    Vector(&'a str),
    /// An interrupt from another CPU, where the trace gives the reason instead (arm64).
    Ipi(&'a [u8]),
    /// Work that interrupt handlers deferred, by number: [`softirq_name`].
    Softirq(i64),
}

impl Interrupt<'_> {
    /// Returns the interrupt's name in exports, `irq 24: eth0` or `softirq TIMER`. At the exit of a device's handler,
    /// where the handler's name is unknown, this is the beginning of the name at its entry.
    pub fn label(&self) -> String {
        match *self {
            Self::Irq(number, b"") => format!("irq {number}:"),
            Self::Irq(number, name) => format!("irq {number}: {}", String::from_utf8_lossy(name)),
            Self::Vector(name) => name.to_owned(),
            Self::Ipi(reason) => String::from_utf8_lossy(reason).into_owned(),
            Self::Softirq(number) => match softirq_name(number) {
                Some(name) => format!("softirq {name}"),
                None => format!("softirq {number}"),
            },
        }
    }
}

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function<'a> {
    /// The function's address, which nothing resolved.
    Address(u64),
    /// The name of the function.
    Name(&'a [u8]),
}

/// A system call, by number or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Syscall<'a> {
    /// The system call's number, which depends on the architecture.
    Number(i64),
    /// The system call's name, from the event's.
    Name(&'a str),
}

/// Returns the name of a signal that has one on every architecture, or on most.
pub fn signal_name(number: i64) -> Option<&'static str> {
    const NAMES: [&str; 31] = [
        "SIGHUP",
        "SIGINT",
        "SIGQUIT",
        "SIGILL",
        "SIGTRAP",
        "SIGABRT",
        "SIGBUS",
        "SIGFPE",
        "SIGKILL",
        "SIGUSR1",
        "SIGSEGV",
        "SIGUSR2",
        "SIGPIPE",
        "SIGALRM",
        "SIGTERM",
        "SIGSTKFLT",
        "SIGCHLD",
        "SIGCONT",
        "SIGSTOP",
        "SIGTSTP",
        "SIGTTIN",
        "SIGTTOU",
        "SIGURG",
        "SIGXCPU",
        "SIGXFSZ",
        "SIGVTALRM",
        "SIGPROF",
        "SIGWINCH",
        "SIGIO",
        "SIGPWR",
        "SIGSYS",
    ];
    NAMES.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
}

/// Returns the kernel's name for a softirq, if the number is known.
pub fn softirq_name(number: i64) -> Option<&'static str> {
    const NAMES: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    NAMES.get(usize::try_from(number).ok()?).copied()
}
