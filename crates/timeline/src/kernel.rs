//! What an event of the kernel says, whichever tracer recorded it.

use crate::TaskState;
use crate::context::Scheduling;
use sordino_event::{Cpu, Nanos, Pid, Tid};

/// What an event of the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kernel<'a> {
    /// The CPU went from one thread to another.
    Switch {
        /// Who ran.
        prev: Task<'a>,
        /// In which state it left.
        state: TaskState,
        /// Who runs now.
        next: Task<'a>,
    },
    /// A sleeping thread is to run again. Recorded where the wake-up comes from.
    Waking {
        /// Who is to run.
        tid: Tid,
        /// Where it ran last.
        cpu: Option<Cpu>,
        /// The thread's priority as the tracer numbers it.
        priority: Option<i32>,
    },
    /// A thread waits for its CPU from now on: woken, or new.
    Woken {
        /// Who is to run.
        tid: Tid,
        /// Where.
        cpu: Option<Cpu>,
        /// The thread's priority as the tracer numbers it.
        priority: Option<i32>,
    },
    /// A thread that may run is to do so elsewhere.
    Migrate {
        /// Who.
        tid: Tid,
        /// Where it was.
        from: Option<Cpu>,
        /// Where it is now.
        to: Cpu,
        /// The thread's priority as the tracer numbers it.
        priority: Option<i32>,
    },
    /// A thread's priority changes, raised by a lock's waiter or lowered again.
    Boost {
        /// Who.
        tid: Tid,
        /// The new priority as the tracer numbers it; see [`Task::priority`].
        priority: i32,
    },
    /// The CPU begins to handle an interrupt.
    Enter(Interrupt<'a>),
    /// The CPU is done with it.
    Exit(Interrupt<'a>),
    /// A softirq is to run on this CPU.
    Raise {
        /// The softirq's number: [`softirq_name`].
        softirq: i64,
    },
    /// A non-maskable interrupt has just been handled.
    Nmi {
        /// By which function.
        handler: Function<'a>,
        /// How long that took, until this event.
        duration: Nanos,
    },
    /// What a function of the kernel is called.
    Symbol {
        /// Where it lies.
        address: u64,
        /// Its name.
        name: &'a [u8],
    },
    /// The hypervisor had a CPU for itself, some time in the last `window`.
    Stolen {
        /// The number of the CPU that was stopped.
        cpu: Cpu,
        /// For how long.
        time: Nanos,
        /// How far back that may lie.
        window: Nanos,
    },
    /// A page of a file is asked for by a page fault, or comes into memory.
    File {
        /// The file system's device: major and minor number.
        device: (u32, u32),
        /// The file's inode number.
        inode: u64,
        /// The page's place in the file.
        index: u64,
        /// If that page and the next ones, two to the power of this together, come into memory now, for whoever runs here: to be read, or as new ones.
        read: Option<u32>,
    },
    /// The recorder's own loop stood still until now, as interrupts of this CPU made it.
    Interrupted {
        /// The CPU on which the loop ran.
        cpu: Cpu,
        /// The time for which it stood still.
        time: Nanos,
    },
    /// Another CPU is interrupted, by who runs here or what interrupts it.
    Message {
        /// The CPU that is interrupted.
        to: Cpu,
        /// The function that it is to call; `None` if it is to look which thread it has to run.
        function: Option<Function<'a>>,
    },
    /// A page fault begins.
    Fault {
        /// Whether the thread was in user code.
        user: bool,
        /// Why, if the trace tells: it has the error code of an x86 processor.
        reason: Option<FaultReason>,
    },
    /// The running thread, or an interrupt in it, gets pages of memory from the kernel.
    Allocation {
        /// The number of pages as a power of two.
        order: u32,
    },
    /// The thread enters the kernel.
    SyscallEntry {
        /// For what.
        call: Syscall<'a>,
        /// The first three arguments, if the trace tells. Of calls that have events of their own, they are known of `futex`.
        arguments: [Option<u64>; 3],
    },
    /// The thread leaves it.
    SyscallExit,
    /// A signal is sent, by who runs or what interrupts it.
    SignalSent {
        /// The signal's number.
        signal: i64,
        /// A thread that is to get it, or one of the process that is.
        tid: Tid,
        /// True if any thread of the process may get it; `None` if the trace does not tell.
        is_for_process: Option<bool>,
        /// The signal's fate; `None` if the trace does not tell.
        result: Option<Sent>,
    },
    /// The thread gets a signal, on its way to user code.
    SignalDelivered {
        /// The signal's number.
        signal: i64,
        /// True if a function of the program's handles it, and runs next.
        is_handled: bool,
    },
    /// A high-resolution timer is started.
    TimerStart {
        /// The timer's address.
        timer: u64,
        /// When it may expire, and when it has to at the latest: the difference is its slack. By the timer's own clock.
        due: [i64; 2],
    },
    /// A timer's function begins.
    TimerEntry {
        /// The function.
        function: Function<'a>,
        /// Of a high-resolution timer its address, and the time by its own clock.
        timer: Option<(u64, i64)>,
    },
    /// It is done.
    TimerExit,
    /// A worker thread begins a piece of work.
    WorkEntry(Function<'a>),
    /// It is done.
    WorkExit,
    /// A thread is there: it was just made, or the state dump tells of it.
    Thread(Born<'a>),
    /// A thread is one of sordino's recorder that made the trace.
    Recorder {
        /// The number of that thread.
        tid: Tid,
    },
    /// A thread has another name.
    Rename {
        /// Who.
        tid: Tid,
        /// Its name from now on.
        comm: &'a [u8],
    },
    /// A process runs another program.
    Exec {
        /// Its only thread now.
        tid: Tid,
        /// Which of its threads asked for it.
        old: Option<Tid>,
    },
    /// A thread's number is free again.
    Gone {
        /// Whose.
        tid: Tid,
    },
    /// What sordino's recorder saw of a program's thread.
    Context {
        /// The program.
        pid: Pid,
        /// The thread, as the program's events name it.
        tid: Tid,
        /// What there was to see.
        seen: Seen<'a>,
    },
}

/// Why a page fault came, by the error code of an x86 processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultReason {
    /// The thread's address space has no page there yet.
    Missing,
    /// The thread writes to a page that it may only read so far: a copy-on-write, or the first write to a clean page of a shared file.
    WriteProtected,
}

/// The fate of a signal that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is pending from now on.
    Pending,
    /// It was pending already, and is so once.
    Again,
    /// Nobody gets it: it is ignored, or there is no room for it.
    Dropped,
}

/// What a recorder saw of a thread besides its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// Its id where the recorder ran, and its process's where it runs itself.
    Ids {
        /// The thread.
        tid: Tid,
        /// The process in its own pid namespace.
        vpid: Pid,
    },
    /// Its name.
    Comm(&'a [u8]),
    /// How it is scheduled.
    Scheduling(Scheduling),
    /// Its cgroup.
    Cgroup(&'a [u8]),
    /// What it said of itself.
    Value {
        /// The value's name.
        name: &'a [u8],
        /// The value; empty if there is none any more.
        text: &'a [u8],
    },
    /// It has ended.
    End,
}

/// A thread as a `sched_switch` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<'a> {
    /// Who; 0 is the idle thread.
    pub tid: Tid,
    /// Its name, if the trace tells.
    pub comm: Option<&'a [u8]>,
    /// Its priority as the tracer numbers it: LTTng takes 100 off the kernel's.
    /// [`System::priority`](crate::System::priority) is always the kernel's.
    pub priority: Option<i32>,
}

/// A thread that a fork or a state dump tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born<'a> {
    /// Who.
    pub tid: Tid,
    /// Its process.
    pub process: Process,
    /// Its name, if the trace tells.
    pub comm: Option<&'a [u8]>,
    /// Its priority in the kernel's numbering, if the trace tells.
    pub priority: Option<i32>,
    /// Whether it was there before: a state dump.
    pub dumped: bool,
}

/// To which process a new thread belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The trace does not tell.
    Unknown,
    /// This one.
    Known(Pid),
    /// The same as its maker.
    OfMaker,
}

/// What interrupts a thread on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interrupt<'a> {
    /// A device's, by number; the name is that of its handler and only known on entry.
    Irq(i64, &'a [u8]),
    /// One that the kernel keeps for itself, by the event's name: `local_timer`, `reschedule`, `call_function`.
    Vector(&'a str),
    /// A message from another CPU, where the trace gives the reason instead (arm64).
    Ipi(&'a [u8]),
    /// Work that interrupt handlers left for later, by number: [`softirq_name`].
    Softirq(i64),
}

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Function<'a> {
    /// Its address: nobody resolved it.
    Address(u64),
    /// Its name.
    Name(&'a [u8]),
}

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Syscall<'a> {
    /// By its number, which depends on the architecture.
    Number(i64),
    /// By its name.
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

/// The kernel's name for a softirq, if there is one of this number.
pub fn softirq_name(number: i64) -> Option<&'static str> {
    const NAMES: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    NAMES.get(usize::try_from(number).ok()?).copied()
}
