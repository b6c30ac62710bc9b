//! The wait for room in a full ring.

use super::{Rings, TracedThread};

/// A ring has no room for a record, and its session asks writers to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The longest time to wait, in microseconds; all ones: without a limit.
    pub block: u32,
}

/// The treatment of a record for which a ring has no room, if the session [asks](crate::control::AttachOptions::block)
/// writers to wait. Without that request, the record is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfFull {
    /// The record is counted as lost.
    Lose,
    /// Nothing is counted: the caller gets [`Full`], and tries again later.
    Tell,
}

/// Calls `try_write` until it has written the record or counted it as lost. As long as there is no room, the thread
/// waits in between, as [`TracedThread::wait`] does; then the record is lost.
#[inline(always)]
pub(super) fn until_done<T: TracedThread>(
    rings: Rings,
    thread: T,
    try_write: impl Fn(IfFull) -> Result<(), Full>,
) {
    if let Err(full) = try_write(IfFull::Tell) {
        until_room(rings, thread, full, try_write);
    }
}

/// Waits for room, and then calls `try_write`, until it has written the record or counted it as lost.
#[cold]
#[inline(never)]
fn until_room<T: TracedThread>(
    rings: Rings,
    thread: T,
    full: Full,
    try_write: impl Fn(IfFull) -> Result<(), Full>,
) {
    let (mut wait, mut done) = (thread.wait(rings), Err(full));
    while let Err(full) = done {
        done = try_write(if wait(full) { IfFull::Tell } else { IfFull::Lose });
    }
}
