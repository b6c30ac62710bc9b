//! The wait for room in a full ring.

use super::TracedThread;
use crate::area::slots::Rings;

/// The error of a ring without room for a record, if its session makes writers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The longest time to wait, in microseconds; all ones: without a limit.
    pub block: u32,
}

/// The treatment of a record for which a ring has no room, if the session makes writers
/// [wait](crate::area::control::AttachOptions::block). In any other session, the record is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfFull {
    /// The record is counted as lost.
    Lose,
    /// Nothing is counted: the caller gets [`Full`], and tries again later.
    Return,
}

/// Continues after a try that found no room: waits, as [`TracedThread::wait`] does, and calls `try_write`, until that
/// has written the record or counted it as lost. If there is no wait any more, the record is lost.
#[inline(always)]
pub(super) fn until_room<T: TracedThread>(
    rings: Rings,
    thread: T,
    full: Full,
    try_write: impl Fn(IfFull) -> Result<(), Full>,
) {
    let (mut wait, mut done) = (thread.wait(rings), Err(full));
    while let Err(full) = done {
        done = try_write(if wait(full) { IfFull::Return } else { IfFull::Lose });
    }
}
