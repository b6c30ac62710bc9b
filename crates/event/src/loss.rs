//! Losses: gaps in a stream, with their place, size and cause.

use crate::{Cpu, Pid, Time};
use std::fmt;
use std::sync::Arc;

/// The cause of a gap in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LossCause {
    /// The ring was full: the collector did not keep up.
    RingFull,
    /// The record did not fit into a sub-buffer.
    TooLarge,
    /// The tracepoint was hit after the program had registered it and before the recorder had answered.
    Unanswered,
    /// The kernel's buffer was overwritten before it was read.
    KernelOverrun,
    /// The trace reports missing records without a cause (written by another tracer).
    Discarded,
    /// A writer died between reserving space and filling it.
    Unfinished,
    /// The trace's bytes are invalid here; the rest of the packet was skipped.
    Corrupt,
    /// Nothing recorded here: one recording of the host had ended, and the next one had not begun.
    NotRecorded,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::RingFull => "ring full",
            Self::TooLarge => "record too large",
            Self::Unanswered => "hit before the recorder's answer",
            Self::KernelOverrun => "kernel buffer overrun",
            Self::Discarded => "discarded by the tracer",
            Self::Unfinished => "writer died before finishing",
            Self::Corrupt => "bytes do not make sense",
            Self::NotRecorded => "no recording has this time",
        })
    }
}

/// Records that are missing from one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The time after which the records were lost.
    pub from: Time,
    /// The time before which the records were lost.
    pub to: Time,
    /// The CPU on which they were lost, if the stream belongs to one.
    pub cpu: Option<Cpu>,
    /// The process that lost them; `None` for the kernel's own events.
    pub pid: Option<Pid>,
    /// The number of missing records; `None` if it could not be counted.
    pub count: Option<u64>,
    /// The cause of the loss.
    pub cause: LossCause,
    /// The place of invalid bytes: the file, which may have any name, the stream, the packet, and the offset in the
    /// file.
    pub place: Option<Arc<str>>,
}

/// The next item of a trace's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An event, decoded into the [`Event`](crate::Event) that was passed to the stream. Within one stream, time never
    /// goes back.
    Event,
    /// Records are missing here, between the previous event and the next.
    Loss(Loss),
    /// The end of the stream.
    End,
}
