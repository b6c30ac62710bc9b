//! All causes in one table: the events that show each of them, how, and with what certainty. `docs/causes.md` is this table for users.

use crate::cause::Cause;
use crate::findings::Missing;
use serde::Serialize;

/// How certain it is that a cause took the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Events show its begin and its end.
    Known,
    /// It follows from what events show, and from what they would show otherwise.
    Inferred,
    /// It took that time at most: its end is not recorded.
    Estimated,
}

/// What is to be known of a kind of cause.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its identifier, `kind` in JSON. It stays the same from one version to the next.
    pub kind: &'static str,
    /// The events without which it is not found.
    pub needs: &'static [Missing],
    /// How certain it is.
    pub certainty: Certainty,
}

const fn known(kind: &'static str, needs: &'static [Missing]) -> Entry {
    Entry { kind, needs, certainty: Certainty::Known }
}

const fn inferred(kind: &'static str, needs: &'static [Missing]) -> Entry {
    Entry { kind, needs, certainty: Certainty::Inferred }
}

/// Every kind of cause.
pub const TABLE: &[Entry] = &{
    use Missing::{Faults, Irqs, Migrations, Nmis, Signals, Softirqs, Switches, Syscalls, Vectors};
    [
        known("own", &[Switches, Syscalls]),
        known("own_or_syscall", &[Switches]),
        inferred("unexplained", &[Switches]),
        known("syscall", &[Switches, Syscalls]),
        known("recorder_wake_up", &[Switches, Syscalls]),
        inferred("signal_handler", &[Switches, Syscalls, Signals]),
        Entry { kind: "page_fault", needs: &[Switches, Faults], certainty: Certainty::Estimated },
        known("irq", &[Switches, Irqs]),
        known("vector", &[Switches, Vectors]),
        known("softirq", &[Switches, Softirqs]),
        known("nmi", &[Switches, Nmis]),
        known("waiting", &[Switches]),
        inferred("throttled", &[Switches, Migrations]),
        known("blocked", &[Switches]),
        known("late_timer", &[Switches, Vectors]),
        known("unknown", &[]),
        known("unrecorded", &[]),
    ]
};

impl Cause {
    /// Returns what is to be known of its kind.
    pub fn entry(&self) -> &'static Entry {
        let kind = match self {
            Self::Own => "own",
            Self::OwnOrSyscall => "own_or_syscall",
            Self::Unexplained => "unexplained",
            Self::Syscall { .. } => "syscall",
            Self::RecorderWakeUp => "recorder_wake_up",
            Self::SignalHandler { .. } => "signal_handler",
            Self::PageFault { .. } => "page_fault",
            Self::Irq { .. } => "irq",
            Self::Vector { .. } => "vector",
            Self::Softirq { .. } => "softirq",
            Self::Nmi { .. } => "nmi",
            Self::Waiting { .. } => "waiting",
            Self::Throttled { .. } => "throttled",
            Self::Blocked { .. } => "blocked",
            Self::LateTimer { .. } => "late_timer",
            Self::Unknown => "unknown",
            Self::Unrecorded { .. } => "unrecorded",
        };
        TABLE.iter().find(|entry| entry.kind == kind).expect("each kind has its entry")
    }
}
