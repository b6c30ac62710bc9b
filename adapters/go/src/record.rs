//! Events about fibers, before they are written.

use std::sync::Arc;

/// The reason for a switch; the numbers are those of the field `why`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum GoSwitchReason {
    Unknown = 0,
    Yielded = 1,
    SliceOver = 2,
    Blocked = 3,
    Ended = 4,
    Resumed = 5,
}

/// The state of a goroutine that is older than the trace; the numbers are those of the field `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum OlderState {
    /// The trace ends here.
    Unknown = 0,
    /// The record's thread has it.
    Mounted = 1,
    Ready = 2,
    Blocked = 3,
}

/// An event of the provider `sordino_fiber`, without its time and thread. Numbers are those of goroutines, 0 for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FiberRecord {
    Enter,
    New { fiber: u64, name: Option<Arc<str>> },
    Present { fiber: u64, name: Option<Arc<str>>, state: OlderState },
    Switch { from: u64, to: u64, why: GoSwitchReason, on: Option<Arc<str>> },
    End { fiber: u64 },
    Wake { fiber: u64, by: u64 },
    Rename { fiber: u64, name: Arc<str> },
}

/// An event with its time, in units of 64 ns, and its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimedRecord {
    pub(crate) time: u64,
    pub(crate) thread: i32,
    pub(crate) what: FiberRecord,
}
