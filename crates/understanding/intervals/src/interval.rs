//! An interval, and its owner.

use crate::number;
use serde::Serialize;
use sordino_event::{Cpu, Nanos, Pid, Tid, Time};
use sordino_timeline::{FiberId, ThreadOrFiber};

/// An interval between two events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Interval {
    /// The time of its begin.
    #[serde(rename = "begin_ns", serialize_with = "number::time")]
    pub begin: Time,
    /// The time of its end.
    #[serde(rename = "end_ns", serialize_with = "number::time")]
    pub end: Time,
    /// The thread whose time it took: the one that ended it, else the one that began it.
    #[serde(serialize_with = "number::tid")]
    pub tid: Tid,
    /// The process of that thread, if known.
    #[serde(serialize_with = "number::pid")]
    pub pid: Option<Pid>,
    /// The CPU on which it began, if known.
    #[serde(serialize_with = "number::cpu")]
    pub begin_cpu: Option<Cpu>,
    /// The CPU on which it ended, if known.
    #[serde(serialize_with = "number::cpu")]
    pub end_cpu: Option<Cpu>,
    /// The fiber whose time it took, if that thread had one.
    #[serde(skip)]
    pub fiber: Option<FiberId>,
    /// The part of the time that recording took, if it is subtracted.
    #[serde(rename = "overhead_ns", serialize_with = "number::span", skip_serializing_if = "Nanos::is_zero")]
    pub overhead: Nanos,
}

impl Interval {
    /// Returns the length of the interval, without the overhead that is subtracted.
    pub fn length(&self) -> Nanos {
        self.end - self.begin - self.overhead
    }

    /// Returns the thread or the fiber whose time it took.
    pub fn owner(&self) -> ThreadOrFiber {
        self.fiber.map_or(ThreadOrFiber::Thread(self.tid), ThreadOrFiber::Fiber)
    }
}
