//! Writing to the shared ring of a slot.

use super::payload::Record;
use super::room::{Full, IfFull, until_room};
use super::wake::wake;
use super::{ReadClock, TracedThread};
use crate::area::slots::Rings;
use crate::commit;
use sordino_percpu::current_cpu;

/// Writes `record` to the shared ring of `rings`, or counts it as lost: for threads whose sections the kernel does not
/// restart.
///
/// Real-time: no system call but for the wake-up if the session requested it, no lock, no allocation; bounded by the
/// tries to reserve and the record's length. Waits only if [`TracedThread::wait`] does.
///
/// # Safety
/// The requirements of [`write()`](super::write()) hold for all of `rings`.
#[cold]
#[inline(never)]
pub(super) unsafe fn write_shared<T: TracedThread>(rings: Rings, record: &Record, thread: T) {
    // SAFETY: the caller guarantees a slot that a collector set up, and a readable payload (this function's # Safety).
    if let Err(full) = unsafe { try_shared(rings, record, thread, IfFull::Return) } {
        // SAFETY: a slot that a collector set up, and a readable payload, as the caller guarantees.
        unsafe { write_shared_waiting(rings, record, thread, full) };
    }
}

/// Continues [`write_shared`] when there was no room; a function of its own as `retry_waiting` is.
///
/// # Safety
/// The requirements of [`write_shared`] hold.
#[cold]
#[inline(never)]
unsafe fn write_shared_waiting<T: TracedThread>(rings: Rings, record: &Record, thread: T, full: Full) {
    // SAFETY: the caller guarantees a slot that a collector set up, and a readable payload (this function's # Safety).
    until_room(rings, thread, full, |if_full| unsafe { try_shared(rings, record, thread, if_full) });
}

/// Tries once to write `record` to the shared ring of `rings`.
///
/// # Errors
/// [`Full`] if there is no room, only with [`IfFull::Return`].
///
/// # Safety
/// The requirements of [`write()`](super::write()) hold for all of `rings`.
#[cold]
#[inline(never)]
pub(super) unsafe fn try_shared<S: ReadClock>(
    rings: Rings,
    record: &Record,
    clocks: S,
    if_full: IfFull,
) -> Result<(), Full> {
    let cpu = current_cpu();
    // SAFETY: `cpu < rings.cpus` (evaluated first), and the caller guarantees mapped headers for all of `rings`.
    if cpu < rings.cpus && unsafe { rings.get(cpu) }.is_left_out() {
        return Ok(());
    }
    // SAFETY: index `rings.cpus` is the shared ring's; the caller guarantees mapped headers for all of `rings`.
    let ring = unsafe { rings.get(rings.cpus) };
    // SAFETY: the last ring is the shared one; the caller guarantees a slot that a collector set up, and a readable
    // payload.
    let left = unsafe { commit::write(ring, record, clocks, if_full) }?;
    if left {
        wake(ring);
    }
    Ok(())
}
