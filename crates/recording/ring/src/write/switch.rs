//! The sub-buffer switch in a CPU's ring, right behind the fast path.

use super::payload::{PayloadSource, Record};
use super::wake::wake;
use super::{TracedThread, retry};
use crate::layout::{PACKET_HEADER, RingHeader};
use crate::number::Tag;
use crate::offset::{Head, fits_alone};
use crate::view::Ring;
use sordino_event::Ticks;
use sordino_percpu::primitive::Relaxed;
use sordino_percpu::{Commit, Outcome, Payload, publish_switching};

/// Writes one record with a sub-buffer switch, since the fast path found the sub-buffer full. Its parameters are in
/// registers then, and stay there.
///
/// # Safety
/// The requirements of [`write()`](super::write()) hold; `timestamp` is the cycle counter, read after `head`.
#[cold]
#[inline(never)]
pub(super) unsafe fn write_switching<P: PayloadSource, T: TracedThread>(
    tag: Tag,
    ring: *const RingHeader,
    payload: P,
    head: Head,
    timestamp: Ticks,
    thread: T,
) {
    // SAFETY: the caller guarantees a ring of an enabled slot, a readable payload, and a `timestamp` read after `head`.
    if !unsafe { switch(ring, payload.record(tag), head, timestamp) } {
        // SAFETY: the caller guarantees a ring of an enabled slot, a readable payload, and a `timestamp` read after
        // `head`.
        unsafe { retry::write_again(tag, ring, payload, head, timestamp, thread) };
    }
}

/// Writes `record` with a sub-buffer switch, if the sub-buffer of `head` is full. Returns true if the record was
/// written. Otherwise nothing has happened: the sub-buffer was not the reason, there is no room, or the thread was
/// interrupted.
///
/// A path of its own, since every program needs it: at most 60 instructions more than the fast path, not over 400.
///
/// Real-time: no system call but for the wake-up if the session requested it, no lock, no allocation; one try, bounded
/// by the record's length.
///
/// # Safety
/// The requirements of [`write()`](super::write()) hold; `timestamp` is the cycle counter, read after `head`.
#[inline(always)]
unsafe fn switch<P: Payload>(
    ring: *const RingHeader,
    record: Record<P>,
    head: Head,
    timestamp: Ticks,
) -> bool {
    // SAFETY: the caller guarantees that `ring` is a mapped ring header (this function's # Safety); all its fields are
    // atomics.
    let header = unsafe { &*ring };
    let record_size = record.encoded_length.record_size();
    let view = Ring::open(header);
    if !fits_alone(record_size, view.other_bits) {
        return false;
    }
    // SAFETY: the collector mapped the table before it enabled the event.
    let Ok((seqno, offset)) = (unsafe { view.enter(head, |_| true) }) else { return false };
    let lost = header.lost.load(Relaxed);
    let commit = Commit {
        cpu: header.cpu.load(Relaxed),
        head: &header.head,
        expected: head.0,
        new: Head::entering(seqno, offset).0 + record_size.0,
        destination: view.data(offset.after(PACKET_HEADER as u32)),
        timestamp: timestamp.0,
        tag: record.tag.with_lost(lost).0,
        payload: record.payload,
    };
    // SAFETY: the record fits into an empty sub-buffer (`fits_alone`, checked above). The next sub-buffer is free: the
    // reader put it or a writer claimed it (view:B, view:C). The three words go to the packet header of the sub-buffer
    // that the head is in, which is the writers' until the head leaves it.
    let outcome = unsafe { publish_switching(&commit, view.switch(head, lost)) };
    if outcome == Outcome::Committed {
        wake(header);
    }
    outcome == Outcome::Committed
}
