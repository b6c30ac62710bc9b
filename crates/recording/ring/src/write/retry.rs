//! The slow path of a record: all that the fast path leaves out.

use super::payload::{PayloadSource, Record};
use super::room::{Full, IfFull, until_room};
use super::shared::try_shared;
use super::wake::wake;
use super::{ReadClock, TimestampClock, TracedThread, destination};
use crate::area::slots::Rings;
use crate::layout::RingHeader;
use crate::number::Tag;
use crate::offset::{Head, Placement, plan};
use crate::view::{NoSwitch, Ring};
use sordino_event::{Cpu, Ticks};
use sordino_percpu::primitive::{Acquire, Relaxed};
use sordino_percpu::{Commit, Outcome, cpu, publish, publish_switching};

/// Number of tries in this CPU's ring before a writer uses the shared ring. A try fails if the thread is preempted,
/// migrated or interrupted within some 20 instructions; only a debugger that steps through them achieves that again and
/// again.
const TRIES: u32 = 16;

/// An unfinished try: the head that it loaded, and the timestamp of the record.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// The header of the ring that was tried.
    ring: *const RingHeader,
    /// The head that the try read.
    head: Head,
    /// The record's timestamp, by `clock`.
    timestamp: Ticks,
    /// The clock that the timestamp was read from.
    clock: TimestampClock,
}

/// Writes one record on the slow path, since the sub-buffer switch failed, too, or the thread was interrupted.
///
/// # Safety
/// The requirements of [`write()`](super::write()) hold; `timestamp` is the cycle counter, read after `head`.
#[cold]
#[inline(never)]
pub(super) unsafe fn write_again<P: PayloadSource, T: TracedThread>(
    tag: Tag,
    ring: *const RingHeader,
    payload: P,
    head: Head,
    timestamp: Ticks,
    thread: T,
) {
    let attempt = Attempt { ring, head, timestamp, clock: TimestampClock::Cycles };
    // SAFETY: the caller guarantees a ring of an enabled slot; `in_memory` passes a payload that is readable during the
    // call.
    payload.in_memory(|staged| unsafe { retry(&staged.record(tag.without_lost()), &attempt, thread) });
}

/// Writes `record` after `attempt`, which failed on the fast path, to the ring of this CPU or to the shared ring of the
/// same slot, or counts it as lost. The record keeps its timestamp unless others were published since.
///
/// Not generic over the payload, and never inlined: so the traced program has one copy of the slow path's restartable
/// sections, in the crate that implements [`TracedThread`], however many kinds of payload it writes.
///
/// # Safety
/// The requirements of [`write()`](super::write()) hold for the ring of `attempt`.
#[cold]
#[inline(never)]
unsafe fn retry<T: TracedThread>(record: &Record, attempt: &Attempt, thread: T) {
    let Some(first) = thread.first_rings() else { return };
    let Some(slot) = first.slot_of(attempt.ring) else { return };
    let rings = first.in_slot(slot);
    // SAFETY: `slot` has the ring of `attempt`, which a collector made before it enabled the event, and which stays
    // mapped; the caller guarantees a readable payload.
    if let Err(full) = unsafe { write_fully(rings, record, thread, attempt, IfFull::Return) } {
        // SAFETY: a collector made the rings of `slot`, to which the ring of `attempt` belongs; the caller guarantees a
        // readable payload.
        unsafe { retry_waiting(rings, record, attempt, thread, full) };
    }
    thread.remember_cpu(first);
}

/// Continues [`retry`] when there was no room. A function of its own, with parameters that fit into registers: so the
/// tries that need not wait have nothing to prepare for the wait.
///
/// # Safety
/// The requirements of [`write()`](super::write()) hold for all of `rings`.
#[cold]
#[inline(never)]
unsafe fn retry_waiting<T: TracedThread>(
    rings: Rings,
    record: &Record,
    attempt: &Attempt,
    thread: T,
    full: Full,
) {
    // SAFETY: the caller guarantees a slot that a collector set up, and a readable payload (this function's # Safety).
    until_room(rings, thread, full, |if_full| unsafe {
        write_fully(rings, record, thread, attempt, if_full)
    });
}

/// Writes `record` to the ring of this CPU or to the shared ring, or counts it as lost.
///
/// # Errors
/// [`Full`] if there is no room, only with [`IfFull::Return`].
///
/// # Safety
/// The requirements of [`write()`](super::write()) hold for all of `rings`.
#[inline(never)]
unsafe fn write_fully<S: ReadClock>(
    rings: Rings,
    record: &Record,
    clocks: S,
    attempt: &Attempt,
    if_full: IfFull,
) -> Result<(), Full> {
    let mut attempt = *attempt;
    for _ in 0..TRIES {
        let cpu = cpu();
        if cpu >= rings.cpus {
            break;
        }
        // SAFETY: `cpu < cpus`, and the caller guarantees mapped headers for all of `rings`.
        let ring = unsafe { rings.get(cpu) };
        // SAFETY: the caller guarantees a slot that a collector set up, and a readable payload (this function's
        // # Safety); `ring` is that of `cpu`.
        match unsafe { try_write(ring, Cpu(cpu), record, clocks, &mut attempt, if_full) }? {
            TryOutcome::Yes => return Ok(()),
            TryOutcome::NotYet => {}
            TryOutcome::NoRing => break,
        }
    }
    // SAFETY: the caller guarantees a slot that a collector set up, and a readable payload (this function's # Safety).
    unsafe { try_shared(rings, record, clocks, if_full) }
}

/// The outcome of one try.
enum TryOutcome {
    /// The record is in the ring, counted as lost, or left out on this CPU.
    Yes,
    /// The thread was interrupted or the head has changed: the caller tries again.
    NotYet,
    /// This CPU has no ring, because it came online after the session began.
    NoRing,
}

/// Tries once to write `record`; `attempt` is the try before, and becomes this one if it fails.
///
/// # Errors
/// [`Full`] if there is no room, only with [`IfFull::Return`].
///
/// # Safety
/// The requirements of [`write()`](super::write()) hold; `ring` is that of `cpu`.
#[inline(always)]
unsafe fn try_write<S: ReadClock>(
    ring: &RingHeader,
    cpu: Cpu,
    record: &Record,
    clocks: S,
    attempt: &mut Attempt,
    if_full: IfFull,
) -> Result<TryOutcome, Full> {
    // ORDER(write:F) pairs with control:E: if the load sees an opened ring's head, then it sees where the ring lies. It
    // precedes the other loads: if another session opens the ring meanwhile, the section refuses this head, whatever
    // else they see.
    let head = Head(ring.head.load(Acquire));
    let Some(view) = Ring::of(ring) else {
        return Ok(if ring.is_left_out() { TryOutcome::Yes } else { TryOutcome::NoRing });
    };
    if head.is_closed() {
        return Ok(TryOutcome::NoRing);
    }
    let record_size = record.encoded_length.record_size();
    let start = match plan(head, record_size, view.other_bits) {
        Placement::Fit => head,
        // SAFETY: the collector mapped the table before it enabled the event.
        Placement::Switch => match unsafe { view.enter(head, |_| true) } {
            Ok((seqno, offset)) => Head::entering(seqno, offset),
            Err(NoSwitch::Stale) => return Ok(TryOutcome::NotYet),
            Err(NoSwitch::Full) => return ring.refuse(if_full).map(|()| TryOutcome::Yes),
        },
        Placement::TooLarge => {
            ring.lose_too_large();
            return Ok(TryOutcome::Yes);
        }
    };
    let lost = ring.lost.load(Relaxed);
    let at = match view.clock {
        clock if std::ptr::eq(attempt.ring, ring) && attempt.head == head && attempt.clock == clock => {
            attempt.timestamp
        }
        TimestampClock::Cycles => clocks.cycles(),
        TimestampClock::Monotonic => clocks.monotonic(),
    };
    let commit = Commit {
        cpu: cpu.0,
        head: &ring.head,
        expected: head.0,
        new: start.behind(record_size).0,
        destination: destination(ring, start.start()),
        timestamp: at.0,
        tag: record.tag.with_lost(lost).0,
        payload: record.payload,
    };
    let left = start.seqno() != head.seqno();
    let outcome = if left {
        // SAFETY: the record fits into an empty sub-buffer (`plan`). The next sub-buffer is free: the reader put it or
        // a writer claimed it (view:B, view:C). The three words go to the packet header of the sub-buffer that the head
        // is in, which is the writers' until the head leaves it.
        unsafe { publish_switching(&commit, view.switch(head, lost)) }
    } else {
        // SAFETY: the record fits behind the head (`Placement::Fit`) into its sub-buffer, which is the writers' until
        // the head leaves it; the section refuses any other head.
        unsafe { publish(&commit) }
    };
    if outcome == Outcome::Restart {
        *attempt = Attempt { ring, head, timestamp: at, clock: view.clock };
        return Ok(TryOutcome::NotYet);
    }
    if left {
        wake(ring);
    }
    Ok(TryOutcome::Yes)
}
