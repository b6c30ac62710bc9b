//! Kinds of the kernel's events, in words and as groups for `--kernel`.

use sordino_analyze::Missing;

/// Returns the names of the groups that contain such events, for `--kernel`.
pub(super) fn groups(missing: &[Missing]) -> String {
    let mut groups: Vec<_> = missing.iter().map(|missing| named(*missing).1).collect();
    groups.dedup();
    groups.join(",")
}

/// Returns the events in words, and the kernel's names for the groups that contain them.
pub(super) fn named(missing: Missing) -> (&'static str, &'static str) {
    match missing {
        Missing::Switches => ("which thread has which CPU", "sched"),
        Missing::Wakeups => ("who wakes whom", "sched"),
        Missing::Irqs => ("interrupts of devices", "irq"),
        Missing::Softirqs => ("softirqs", "irq"),
        // The functions of the local timer are in a group of their own.
        Missing::Vectors => ("interrupts of the CPU itself such as its timer", "irq_vectors,timer"),
        Missing::Syscalls => ("system calls", "raw_syscalls"),
        Missing::Faults => ("page faults", "exceptions"),
        Missing::Nmis => ("non-maskable interrupts", "nmi"),
        Missing::Signals => ("signals that are delivered", "signal"),
        Missing::Migrations => ("moves to other CPUs", "sched"),
        _ => ("other events", "all"),
    }
}
