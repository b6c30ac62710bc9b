//! The findings of an analysis, as data.

use crate::cause::{Cause, FiberName, Lock, Thread, Waker};
use crate::files::File;
use crate::missing::Missing;
use crate::quota::Quota;
use crate::table::Certainty;
use serde::Serialize;
use sordino_event::{Cpu, LossCause, Nanos, Pid, Time};
use sordino_intervals::{Broken, Choice, EventFields, Interval, Statistics, Unpaired, number};
use std::sync::Arc;

/// The version of the serialized form of [`Findings`] and [`Explanation`].
pub const SCHEMA_VERSION: u32 = 2;

/// The intervals of a recording, and the causes of their time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// The name of the schema, `sordino-findings`.
    pub schema: &'static str,
    /// The version of the schema, [`SCHEMA_VERSION`].
    pub version: u32,
    /// The rule that selects the intervals, in the text form of [`IntervalRule`](sordino_intervals::IntervalRule).
    pub rule: String,
    /// The reason for this rule, if the user named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The statistics of all intervals' lengths.
    pub statistics: Statistics,
    /// The length above which intervals are in the ranking.
    #[serde(rename = "limit_ns", serialize_with = "number::span")]
    pub limit: Nanos,
    /// The number of ranked intervals; with more than 100,000, only the longest were examined.
    pub ranked: u64,
    /// True if there were more.
    pub more: bool,
    /// The explanations of the longest intervals, longest first.
    pub intervals: Vec<Explanation>,
    /// The causes in the ranked intervals. The one with the largest excess comes first, or the one with the longest
    /// time if there are too few intervals for usual times.
    pub ranking: Vec<Ranked>,
    /// The begin and end events that belong to no interval.
    pub unpaired: Unpaired,
    /// The pairs that may be several intervals.
    pub broken: Broken,
    /// All losses of records in the trace.
    pub lost: Vec<LossSum>,
    /// The number of events that were out of order in their own source.
    pub disorders: u64,
    /// The contradictions in the records about fibers, by kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradicted>,
    /// The switches between threads that the kernel did not record, for each CPU that lacks some: other events prove
    /// them.
    pub missing_switches: Vec<MissingSwitches>,
    /// The kinds of kernel events that the trace lacks; they might have explained more.
    pub missing: Vec<Missing>,
}

/// The explanation of one interval: the causes of its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The interval with its times and CPUs.
    #[serde(flatten)]
    pub interval: Interval,
    /// The thread whose time is explained.
    pub thread: Thread,
    /// The fiber whose time is explained, if that thread had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fiber: Option<FiberName>,
    /// The length of the interval.
    #[serde(rename = "length_ns", serialize_with = "number::span")]
    pub length: Nanos,
    /// The fields of the event that begins the interval.
    pub begin_fields: EventFields,
    /// The fields of the event that ends the interval.
    pub end_fields: EventFields,
    /// The stages of a request that passed through several threads, in their order; they add up to the length. Empty if
    /// it stayed in one thread, or if no event shows the stages. The parts are those of the thread that ended the
    /// interval.
    pub stages: Vec<Stage>,
    /// The parts of the interval, longest first. They add up to the length.
    pub parts: Vec<Part>,
    /// The part that made the interval long, or that took most of it; `None` if no part took time.
    pub main: Option<Main>,
    /// The waits that a thread of lower priority caused, longest first, except those shorter than a twentieth of the
    /// excess that made the interval long.
    pub inversions: Vec<Inversion>,
    /// The first 16 migrations of the thread.
    pub migrations: Vec<Migration>,
    /// The number of all migrations.
    pub migrations_count: u64,
    /// Losses within the interval: with any, the explanation is incomplete.
    pub lost: Vec<LossSum>,
    /// The time that the hypervisor took from its CPUs around that time; it is part of the unexplained time.
    pub stolen: Vec<Stolen>,
}

/// Time that the hypervisor took from a CPU. The kernel reports its amount in hundredths of a second, without the time
/// at which it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stolen {
    /// The number of the CPU.
    pub cpu: u32,
    /// The amount of time.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
    /// The begin of the span in which the time lies.
    #[serde(rename = "from_ns", serialize_with = "number::time")]
    pub from: Time,
    /// The end of the span in which the time lies.
    #[serde(rename = "to_ns", serialize_with = "number::time")]
    pub to: Time,
}

/// The share of one cause in an interval. It is net: interruptions of the cause are parts of their own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The cause of the time.
    pub cause: Cause,
    /// The total time of the cause.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
    /// The usual time: the median over a sample of the intervals, 0 if they are too few.
    #[serde(rename = "usual_ns", serialize_with = "number::span")]
    pub usual: Nanos,
    /// The part of the time in which interrupts were entered and left, beyond their events: an estimate.
    #[serde(rename = "entry_ns", serialize_with = "number::span")]
    pub entry: Nanos,
    /// The number of occurrences.
    pub count: u64,
    /// The time of the longest occurrence.
    #[serde(rename = "longest_ns", serialize_with = "number::span")]
    pub longest: Nanos,
    /// The begin of the longest occurrence: the events around it are the evidence.
    #[serde(rename = "longest_at_ns", serialize_with = "number::time")]
    pub longest_at: Time,
    /// The certainty of the cause.
    pub certainty: Certainty,
    /// True for unexplained time and for own code, where a hypervisor took time from the thread's CPUs [about
    /// then](Explanation::stolen).
    pub may_be_stolen: bool,
    /// The functions of the kernel that ran inside, longest first.
    pub inside: Vec<Inside>,
    /// The control group's quota that kept the thread from its CPU, or that may be used up while the thread waits, if
    /// the trace has it.
    pub quota: Option<Quota>,
    /// The threads that had the CPU while a limit kept this thread from it, longest first.
    pub beside: Vec<Behind>,
    /// The senders of an interrupt from another CPU, the most frequent first.
    pub senders: Vec<Sender>,
    /// The files whose pages the thread waited for, the longest wait first.
    pub files: Vec<ReadFile>,
    /// The wakers, if the cause is sleep; the waker that ended the longest sleep first.
    pub wakers: Vec<Woken>,
}

impl Part {
    /// Returns the sender of more than half of the interrupts.
    pub fn main_sender(&self) -> Option<&Sender> {
        self.senders.first().filter(|sender| sender.count * 2 > self.count)
    }

    /// Returns the file that caused half of the time or more.
    pub fn main_file(&self) -> Option<&ReadFile> {
        self.files.first().filter(|file| file.time.0 >= self.time.0 / 2)
    }

    /// Returns the thread that had the CPU for half of the time or more while a limit kept this one from it.
    pub fn main_beside(&self) -> Option<&Thread> {
        self.beside.first().filter(|beside| beside.time.0 >= self.time.0 / 2)?.thread.as_ref()
    }

    /// Returns the thread or the interrupt that ended most of the sleep, if the trace has it.
    pub fn waker(&self) -> Option<&Waker> {
        Some(&self.woken()?.by)
    }

    /// Returns the kind of lock that the waker held.
    pub(crate) fn lock(&self) -> Option<Lock> {
        self.woken()?.lock
    }

    fn woken(&self) -> Option<&Woken> {
        self.wakers.first().filter(|woken| woken.by != Waker::Unknown)
    }
}

/// A sender of interrupts to another CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sender {
    /// The thread or the interrupt that sends.
    pub by: Waker,
    /// The function that the CPU was to call, by its name or address; `None` if it was to reschedule.
    pub function: Option<Arc<str>>,
    /// The number of interrupts that it sent.
    pub count: u64,
}

/// A file whose pages a thread waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadFile {
    /// The device and the inode number.
    #[serde(flatten)]
    pub file: File,
    /// The thread that brought the page into memory, which may be the waiting one; `None` if the trace does not have
    /// it.
    pub by: Option<Thread>,
    /// The time of the sleeps for the file.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
}

/// A function that ran inside a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inside {
    /// The function's name or address.
    pub function: Arc<str>,
    /// The time of the function.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
}

/// A waker, and the sleeps that it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Woken {
    /// The thread or the interrupt that woke the sleeper.
    pub by: Waker,
    /// The kind of lock that the sleeper waited for and the waker held, if there was one and the trace shows it.
    pub lock: Option<Lock>,
    /// The number of sleeps that it ended.
    pub count: u64,
    /// The total time of these sleeps.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
    /// The chain of threads that the sleep waited for, if the waker is a thread: at each moment one thread, as far as
    /// it is remembered.
    pub chain: Vec<Link>,
}

/// The activities of a thread while another one slept and waited for it: the thread that woke the sleeper, or one that
/// woke a thread of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The level in the chain: 1 for the waker, 2 for a thread that woke the waker meanwhile, and so on up to 4.
    pub level: u32,
    /// The thread of this link.
    pub thread: Thread,
    /// The time in which it had a CPU, including interrupts.
    #[serde(rename = "ran_ns", serialize_with = "number::span")]
    pub ran: Nanos,
    /// The time in which it slept for a cause that is not followed: an interrupt, a timer, an unknown waker, or a fifth
    /// level.
    #[serde(rename = "slept_ns", serialize_with = "number::span")]
    pub slept: Nanos,
    /// The time in which it was runnable, but a limit kept it from its CPU, as in [`Cause::Throttled`].
    #[serde(rename = "throttled_ns", serialize_with = "number::span")]
    pub throttled: Nanos,
    /// The time in which a signal or a debugger had stopped it.
    #[serde(rename = "stopped_ns", serialize_with = "number::span")]
    pub stopped: Nanos,
    /// The time in which it was runnable and another thread ran, by thread, longest first.
    pub waited: Vec<Behind>,
}

/// The wait of a thread for a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Behind {
    /// The thread that had the CPU; the first, if others followed. `None` if the trace does not have it.
    pub thread: Option<Thread>,
    /// The time of the wait.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
}

/// The part that explains an interval. It is the part with the largest excess over its usual time, of the kind of cause
/// with the largest excess. An interval that is as long as others, or one of too few, is explained by the part that
/// took most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Main {
    /// The part's index in [`Explanation::parts`].
    pub part: usize,
    /// The part's time beyond the usual one; `None` if the part is named because it took most.
    #[serde(rename = "excess_ns", serialize_with = "number::optional_span")]
    pub excess: Option<Nanos>,
    /// The number of other parts of the kind that have a twentieth of this part's excess at least.
    pub others: usize,
    /// The time of those parts.
    #[serde(rename = "others_ns", serialize_with = "number::span")]
    pub others_time: Nanos,
}

/// An inversion of priorities: a thread of lower priority kept the explained one waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inversion {
    /// The kind of inversion.
    #[serde(flatten)]
    pub how: Inverted,
    /// The thread of lower priority.
    pub by: Thread,
    /// The time of the inversion.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
}

impl Inversion {
    /// Returns true if it can be the reason that `cause` took time.
    pub fn explains(&self, cause: &Cause) -> bool {
        match (cause, &self.how) {
            (Cause::Waiting { .. }, Inverted::Runnable) => cause.behind() == Some(&self.by),
            (Cause::Blocked { .. }, Inverted::InSyscall { .. } | Inverted::HeldUp { .. }) => true,
            _ => false,
        }
    }
}

/// The ways in which a thread of lower priority keeps the explained one waiting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Inverted {
    /// It had the CPU while the explained thread was runnable.
    Runnable,
    /// It had the CPU while the explained thread was off it in a system call that is not meant to wait.
    InSyscall {
        /// The name of the system call.
        call: Arc<str>,
    },
    /// It was to wake the explained thread, but waited for a CPU itself.
    HeldUp {
        /// The thread that it waited behind, also of lower priority than the explained one.
        behind: Thread,
    },
}

/// A migration of the thread to another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Migration {
    /// The time of the migration.
    #[serde(rename = "at_ns", serialize_with = "number::time")]
    pub at: Time,
    /// The CPU that the thread left.
    pub from: u32,
    /// The CPU that the thread moved to.
    pub to: u32,
}

/// Losses of records, summed by place and cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LossSum {
    /// The CPU on which they were lost, if the stream belongs to one.
    #[serde(serialize_with = "number::cpu")]
    pub cpu: Option<Cpu>,
    /// The process that lost them; `None` for the kernel's own events.
    #[serde(serialize_with = "number::pid")]
    pub pid: Option<Pid>,
    /// The cause of the losses.
    #[serde(serialize_with = "number::text")]
    pub cause: LossCause,
    /// The number of missing records; a minimum if `uncounted` is not 0.
    pub count: u64,
    /// The number of losses whose records could not be counted.
    pub uncounted: u64,
    /// The time after which the first of them was lost.
    #[serde(rename = "from_ns", serialize_with = "number::time")]
    pub from: Time,
    /// The time before which the last of them was lost.
    #[serde(rename = "to_ns", serialize_with = "number::time")]
    pub to: Time,
}

/// The share of one cause in all ranked intervals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ranked {
    /// The cause of the time.
    pub cause: Cause,
    /// The total time of the cause.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
    /// The time beyond the usual one, summed over the intervals.
    #[serde(rename = "excess_ns", serialize_with = "number::span")]
    pub excess: Nanos,
    /// The number of occurrences.
    pub count: u64,
    /// The number of intervals in which it occurred.
    pub intervals: u64,
    /// The time of the longest occurrence.
    #[serde(rename = "longest_ns", serialize_with = "number::span")]
    pub longest: Nanos,
    /// The begin of the interval with the longest occurrence.
    #[serde(rename = "longest_at_ns", serialize_with = "number::time")]
    pub longest_at: Time,
}

/// Contradictions of one kind in the records about fibers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contradicted {
    /// The identifier of the kind.
    pub kind: &'static str,
    /// The number of events that show such a contradiction first.
    pub count: u64,
    /// The time of the first of them.
    #[serde(rename = "at_ns", serialize_with = "number::time")]
    pub at: Time,
    /// The process of the first, if the trace has it.
    #[serde(serialize_with = "number::pid")]
    pub pid: Option<Pid>,
    /// The text of the first.
    pub text: String,
}

/// The switches on a CPU that the trace lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MissingSwitches {
    /// The number of the CPU.
    pub cpu: u32,
    /// The least possible number of missing switches.
    pub count: u64,
}

/// A stage of a request: from one event with its key to the next one. It belongs to the thread of the event that ends
/// it. If the event before is of another thread, this thread took over the request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// The event that begins it.
    pub from: Arc<str>,
    /// The event that ends it.
    pub to: Arc<str>,
    /// The explanation of its time by its own thread.
    #[serde(flatten)]
    pub explanation: Explanation,
}
