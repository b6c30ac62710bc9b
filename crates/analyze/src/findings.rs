//! What was found, as data.

use crate::cause::{Cause, Lock, Thread, Waker};
use crate::ends::EventFields;
use crate::files::File;
use crate::quota::Quota;
use crate::route::Stage;
use crate::table::Certainty;
use crate::{Broken, Choice, Interval, Statistics, Unpaired, number};
use serde::Serialize;
use sordino_event::{Cause as LossCause, Cpu, Nanos, Pid, Time};
use std::sync::Arc;

/// The version of what [`Findings`] and [`Explanation`] look like when serialized.
pub const SCHEMA_VERSION: u32 = 2;

/// What took the time in the intervals of a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// `sordino-findings`.
    pub schema: &'static str,
    /// [`SCHEMA_VERSION`].
    pub version: u32,
    /// Which intervals, as [`Rule`](crate::Rule) is written.
    pub rule: String,
    /// Why these, if nobody named them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// How long all of them are.
    pub statistics: Statistics,
    /// Intervals longer than this are in the ranking.
    #[serde(rename = "limit_ns", serialize_with = "number::span")]
    pub limit: Nanos,
    /// How many of them there are; with more than 100,000, only the longest were looked at.
    pub ranked: u64,
    /// Whether there were more.
    pub more: bool,
    /// The longest, longest first.
    pub intervals: Vec<Explanation>,
    /// The causes in the ranked intervals, the one with the largest excess first; the one with the longest time if there are too few
    /// intervals to know usual times.
    pub ranking: Vec<Ranked>,
    /// What was no interval.
    pub unpaired: Unpaired,
    /// What may be no single interval.
    pub broken: Broken,
    /// All records that are missing in the trace.
    pub lost: Vec<Lost>,
    /// Events that were out of order in their own source.
    pub disorders: u64,
    /// The switches between threads that the kernel did not record, of each CPU that lacks some: other events show that they happened.
    pub missing_switches: Vec<MissingSwitches>,
    /// Which of the kernel's events the trace lacks; they might have explained more.
    pub missing: Vec<Missing>,
}

/// What took the time in one interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// When and where.
    #[serde(flatten)]
    pub interval: Interval,
    /// Whose time it was.
    pub thread: Thread,
    /// How long.
    #[serde(rename = "length_ns", serialize_with = "number::span")]
    pub length: Nanos,
    /// The fields of the event that begins it.
    pub begin_fields: EventFields,
    /// The fields of the event that ends it.
    pub end_fields: EventFields,
    /// The stages of a request that went from thread to thread, in their order, which add up to the length; empty if it did not, or nothing
    /// shows it. The parts are those of the thread that ended it.
    pub stages: Vec<Stage>,
    /// Its parts, longest first. They add up to the length.
    pub parts: Vec<Part>,
    /// The part that made it long, or that took most of it; `None` if no part took time.
    pub main: Option<Main>,
    /// Where a thread of lower priority kept this one waiting, longest first; none that took less than a twentieth of what made the interval
    /// long.
    pub inversions: Vec<Inversion>,
    /// From which CPU to which; the first 16.
    pub migrations: Vec<Migration>,
    /// How many migrations there were.
    pub migrations_count: u64,
    /// Records that are missing within the interval: with any, the explanation is incomplete.
    pub lost: Vec<Lost>,
    /// What the hypervisor took of its CPUs about that time: a part of what is unexplained.
    pub stolen: Vec<Stolen>,
}

/// Time that the hypervisor took of a CPU. The kernel tells how long, in hundredths of a second, and not when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stolen {
    /// The CPU's number.
    pub cpu: u32,
    /// How long.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
    /// At some time after this.
    #[serde(rename = "from_ns", serialize_with = "number::time")]
    pub from: Time,
    /// And before this.
    #[serde(rename = "to_ns", serialize_with = "number::time")]
    pub to: Time,
}

/// What one cause took of an interval; net: what interrupted it is a part of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// What.
    pub cause: Cause,
    /// How long in all.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
    /// The time that it usually takes: the median over a sample of the intervals, 0 if they are too few.
    #[serde(rename = "usual_ns", serialize_with = "number::span")]
    pub usual: Nanos,
    /// The share of the time that interrupts took to enter and leave beyond their events: an estimate.
    #[serde(rename = "entry_ns", serialize_with = "number::span")]
    pub entry: Nanos,
    /// How many times it occurred.
    pub count: u64,
    /// The longest occurrence.
    #[serde(rename = "longest_ns", serialize_with = "number::span")]
    pub longest: Nanos,
    /// When that begins: the events about that time are the evidence.
    #[serde(rename = "longest_at_ns", serialize_with = "number::time")]
    pub longest_at: Time,
    /// How certain the cause is.
    pub certainty: Certainty,
    /// The functions of the kernel that ran inside, longest first.
    pub inside: Vec<Inside>,
    /// The quota that is used up, if a control group's limit kept the thread from its CPU and the trace tells it.
    pub quota: Option<Quota>,
    /// Who had the CPU while a limit kept the thread from it, longest first.
    pub beside: Vec<Behind>,
    /// The senders of an interrupt from another CPU, the most frequent first.
    pub senders: Vec<Sender>,
    /// The files whose pages it waited for, the longest first.
    pub files: Vec<ReadFile>,
    /// Who ended it, if it was sleep; who ended the longest first.
    pub wakers: Vec<Woken>,
}

/// A sender of interrupts to another CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sender {
    /// The thread or the interrupt that sends.
    pub by: Waker,
    /// The function that the CPU was to call, by its name or address; `None` if it was to look which thread it had to run.
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
    /// The thread that brought the page into memory, itself or another one; `None` if the trace does not tell.
    pub by: Option<Thread>,
    /// The time of the sleeps for it.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
}

/// A function that ran inside a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inside {
    /// Its name or address.
    pub function: Arc<str>,
    /// How long.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
}

/// Who ended a sleep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Woken {
    /// The thread or the interrupt that sends.
    pub by: Waker,
    /// Whether the sleep was for a lock that the waker held, as far as the trace tells.
    pub lock: Option<Lock>,
    /// How many times.
    pub count: u64,
    /// The time of the sleeps that it ended.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
    /// What the sleep waited for, if the waker is a thread: at each moment one thread, as far as it is remembered.
    pub chain: Vec<Link>,
}

/// What a thread did while another one slept and waited for it: the one that woke that thread, or one that woke a thread of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// 1 for the waker, 2 for a thread that woke the waker meanwhile, and so on up to 4.
    pub level: u32,
    /// Which thread.
    pub thread: Thread,
    /// It had a CPU; interrupts included.
    #[serde(rename = "ran_ns", serialize_with = "number::span")]
    pub ran: Nanos,
    /// It slept, and what ended that is not followed: an interrupt, a timer, something that is not known, or a fifth level.
    #[serde(rename = "slept_ns", serialize_with = "number::span")]
    pub slept: Nanos,
    /// It could have run, but a limit kept it from its CPU, as of [`Cause::Throttled`].
    #[serde(rename = "throttled_ns", serialize_with = "number::span")]
    pub throttled: Nanos,
    /// It was stopped by a signal or a debugger.
    #[serde(rename = "stopped_ns", serialize_with = "number::span")]
    pub stopped: Nanos,
    /// It could have run and another thread did, longest first.
    pub waited: Vec<Behind>,
}

/// A thread waited for a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Behind {
    /// Behind which thread; the first, if others followed. `None` if the trace does not tell.
    pub thread: Option<Thread>,
    /// How long.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
}

/// The part that explains an interval: of the kind of cause that exceeds its usual time most, the part that does. An interval that is as long
/// as others, or one of too few, is explained by the part that took most.
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

/// A thread of lower priority kept the explained one waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inversion {
    /// How.
    #[serde(flatten)]
    pub how: Inverted,
    /// Which thread.
    pub by: Thread,
    /// How long.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
}

/// How a thread of lower priority kept the explained one waiting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Inverted {
    /// It had the CPU while the explained thread could have run.
    Runnable,
    /// It had the CPU while the explained thread was off it inside a system call that is not made to wait.
    InSyscall {
        /// Which.
        call: Arc<str>,
    },
    /// It was to wake the explained thread, but waited for a CPU itself.
    HeldUp {
        /// Behind which thread, that of lower priority than the explained one too.
        behind: Thread,
    },
}

/// The thread goes to another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Migration {
    /// When.
    #[serde(rename = "at_ns", serialize_with = "number::time")]
    pub at: Time,
    /// Where it was.
    pub from: u32,
    /// Where it is now.
    pub to: u32,
}

/// Records that are missing, by where and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// On this CPU, if the stream belongs to one.
    #[serde(serialize_with = "number::cpu")]
    pub cpu: Option<Cpu>,
    /// By this process; `None` for the kernel's own events.
    #[serde(serialize_with = "number::pid")]
    pub pid: Option<Pid>,
    /// Why.
    #[serde(serialize_with = "number::text")]
    pub cause: LossCause,
    /// How many; at least, if `uncounted` is not 0.
    pub count: u64,
    /// In how many places nobody could count them.
    pub uncounted: u64,
    /// After this, in the first place.
    #[serde(rename = "from_ns", serialize_with = "number::time")]
    pub from: Time,
    /// Before this, in the last.
    #[serde(rename = "to_ns", serialize_with = "number::time")]
    pub to: Time,
}

/// What a cause took of all ranked intervals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ranked {
    /// What.
    pub cause: Cause,
    /// How long in all.
    #[serde(rename = "time_ns", serialize_with = "number::span")]
    pub time: Nanos,
    /// The time beyond the usual one, summed over the intervals.
    #[serde(rename = "excess_ns", serialize_with = "number::span")]
    pub excess: Nanos,
    /// How many times it occurred.
    pub count: u64,
    /// In how many intervals.
    pub intervals: u64,
    /// The longest occurrence.
    #[serde(rename = "longest_ns", serialize_with = "number::span")]
    pub longest: Nanos,
    /// When the interval begins in which that is.
    #[serde(rename = "longest_at_ns", serialize_with = "number::time")]
    pub longest_at: Time,
}

/// Switches of a CPU that the trace lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MissingSwitches {
    /// The CPU's number.
    pub cpu: u32,
    /// The least number of missing switches.
    pub count: u64,
}

/// Events of the kernel that the trace lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// Who has which CPU.
    Switches,
    /// Who wakes whom.
    Wakeups,
    /// Interrupts of devices.
    Irqs,
    /// Softirqs.
    Softirqs,
    /// The local timer and other interrupts of the CPU itself.
    Vectors,
    /// System calls.
    Syscalls,
    /// Page faults.
    Faults,
    /// Non-maskable interrupts.
    Nmis,
    /// Signals that are delivered.
    Signals,
    /// Moves of threads to other CPUs.
    Migrations,
}
