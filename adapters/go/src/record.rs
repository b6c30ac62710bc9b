//! Events about fibers, before they are written.

use sordino_timeline::{FiberSwitchReason, PresentState};
use std::sync::Arc;

/// An event of the provider `sordino_fiber`, without its time and thread. Numbers are those of goroutines, 0 for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FiberRecord {
    Enter,
    New { fiber: u64, name: Option<Arc<str>> },
    Present { fiber: u64, name: Option<Arc<str>>, state: PresentState },
    Switch { from: u64, to: u64, why: FiberSwitchReason, on: Option<Arc<str>> },
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
