//! Contradictions in the records about fibers.

use sordino_event::{Pid, Tid, Time};
use std::fmt;

/// A record about a fiber that contradicts earlier records, or does not follow from them.
///
/// The facts in the record hold from then on; the facts that it makes doubtful are unknown from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The time of the record.
    pub time: Time,
    /// The process that recorded it, if the trace has it.
    pub pid: Option<Pid>,
    /// The thread that recorded it, or that ended, if the trace has it.
    pub tid: Option<Tid>,
    /// The two facts that do not fit.
    pub what: Inconsistency,
}

/// The kinds of contradictions in records about fibers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Inconsistency {
    /// No record has made this fiber: it is older than the recording, or its library left the record out.
    Unmade {
        /// The number of the fiber.
        fiber: u64,
    },
    /// A fiber is made whose number belongs to a fiber that has not ended.
    Reused {
        /// The number of the fiber.
        fiber: u64,
    },
    /// A thread has a fiber that another thread has not left.
    OnTwoThreads {
        /// The number of the fiber.
        fiber: u64,
        /// The thread that has not left the fiber.
        other: Tid,
    },
    /// A switch leaves another fiber than the one that was on the thread.
    OtherFiber {
        /// The fiber that was on the thread, 0 for none.
        mounted: u64,
        /// The fiber that leaves by the record, 0 for none.
        leaves: u64,
    },
    /// A thread enters a scheduler while it has a fiber.
    EnteredInside {
        /// The number of the fiber.
        fiber: u64,
    },
    /// A thread leaves its scheduler while it has a fiber.
    LeftInside {
        /// The number of the fiber.
        fiber: u64,
    },
    /// A thread ended while it had a fiber.
    ThreadEnded {
        /// The number of the fiber.
        fiber: u64,
    },
    /// An event of `sordino_fiber` lacks a field, its process or its thread, or has 0 as the number of a fiber.
    Malformed,
}

impl Inconsistency {
    /// Returns the identifier of the kind, which stays the same from one version to the next.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Unmade { .. } => "unmade",
            Self::Reused { .. } => "reused",
            Self::OnTwoThreads { .. } => "on_two_threads",
            Self::OtherFiber { .. } => "other_fiber",
            Self::EnteredInside { .. } => "entered_inside",
            Self::LeftInside { .. } => "left_inside",
            Self::ThreadEnded { .. } => "thread_ended",
            Self::Malformed => "malformed",
        }
    }
}

/// Prints the contradiction without its time, its process and its thread: `no record made fiber 7`.
impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unmade { fiber } => write!(f, "no record made fiber {fiber}, known from here on"),
            Self::Reused { fiber } => write!(f, "fiber {fiber} is made again, but has not ended"),
            Self::OnTwoThreads { fiber, other } => {
                write!(f, "fiber {fiber} is here, but has not left thread {other}")
            }
            Self::OtherFiber { mounted: 0, leaves } => {
                write!(f, "fiber {leaves} leaves, but no fiber was on the thread")
            }
            Self::OtherFiber { mounted, leaves: 0 } => {
                write!(f, "no fiber leaves, but fiber {mounted} was on the thread")
            }
            Self::OtherFiber { mounted, leaves } => {
                write!(f, "fiber {leaves} leaves, but fiber {mounted} was on the thread")
            }
            Self::EnteredInside { fiber } => {
                write!(f, "the thread enters a scheduler, but fiber {fiber} was on it")
            }
            Self::LeftInside { fiber } => {
                write!(f, "the thread leaves its scheduler, but fiber {fiber} was on it")
            }
            Self::ThreadEnded { fiber } => write!(f, "the thread ended, but fiber {fiber} was on it"),
            Self::Malformed => f.write_str("an event of sordino_fiber lacks a field, or calls a fiber 0"),
        }
    }
}
