//! The scheduler's state of a thread by the kernel's events.

use crate::TaskState;
use sordino_event::{Cpu, Tid, Time};

/// The state of a thread in the kernel's scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadState {
    /// The thread has this CPU.
    Running {
        /// The CPU that it has.
        cpu: Cpu,
    },
    /// The thread was preempted or yielded, and waits for a CPU.
    Preempted {
        /// The thread that got its CPU; 0 if the CPU is idle.
        by: Tid,
    },
    /// The thread was woken, or is new, and waits for a CPU.
    Woken {
        /// The thread that had the CPU on which it was woken, in which an interrupt may have woken it. `None` if the
        /// trace does not have it.
        by: Option<Tid>,
    },
    /// The thread sleeps, or is stopped.
    Blocked {
        /// The state in which it left its CPU.
        state: TaskState,
    },
    /// No event has shown the thread's state, or records are missing since.
    #[default]
    Unknown,
}

/// The state of a thread without a CPU, and the evidence. A thread that gets a CPU has none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OffCpu {
    pub(crate) state: ThreadState,
    pub(crate) seen: Time,
    /// The number of losses of the kernel's records before.
    pub(crate) losses: u64,
}

impl OffCpu {
    /// Returns the state, given the number of losses of the kernel's records so far and the time until which records
    /// are missing.
    pub(crate) fn state(&self, (losses, until): (u64, Time)) -> ThreadState {
        if self.losses == losses && self.seen >= until { self.state } else { ThreadState::Unknown }
    }

    /// Applies the record of a wake-up; the first one of a sleep has the waker. A thread may be woken before it leaves
    /// its CPU.
    pub(crate) fn wake(&mut self, by: Option<Tid>, time: Time, losses: (u64, Time)) {
        if matches!(self.state(losses), ThreadState::Blocked { state } if state != TaskState::Dead) {
            *self = Self { state: ThreadState::Woken { by }, seen: time, losses: losses.0 };
        }
    }
}
