//! Fibers, which a program's own scheduler runs on threads: user-level threads, tasks, goroutines.

use sordino_event::{Pid, Tid};
use std::fmt;
use std::sync::Arc;

/// The identity of a fiber while it is alive; its number may be used again afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FiberId {
    /// The process in which the fiber lives.
    pub pid: Pid,
    /// The fiber's number in its process, never 0.
    pub number: u64,
}

/// The thread or the fiber that an interval, a path or a stretch of time belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadOrFiber {
    /// The thread with this id.
    Thread(Tid),
    /// The fiber, whichever threads execute it.
    Fiber(FiberId),
}

/// Prints the number, which is unique within the process only.
impl fmt::Display for FiberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// The code that a thread executes while it has a CPU, as far as fibers are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mounted {
    /// No event has shown the thread in a fiber scheduler, or the thread has left its scheduler.
    #[default]
    Outside,
    /// The thread belongs to a fiber scheduler and has no fiber: it executes the scheduler's code, or its own.
    Scheduler,
    /// The thread executes this fiber.
    Fiber(FiberId),
    /// Records are missing or contradict each other, so the fiber is not known.
    Unknown,
}

impl Mounted {
    /// Returns the fiber, if the thread certainly has one.
    pub fn fiber(self) -> Option<FiberId> {
        match self {
            Self::Fiber(fiber) => Some(fiber),
            Self::Outside | Self::Scheduler | Self::Unknown => None,
        }
    }
}

/// The state of a fiber by the records of its program. A mounted fiber runs if its thread has a CPU, which
/// [`System::thread_state`](crate::System::thread_state) knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FiberState {
    /// A thread executes the fiber.
    Mounted {
        /// The thread that executes it.
        tid: Tid,
    },
    /// The fiber can continue and has no thread.
    Ready {
        /// The event since which it waits for a thread.
        since: ReadySince,
    },
    /// The fiber waits for something else than a thread.
    Blocked {
        /// The thing that it waits for, as its library names it, if it does.
        on: Option<Arc<str>>,
    },
    /// The fiber has no thread, and its library does not record the reason, or not since when the fiber is ready.
    Unmounted,
    /// Records are missing or contradict each other, or no record has shown the fiber's state yet.
    Unknown,
}

/// The event since which a fiber waits for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadySince {
    /// The fiber was made.
    Made,
    /// The fiber yielded its thread.
    Yielded,
    /// The scheduler took the fiber from its thread, as its time slice was over.
    SliceOver,
    /// The fiber was blocked and is woken; a second wake-up replaces the first.
    Woken {
        /// The number of the fiber that woke it; `None` for other code.
        by: Option<u64>,
    },
}

/// A reason for which a thread switches from one fiber to another, with its number in the field `why`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FiberSwitchReason {
    /// The library does not record the reason.
    Unknown = 0,
    /// The fiber that leaves yields, and can continue.
    Yielded = 1,
    /// The time slice of the fiber that leaves is over, and it can continue.
    SliceOver = 2,
    /// The fiber that leaves waits for something.
    Blocked = 3,
    /// The fiber that leaves has ended.
    Ended = 4,
    /// The fiber that comes is started or resumed.
    Resumed = 5,
}

impl FiberSwitchReason {
    /// Reads the value of the field `why`.
    pub(crate) fn of(number: u64) -> Self {
        match number {
            1 => Self::Yielded,
            2 => Self::SliceOver,
            3 => Self::Blocked,
            4 => Self::Ended,
            5 => Self::Resumed,
            _ => Self::Unknown,
        }
    }
}

/// The state in which a fiber is shown that is older than the records of its program, with its number in the field
/// `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PresentState {
    /// The record does not show it.
    Unknown = 0,
    /// The record's thread executes the fiber.
    Mounted = 1,
    /// The fiber can continue, since a time that is not known.
    Ready = 2,
    /// The fiber waits for something else than a thread.
    Blocked = 3,
}

impl PresentState {
    /// Reads the value of the field `state`.
    pub(crate) fn of(number: u64) -> Self {
        match number {
            1 => Self::Mounted,
            2 => Self::Ready,
            3 => Self::Blocked,
            _ => Self::Unknown,
        }
    }
}

/// An event of the provider `sordino_fiber`, decoded. It concerns fibers of the process that recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FiberEvent<'a> {
    /// The thread begins to execute fibers.
    Enter,
    /// The thread executes fibers no longer.
    Leave,
    /// A fiber is made, which can run from now on.
    New {
        /// The number of the fiber.
        fiber: u64,
        /// The fiber's name, which may be empty.
        name: &'a [u8],
    },
    /// A fiber exists that no record has made, in this state.
    Present {
        /// The number of the fiber.
        fiber: u64,
        /// The fiber's name, which may be empty.
        name: &'a [u8],
        /// The state of the fiber at this time.
        state: PresentState,
    },
    /// The thread changes from one fiber to another, or from or to its own code.
    Switch {
        /// The fiber that leaves; `None` if the thread executed its own code.
        from: Option<u64>,
        /// The fiber that comes; `None` if the thread executes its own code from now on.
        to: Option<u64>,
        /// The reason for the switch.
        why: FiberSwitchReason,
        /// The thing that the fiber waits for, which may be empty.
        on: &'a [u8],
    },
    /// A fiber has ended; it leaves its thread with the next switch.
    End {
        /// The number of the fiber.
        fiber: u64,
    },
    /// A fiber can continue.
    Wake {
        /// The number of the fiber.
        fiber: u64,
        /// The fiber that wakes it; `None` for other code.
        by: Option<u64>,
    },
    /// A fiber gets another name.
    Rename {
        /// The number of the fiber.
        fiber: u64,
        /// The new name of the fiber.
        name: &'a [u8],
    },
    /// The event lacks a field, or has 0 as the number of a fiber.
    Malformed,
}
