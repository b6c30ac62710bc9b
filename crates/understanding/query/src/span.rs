//! A stretch of time that a measure finds.

use sordino_event::{Cpu, Nanos, Tid, Time};
use std::sync::Arc;

/// A stretch of time of a thread or a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The begin of the stretch.
    pub from: Time,
    /// The end of the stretch.
    pub to: Time,
    /// The thread whose time it is, or in whose time an interrupt came.
    pub tid: Option<Tid>,
    /// The CPU on which it ended.
    pub cpu: Option<Cpu>,
    /// The name of the interrupt or the system call.
    pub name: Option<Arc<str>>,
    /// The parts of the time, which add up to it, as [`Measure::parts`](crate::Measure::parts) names them; empty if
    /// the measure has none.
    pub parts: Vec<Nanos>,
}

impl Span {
    /// Returns the length of the stretch.
    pub fn length(&self) -> Nanos {
        self.to - self.from
    }
}

/// A result of following the trace: a span, or one that is not wholly known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Whole(Span),
    /// The thread has had the CPU since before the recording.
    Cut(Span),
    /// Records are missing, or the begin was not recorded.
    Broken,
}
