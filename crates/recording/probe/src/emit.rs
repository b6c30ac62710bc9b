//! The path of a hit of an enabled tracepoint.

use crate::point::Tracepoint;
use crate::{MAX_PAYLOAD, long, program};
use sordino_percpu::{Bytes, Payload, Words, thread};
use sordino_ring::enable::EnableMask;
use sordino_ring::layout::RingHeader;
use sordino_ring::position::EncodedLength;
use sordino_ring::write::{self, Attempt, ReadClock, Record, TimestampClock, Unwritten};

/// The clocks that give records their timestamps.
#[derive(Clone, Copy)]
pub(crate) struct Clocks;

impl ReadClock for Clocks {
    #[inline(always)]
    fn cycles(self) -> u64 {
        sordino_clock::cycles()
    }

    fn cycles_in_order(self) -> u64 {
        sordino_clock::cycles_in_order()
    }

    fn monotonic(self) -> u64 {
        sordino_clock::nanoseconds(sordino_clock::Clock::Monotonic)
    }
}

/// A record's payload, in two words.
///
/// # Safety
/// `record` returns a payload of as many bytes as its encoded length gives, and `in_memory` passes the same one.
pub unsafe trait PayloadSource: Copy {
    /// The payload's form for the restartable section.
    type Payload: Payload;

    /// Returns the record with this tag.
    fn record(self, tag: u64) -> Record<Self::Payload>;

    /// Calls `go` with the payload in memory.
    fn in_memory<T>(self, go: impl FnOnce(Staged) -> T) -> T;
}

/// A payload in memory, of which `encoded_length.copied()` bytes are readable.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// Address of the first byte.
    pub from: *const u8,
    /// The payload's encoded length.
    pub encoded_length: EncodedLength,
}

impl Staged {
    /// The payload; `None` for one that no ring has room for, which has no bytes.
    ///
    /// # Safety
    /// The payload stays readable, and unchanged, for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn payload<'a>(self) -> Option<&'a [u8]> {
        let length = self.encoded_length.payload();
        // SAFETY: `length` is at most the number of copied bytes, which are readable; the caller guarantees that they
        // stay so and unchanged.
        (length <= MAX_PAYLOAD).then(|| unsafe { std::slice::from_raw_parts(self.from, length) })
    }
}

// SAFETY: the payload has `encoded_length.copied()` bytes, as the record's encoded length says; `in_memory` passes the value
// itself.
unsafe impl PayloadSource for Staged {
    type Payload = Bytes;

    #[inline(always)]
    fn record(self, tag: u64) -> Record {
        let payload = Bytes { from: self.from, length: self.encoded_length.copied() };
        Record { tag, payload, encoded_length: self.encoded_length }
    }

    #[inline(always)]
    fn in_memory<T>(self, go: impl FnOnce(Staged) -> T) -> T {
        go(self)
    }
}

/// Two words in registers: 11.3 ns instead of 12.9 by way of the stack.
// SAFETY: two words are 16 bytes, as the encoded length says; `in_memory` passes the same words.
unsafe impl PayloadSource for Words {
    type Payload = Self;

    #[inline(always)]
    fn record(self, tag: u64) -> Record<Self> {
        Record { tag, payload: self, encoded_length: EncodedLength::of(16) }
    }

    #[inline(always)]
    fn in_memory<T>(self, go: impl FnOnce(Staged) -> T) -> T {
        let words = [self.0, self.1];
        go(Staged { from: words.as_ptr().cast(), encoded_length: EncodedLength::of(16) })
    }
}

/// Writes one record to every session of `enabled`.
///
/// Real-time: see the crate's documentation.
///
/// # Safety
/// `content` is laid out as the tracepoint's fields are declared and, if it is [`Staged`], readable. `enabled` is the
/// enable word that [`Tracepoint::enabled`] returned.
#[inline(always)]
pub unsafe fn emit<C: PayloadSource>(point: &Tracepoint, enabled: u64, content: C) {
    let mask = EnableMask(enabled);
    if !mask.is_one() {
        // SAFETY: the caller guarantees a matching, readable payload and an enable word of this tracepoint (this
        // function's # Safety).
        return unsafe { emit_if(point, mask, content) };
    }
    // A thread keeps the address of slot 0's ring of the CPU that it wrote on last. That guess saves reading the CPU's
    // number, which the restartable section compares anyway. 0 before its first record, and in the child of a vfork.
    let (tag, base) = thread::tag_and_base();
    if !program::has_area() {
        return;
    }
    if base == 0 {
        // SAFETY: the caller guarantees a matching, readable payload and an enable word of this tracepoint (this
        // function's # Safety).
        return unsafe { emit_fully(point.tag(), mask, content) };
    }
    let ring = mask.ring(base) as *const RingHeader;
    // SAFETY: the area is never unmapped, and a collector stored the enable word after it had made the rings that it
    // leads to; the caller guarantees a matching, readable payload.
    unsafe { emit_to(ring, tag | point.tag(), content) };
}

/// Writes one record to a CPU's `ring` on the fast path, and on the slow path if that fails.
///
/// # Safety
/// The requirements of [`write::write()`] hold for `ring`, those of [`emit`] for `content`.
#[inline(always)]
pub(crate) unsafe fn emit_to<C: PayloadSource>(ring: *const RingHeader, tag: u64, content: C) {
    // SAFETY: the caller guarantees a ring of an enabled slot, and a readable payload (this function's # Safety).
    match unsafe { write::write(ring, content.record(tag), Clocks) } {
        Ok(()) => {}
        Err(Unwritten { head, timestamp, tag, stays: false }) => {
            // SAFETY: the caller guarantees a ring of an enabled slot, and a readable payload; `timestamp` was read after
            // `head`.
            unsafe { emit_switching(tag, ring, content, head, timestamp) }
        }
        Err(Unwritten { head, timestamp, tag, stays: true }) => {
            // SAFETY: the caller guarantees a ring of an enabled slot, and a readable payload; `timestamp` was read after
            // `head`.
            unsafe { emit_again(tag, ring, content, head, timestamp) }
        }
    }
}

/// Calls [`emit`], as a function that the macros call.
///
/// # Safety
/// The requirements of [`emit`] hold.
#[inline(never)]
pub(crate) unsafe fn emit_outlined<C: PayloadSource>(point: &Tracepoint, enabled: u64, content: C) {
    // SAFETY: the caller guarantees a matching, readable payload and an enable word of this tracepoint (this function's
    // # Safety).
    unsafe { emit(point, enabled, content) }
}

/// Writes one record with a sub-buffer switch, since the fast path found the sub-buffer full. Its parameters are in
/// registers then, and stay there.
///
/// # Safety
/// The requirements of [`emit_to`] hold; `timestamp` is the cycle counter, read after `head`.
#[cold]
#[inline(never)]
unsafe fn emit_switching<C: PayloadSource>(
    tag: u64,
    ring: *const RingHeader,
    content: C,
    head: u64,
    timestamp: u64,
) {
    // SAFETY: the caller guarantees a ring of an enabled slot, a readable payload, and a `timestamp` read after `head`.
    if !unsafe { write::switch(ring, content.record(tag), head, timestamp) } {
        // SAFETY: the caller guarantees a ring of an enabled slot, and a readable payload (this function's # Safety).
        unsafe { emit_again(tag, ring, content, head, timestamp) };
    }
}

/// Writes one record on the slow path, since the sub-buffer switch failed, too, or the thread was interrupted.
///
/// # Safety
/// The requirements of [`emit_to`] hold; `timestamp` is the cycle counter, read after `head`.
#[cold]
#[inline(never)]
unsafe fn emit_again<C: PayloadSource>(
    tag: u64,
    ring: *const RingHeader,
    content: C,
    head: u64,
    timestamp: u64,
) {
    let attempt = Attempt { ring, head, timestamp, clock: TimestampClock::Cycles };
    // SAFETY: the caller guarantees a ring of an enabled slot; `in_memory` passes a payload that is readable during the
    // call.
    content.in_memory(|staged| unsafe { long::again(&staged.record(tag & !0xffff), &attempt) });
}

/// Emits an event for several sessions, for one with a condition, or while it is pending. A hit that passed its inline
/// filter is recorded without another look at the condition.
///
/// # Safety
/// The requirements of [`emit`] hold.
#[cold]
#[inline(never)]
unsafe fn emit_if<C: PayloadSource>(point: &Tracepoint, mask: EnableMask, content: C) {
    let mask = if mask.has_inline_filter() {
        let Some(slots) = program::slots() else { return };
        mask.always(slots.cpus())
    } else if mask.is_pending() {
        // SAFETY: the caller guarantees a matching, readable payload (this function's # Safety).
        return unsafe { emit_pending(point, content) };
    } else {
        mask
    };
    // SAFETY: the caller guarantees a matching, readable payload, and an enable word, of which `mask` has the
    // sessions.
    unsafe { emit_fully(point.tag(), mask, content) };
}

/// Counts the hit of a pending tracepoint, and writes the record to the sessions that have answered.
///
/// Real-time: that of [`Pending::count`](sordino_ring::pending::Pending::count), then that of several sessions.
///
/// # Safety
/// The requirements of [`emit`] hold.
#[cold]
#[inline(never)]
unsafe fn emit_pending<C: PayloadSource>(point: &Tracepoint, content: C) {
    let Some(slots) = program::slots() else { return };
    let mask = slots.pending().count(point.id(), || Clocks.monotonic());
    if mask != EnableMask(0) {
        // SAFETY: the caller guarantees a matching, readable payload; `mask` are the sessions that have answered.
        unsafe { emit_fully(point.tag(), mask, content) };
    }
}

/// Emits on the slow path: a thread's first record, records for several sessions, those with other conditions, those of
/// a vfork's child.
///
/// # Safety
/// The requirements of [`emit`] hold; `mask` is the enable word or an equivalent one.
#[cold]
#[inline(never)]
unsafe fn emit_fully<C: PayloadSource>(event: u64, mask: EnableMask, content: C) {
    // SAFETY: the caller guarantees matching content and enabled sessions; `in_memory` passes a payload that is
    // readable during the call.
    content.in_memory(|staged| unsafe { long::emit(event, mask, staged) });
}
