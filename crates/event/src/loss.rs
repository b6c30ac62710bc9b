//! Loss is an event: where records are missing, how many, and why.

use crate::{Cpu, Pid, Time};
use std::fmt;

/// Why records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The ring was full: the collector did not keep up.
    RingFull,
    /// The record was larger than a sub-buffer takes.
    TooLarge,
    /// The tracepoint was hit after the program had registered it and before the recorder had answered.
    Unanswered,
    /// The kernel's buffer was overwritten before it was read.
    KernelOverrun,
    /// The trace says that records are missing, not why (written by another tracer).
    Discarded,
    /// A writer died between reserving space and filling it.
    Unfinished,
    /// The trace's bytes do not make sense here; the rest of the packet was skipped.
    Corrupt,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::RingFull => "ring full",
            Self::TooLarge => "record too large",
            Self::Unanswered => "hit before the recorder's answer",
            Self::KernelOverrun => "kernel buffer overrun",
            Self::Discarded => "discarded by the tracer",
            Self::Unfinished => "writer died before finishing",
            Self::Corrupt => "bytes do not make sense",
        })
    }
}

/// Records that are missing from one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// They were lost after this.
    pub from: Time,
    /// They were lost before this.
    pub to: Time,
    /// On this CPU, if the stream belongs to one.
    pub cpu: Option<Cpu>,
    /// By this process; `None` for the kernel's own events.
    pub pid: Option<Pid>,
    /// How many; `None` if nobody could count them.
    pub count: Option<u64>,
    /// Why.
    pub cause: Cause,
}

/// What a stream of a trace yields next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An event, decoded into the [`Event`](crate::Event) that the stream was handed. Within one stream, time
    /// never goes back.
    Event,
    /// Records are missing here: after the event yielded before, before the one yielded next.
    Loss(Loss),
    /// Nothing follows.
    End,
}
