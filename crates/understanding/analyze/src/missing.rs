//! The kernel's events that a trace lacks.

use serde::Serialize;
use sordino_timeline::Recorded;

/// The kernel's events that are necessary to explain a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unrecorded {
    /// The trace has no event of the kernel.
    Kernel,
    /// The trace has events of the kernel, but `sched_switch` is not among them.
    Switches,
}

/// A kind of the kernel's events that a trace lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// The switches between threads on a CPU.
    Switches,
    /// The wake-ups of threads.
    Wakeups,
    /// The interrupts of devices.
    Irqs,
    /// The softirqs of the kernel.
    Softirqs,
    /// The local timer and other interrupts of the CPU itself.
    Vectors,
    /// The system calls of threads.
    Syscalls,
    /// The page faults of threads.
    Faults,
    /// The non-maskable interrupts (NMI).
    Nmis,
    /// The deliveries of signals.
    Signals,
    /// The moves of threads to other CPUs.
    Migrations,
}

impl Missing {
    /// Returns true if such events show the activities and interruptions of a thread that has its CPU.
    pub(crate) const fn shows_running(&self) -> bool {
        use Missing::{Faults, Irqs, Signals, Softirqs, Syscalls, Vectors};
        matches!(self, Irqs | Softirqs | Vectors | Syscalls | Faults | Signals)
    }
}

impl Unrecorded {
    /// Returns the events that a trace lacks to know whether threads have a CPU; `None` if it has them all.
    pub(crate) fn of(recorded: Recorded) -> Option<Self> {
        match recorded {
            Recorded { switches: true, .. } => None,
            Recorded { any: true, .. } => Some(Self::Switches),
            _ => Some(Self::Kernel),
        }
    }
}

/// Returns the kinds of events that are not recorded.
pub(crate) fn missing(recorded: Recorded) -> Vec<Missing> {
    let all = [
        (recorded.switches, Missing::Switches),
        (recorded.wakeups, Missing::Wakeups),
        (recorded.migrations, Missing::Migrations),
        (recorded.irqs, Missing::Irqs),
        (recorded.softirqs, Missing::Softirqs),
        (recorded.vectors, Missing::Vectors),
        (recorded.syscalls, Missing::Syscalls),
        (recorded.faults, Missing::Faults),
        (recorded.nmis, Missing::Nmis),
        (recorded.signals, Missing::Signals),
    ];
    all.into_iter().filter(|(is_recorded, _)| !is_recorded).map(|(_, missing)| missing).collect()
}
