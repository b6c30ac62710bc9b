//! The state of the kernel's trace while it is put together.

use crate::error::Error;
use sordino_ctf::Uuid;
use sordino_event::Ticks;
use sordino_tracefs::{EventConversion, Format};
use std::thread::JoinHandle;

/// The kernel's trace while it is put together.
#[derive(Debug)]
pub(crate) struct KernelTrace {
    pub(super) uuid: Uuid,
    pub(super) events: Vec<(Format, EventConversion)>,
    /// True if kernel functions are to be named: the running kernel is the recorded one, and the recording is kept.
    pub(super) names: bool,
    /// The timestamp of the records that are written once, such as the state dump.
    pub(super) begin_ticks: Ticks,
    /// True if records missing before a CPU's first event were overwritten, not lost.
    pub(super) overwrite: bool,
    /// The thread that takes the state dump; it returns notes on missing parts.
    pub(super) dump: Option<JoinHandle<Result<Vec<String>, Error>>>,
}
