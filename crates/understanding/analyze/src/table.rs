//! All causes in one table: the events that show each of them, how certain it is then, and the words for it.
//! `docs/causes.md` is this table for users.

use crate::cause::{After, Cause, Limit, Lock};
use crate::missing::{Missing, Unrecorded};
use crate::words::{Cases, Phrases, Word};
use serde::Serialize;
use sordino_timeline::kernel::FaultReason;

/// The certainty that a cause took the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Events show its begin and its end.
    Known,
    /// It follows from the recorded events and from the absence of others.
    Inferred,
    /// It took that time at most: its end is not recorded.
    Estimated,
}

/// A kind of cause: its name, evidence, certainty and words.
#[derive(Clone, Copy, Debug)]
pub struct CauseEntry {
    /// The kind's identifier, `kind` in JSON, which stays the same from one version to the next.
    pub kind: &'static str,
    /// The events that are necessary to find it.
    pub needs: &'static [Missing],
    /// The certainty of such a cause.
    pub certainty: Certainty,
    /// The words for some causes of the kind.
    pub cases: Cases<Cause, Phrases>,
    /// The words for all others.
    pub otherwise: Phrases,
}

/// A phrase: texts, and placeholders by the names that [`Word`] has for them.
macro_rules! words {
    (@ $text:literal) => { Word::Text($text) };
    (@ $placeholder:ident) => { Word::$placeholder };
    ($($word:tt)+) => { &[$(words!(@ $word)),+] };
}

/// The phrases of a case: of a row, of the headline, of headlines for parts with more evidence; the note.
macro_rules! phrases {
    (
        row: [$($row:tt)+],
        sentence: [$($sentence:tt)+],
        $(if $holds:expr => [$($detailed:tt)+],)*
        $(note: $note:ident,)?
    ) => {
        Phrases {
            row: words!($($row)+),
            sentence: words!($($sentence)+),
            detailed: &[$(($holds, words!($($detailed)+))),*],
            note: phrases!(@ $($note)?),
        }
    };
    (@) => { None };
    (@ $note:ident) => { Some($note) };
}

/// An entry: kind, certainty, needed events; then cases, which are read like the arms of a `match`, and the phrases of
/// all other causes.
macro_rules! entry {
    (
        $kind:literal, $certainty:ident, [$($needs:ident),*];
        $(case $pattern:pat $(if $guard:expr)? => { $($phrases:tt)+ })*
        otherwise { $($otherwise:tt)+ }
    ) => {
        CauseEntry {
            kind: $kind,
            needs: &[$(Missing::$needs),*],
            certainty: Certainty::$certainty,
            cases: &[$((|cause| matches!(cause, $pattern $(if $guard)?), phrases!($($phrases)+))),*],
            otherwise: phrases!($($otherwise)+),
        }
    };
}

/// The limit of real-time threads, which applies to every priority; `kernel/sched/deadline.c`, `fair_server_init`.
const FAIR_SERVER: &str = "Real-time threads that are throttled: since Linux 6.8, the fair server gives ordinary threads \
    50 ms of each second on a CPU that real-time threads fill. Its settings are in \
    /sys/kernel/debug/sched/fair_server. Older kernels do so by sched_rt_runtime_us.";

/// Every kind of cause.
pub static TABLE: &[CauseEntry] = &{
    use After::{Preemption, WakeUp};
    use Cause::{FiberWait, LateTimer, PageFault, Softirq, Throttled, Waiting};
    use FaultReason::WriteProtected;
    [
        entry! { "own", Known, [Switches, Syscalls];
            otherwise {
                row: ["own code"],
                sentence: ["its own code took " Took],
                if |part| part.may_be_stolen => ["its own code, or a hypervisor, took " Took],
            }
        },
        entry! { "own_or_unrecorded", Known, [Switches];
            otherwise {
                row: ["own code, or not recorded: " Unrecorded],
                sentence: ["its own code, or what is not recorded (add " Unrecorded "), took " Took],
                if |part| part.may_be_stolen =>
                    ["its own code, a hypervisor, or what is not recorded (add " Unrecorded "), took " Took],
            }
        },
        entry! { "unexplained", Inferred, [Switches];
            otherwise {
                row: ["unexplained (hardware or hypervisor?)"],
                sentence: [Time " unexplained: hardware, a hypervisor, or not recorded" Longer],
                if |part| part.may_be_stolen =>
                    [Time " unexplained: a hypervisor, which took time from its CPU about then, \
                        hardware, or not recorded"],
            }
        },
        entry! { "syscall", Known, [Switches, Syscalls];
            otherwise {
                row: ["own system call " Name],
                sentence: ["its own system call " Name " took " Time InOthers Longer],
            }
        },
        entry! { "recorder_wake_up", Known, [Switches, Syscalls];
            otherwise {
                row: ["sordino's own system call: it wakes the recorder (--wakeup)"],
                sentence: ["sordino's own wake-up of its recorder (--wakeup) took " Time Longer],
            }
        },
        entry! { "signal_handler", Inferred, [Switches, Syscalls, Signals];
            otherwise {
                row: ["its handler of " Name SentBy],
                sentence: ["its handler of " Name " took " Time InOthers SentBy Longer],
            }
        },
        // A fault of a page that is there is a copy-on-write as a rule.
        entry! { "page_fault", Estimated, [Switches, Faults];
            case PageFault { reason: Some(WriteProtected), huge: false } => {
                row: ["page fault on a write-protected page (copy-on-write, or a clean page of a file), at most "
                    "(no event ends it)"],
                sentence: [Count " page fault" Plural " on a write-protected page (copy-on-write, or a clean page "
                    "of a file) took at most " Time Longer],
            }
            case PageFault { reason: Some(WriteProtected), huge: true } => {
                row: ["page fault on a write-protected page (copy-on-write, a huge page), at most "
                    "(no event ends it)"],
                sentence: [Count " page fault" Plural " on a write-protected page (copy-on-write, a huge page) "
                    "took at most " Time Longer],
            }
            case PageFault { huge: true, .. } => {
                row: ["page fault for a huge page, at most (no event ends it)"],
                sentence: [Count " page fault" Plural " for a huge page took at most " Time Longer],
            }
            otherwise {
                row: ["page fault, at most (no event ends it)"],
                sentence: [Count " page fault" Plural " took at most " Time Longer],
            }
        },
        entry! { "irq", Known, [Switches, Irqs];
            otherwise {
                row: ["IRQ " Number " " Name],
                sentence: ["interrupted " Time " by IRQ " Number " " Name ByOthers SentBy Longer],
            }
        },
        entry! { "vector", Known, [Switches, Vectors];
            otherwise {
                row: ["interrupt " Name],
                sentence: ["interrupted " Time " by interrupt " Name ByOthers SentBy Longer],
            }
        },
        entry! { "softirq", Known, [Switches, Softirqs];
            // One without a name is called by its number.
            case Softirq { name, .. } if name.starts_with("softirq") => {
                row: [Name],
                sentence: ["interrupted " Time " by " Name ByOthers SentBy Longer],
            }
            otherwise {
                row: ["softirq " Name],
                sentence: ["interrupted " Time " by softirq " Name ByOthers SentBy Longer],
            }
        },
        entry! { "nmi", Known, [Switches, Nmis];
            otherwise {
                row: ["NMI " Name],
                sentence: ["interrupted " Time " by NMI " Name ByOthers SentBy Longer],
            }
        },
        entry! { "waiting", Known, [Switches];
            case Waiting { after: Preemption, behind: Some(by), .. } if by.is_idle() => {
                row: ["runnable, its CPU idle (throttled?)" Within],
                sentence: ["ready to run, but its CPU was idle for " Time Within " (throttled?)" OrThrottled InOtherWaits Longer],
            }
            case Waiting { after: Preemption, behind: Some(_), .. } => {
                row: ["preempted by " Behind Within],
                sentence: ["preempted " Time " by " Behind Within ByOthers OrThrottled Longer],
            }
            case Waiting { after: Preemption, behind: None, .. } => {
                row: ["preempted, not known by whom" Within],
                sentence: ["preempted " Time Within ", not known by whom" InOtherWaits OrThrottled Longer],
            }
            case Waiting { after: WakeUp, behind: Some(by), .. } if by.is_idle() => {
                row: ["woken, waited for its idle CPU" Within],
                sentence: ["woken, but waited " Time " for its idle CPU" Within InOtherWaits Longer],
            }
            case Waiting { after: WakeUp, behind: Some(_), .. } => {
                row: ["woken, waited behind " Behind Within],
                sentence: ["woken, but waited " Time " behind " Behind Within BehindOthers OrThrottled Longer],
            }
            otherwise {
                row: ["woken, waited for its CPU" Within],
                sentence: ["woken, but waited " Time " for its CPU" Within InOtherWaits OrThrottled Longer],
            }
        },
        entry! { "throttled", Inferred, [Switches, Migrations];
            case Throttled { limit: Limit::ControlGroup, .. } => {
                row: ["throttled" Within ": the quota of its control group is used up (cpu.max)"],
                sentence: ["throttled " Time Within ": the quota of its control group is used up (cpu.max)"
                    Beside InOtherWaits Longer],
                if |part| part.quota.as_ref().is_some_and(|quota| quota.group.is_some()) =>
                    ["throttled " Time Within ": the quota of " Quota " of its control group " Group
                        " is used up (cpu.max)" Beside InOtherWaits Longer],
            }
            case Throttled { limit: Limit::RealTime, .. } => {
                row: ["throttled" Within ": real-time threads have used up their share"],
                sentence: ["throttled " Time Within ": real-time threads have used up their share (fair server, "
                    "sched_rt_runtime_us, or their control group's)" Beside InOtherWaits Longer],
                if |part| part.quota.as_ref().is_some_and(|quota| quota.group.is_some()) =>
                    ["throttled " Time Within ": the real-time quota of " Quota " of its control group " Group
                        " is used up (cpu.rt_runtime_us)" Beside InOtherWaits Longer],
                if |part| part.quota.is_some() =>
                    ["throttled " Time Within ": real-time threads have used up their share (fair server, "
                        "or sched_rt_runtime_us: " Quota ")" Beside InOtherWaits Longer],
                note: FAIR_SERVER,
            }
            otherwise {
                row: ["throttled" Within ": its SCHED_DEADLINE runtime is used up"],
                sentence: ["throttled " Time Within ": its SCHED_DEADLINE runtime is used up"
                    Beside InOtherWaits Longer],
            }
        },
        entry! { "blocked", Known, [Switches];
            otherwise {
                row: [State Within],
                sentence: [State " for " Time Within Longer InOtherWaits],
                if |part| part.lock() == Some(Lock::Held) =>
                    ["blocked " Time " on a lock held by " Waker Longer InOtherWaits],
                if |part| part.lock() == Some(Lock::Inferred) =>
                    ["blocked " Time " on a futex (a lock?) that " Waker " released" Longer InOtherWaits],
                if |part| part.main_file().is_some() =>
                    [State " for " Time Within Longer InOtherWaits ", for pages of " File],
                if |part| part.waker().is_some() =>
                    [State " for " Time Within Longer InOtherWaits ", woken by " Waker],
            }
        },
        entry! { "late_timer", Known, [Switches, Vectors];
            case LateTimer { in_slack: true, .. } => {
                row: ["its timer's slack"],
                sentence: ["its timer came " Time " late, as its slack allows" Longer],
            }
            case LateTimer { behind: Some(by), .. } if by.is_idle() => {
                row: ["its timer was late, on an idle CPU"],
                sentence: ["its timer came " Time " late, on an idle CPU" InOtherWaits Longer],
            }
            case LateTimer { behind: Some(_), .. } => {
                row: ["its timer was late, while " Behind " had the CPU"],
                sentence: ["its timer came " Time " late, while " Behind " had the CPU" InOtherWaits Longer],
            }
            otherwise {
                row: ["its timer was late"],
                sentence: ["its timer came " Time " late" InOtherWaits Longer],
            }
        },
        entry! { "fiber_wait", Known, [];
            case FiberWait { behind: Some(_) } => {
                row: ["waited for other fibers: " Fiber],
                sentence: ["waited for other fibers: " Time " behind " Fiber BehindOthers Longer],
            }
            otherwise {
                row: ["ready, but no thread took the fiber"],
                sentence: ["the fiber was ready, but no thread took it for " Time BehindOthers Longer],
            }
        },
        entry! { "fiber_blocked", Known, [];
            otherwise {
                row: ["the fiber was blocked" On],
                sentence: ["the fiber was blocked" On " for " Time Longer InOtherWaits],
                if |part| part.waker().is_some() =>
                    ["the fiber was blocked" On " for " Time Longer InOtherWaits ", woken by " Waker],
            }
        },
        entry! { "fiber_unmounted", Known, [];
            otherwise {
                row: ["the fiber had no thread, its library does not record why"],
                sentence: ["the fiber had no thread for " Time ", its library does not record why" Longer],
            }
        },
        entry! { "unknown", Known, [];
            otherwise {
                row: ["unknown to the trace"],
                sentence: [Time " unknown: the trace does not show the thread" Longer],
            }
        },
        entry! { "unrecorded", Known, [];
            case Cause::Unrecorded { events: Unrecorded::Kernel } => {
                row: ["unknown: no kernel events recorded"],
                sentence: [Time " unknown: no kernel events recorded" Longer],
            }
            otherwise {
                row: ["unknown: sched_switch is not recorded"],
                sentence: [Time " unknown: sched_switch is not recorded" Longer],
            }
        },
    ]
};

impl Cause {
    /// Returns the entry of its kind.
    pub fn entry(&self) -> &'static CauseEntry {
        let kind = match self {
            Self::Own => "own",
            Self::OwnOrUnrecorded { .. } => "own_or_unrecorded",
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
            Self::FiberWait { .. } => "fiber_wait",
            Self::FiberBlocked { .. } => "fiber_blocked",
            Self::FiberUnmounted => "fiber_unmounted",
            Self::Unknown => "unknown",
            Self::Unrecorded { .. } => "unrecorded",
        };
        TABLE.iter().find(|entry| entry.kind == kind).expect("each kind has its entry")
    }
}
