//! The shared ring: reserve by compare-and-swap, write, commit.
//!
//! The algorithm of Desnoyers, Dagenais and Toupin, "Highly-Scalable Wait-Free Buffering Scheme for Multi-Core System
//! Tracing" (section 5), in the form for writers on several CPUs. It needs nothing from the kernel, so it serves the
//! threads that cannot be restarted. Between reserving and committing a record may be unfinished; unlike in the
//! paper, each commit also marks where its record begins, so that a writer that was killed in between hides
//! only its own.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `commit:A`, the mark of a record's begin | `read:D` | who sees the mark sees the record |
//! | `commit:B`, the count of committed bytes | `read:C` | who sees all bytes committed sees all records and what was left |
//! | `commit:B`, likewise | `view:D` | who sees all bytes committed overwrites them after their writers |
//! | `commit:C`, the reservation | itself | a writer that reserves later sees the stamps before its own |
//! | `commit:D`, before a record | `read:E` | who copies a part of it sees that its sub-buffer was claimed |
//! | `commit:E`, entering | `control:D`, closing | either the collector sees a writer, or the writer sees the ring closed |
//! | `commit:F`, going | `control:D` | who sees no writer sees all they wrote |

use crate::layout::{MARKED, MarkWord, RECORD_HEADER, RingHeader, SHARED_EXTRA};
use crate::position::{Extent, Head, Plan, plan};
use crate::view::{Barred, Ring};
use crate::write::{Clock, Full, IfFull, Record, Stamp};
use sordino_percpu::Leave;
use sordino_percpu::primitive::{Acquire, Relaxed, Release, SeqCst, fence, plain};

/// How often a writer competes for a place. Others win only while they make progress themselves; so many in a
/// row do not happen, but a bound there must be.
const TRIES: u32 = 1000;

/// Writes `record`, or counts it as lost; whether it left a sub-buffer. Does neither where there is no ring.
///
/// Real-time: no system call, no lock, no allocation; bounded by [`TRIES`] and the record's length.
///
/// # Errors
/// [`Full`], with [`IfFull::Tell`] alone.
///
/// # Safety
/// `header` is that of the shared ring of a slot whose events were enabled, in a mapped area; `record.payload` is
/// readable.
pub(crate) unsafe fn write<S: Stamp>(
    header: &RingHeader,
    record: &Record,
    stamp: S,
    if_full: IfFull,
) -> Result<bool, Full> {
    // ORDER(commit:E) pairs with control:D, as in Dekker's algorithm: each side writes, fences, then reads the other's.
    header.writers.fetch_add(1, Relaxed);
    fence(SeqCst);
    let left = match Ring::of(header) {
        // SAFETY: the caller's obligations are the same.
        Some(ring) => unsafe { write_inside(&ring, record, stamp, if_full) },
        None => Ok(false),
    };
    // ORDER(commit:F) pairs with control:D.
    header.writers.fetch_sub(1, Release);
    left
}

/// See [`write()`]. While this runs, the collector gives neither the ring nor the session's memory to another session.
///
/// # Safety
/// As for [`write()`]; `ring` was looked at after the writer had made itself known.
unsafe fn write_inside<S: Stamp>(
    ring: &Ring<'_>,
    record: &Record,
    stamp: S,
    if_full: IfFull,
) -> Result<bool, Full> {
    let header = RECORD_HEADER + SHARED_EXTRA;
    let extent = Extent::of(header, record.shape.payload());
    for _ in 0..TRIES {
        // ORDER(commit:C): acquire, so that we see the stamps of whoever reserved before us.
        let head = Head(ring.header.head.load(Acquire));
        if head.is_closed() {
            return Ok(false);
        }
        // SAFETY: the caller says that it is mapped.
        let is_complete = |entry| unsafe { ring.is_complete(entry) };
        let start = match plan(head, extent, ring.other_bits) {
            Plan::Fit => head,
            // SAFETY: likewise.
            Plan::Cross => match unsafe { ring.enter(head, is_complete) } {
                Ok((turn, place)) => Head::entering(turn, place),
                Err(Barred::Stale) => continue,
                Err(Barred::Full) => return ring.header.refuse(if_full).map(|()| false),
            },
            Plan::TooLarge => {
                ring.header.lose_too_large();
                return Ok(false);
            }
        };
        let lost = ring.header.lost.load(Relaxed);
        let Some(at) = stamped(ring, stamp) else { continue };
        let new = start.behind(extent);
        // ORDER(commit:C): release, for the acquire load above.
        if ring.header.head.compare_exchange(head.0, new.0, Release, Relaxed).is_err() {
            continue;
        }
        // ORDER(commit:D) pairs with read:E: behind the claim, which we made, or saw by the head.
        fence(Release);
        let left = start.turn() != head.turn();
        if left {
            // SAFETY: it was our reservation that left the sub-buffer of `head`.
            unsafe { leave(ring, head, at, lost) };
        }
        let words = [at, record.tag | lost & 0xffff];
        // SAFETY: the reservation made this place ours alone until we commit it.
        unsafe { fill(ring, start, words, record) };
        // SAFETY: the record is complete.
        unsafe { commit(ring, start, extent.size()) };
        return Ok(left);
    }
    ring.header.lose();
    Ok(false)
}

/// The time for a record that is reserved now; `None` if another writer took its time meanwhile: look again.
///
/// CPUs' counters may differ by more than it takes to hand the ring from one to the other: in storms on a virtual machine a record was
/// a tick before its predecessor (docs/storms.md). A time that was taken for nothing, since the reservation then failed, is no later than
/// that of the next record either.
fn stamped<S: Stamp>(ring: &Ring<'_>, stamp: S) -> Option<u64> {
    let now = match ring.clock {
        Clock::Cycles => stamp.cycles_in_order(),
        Clock::Monotonic => stamp.monotonic(),
    };
    let latest = ring.header.latest.load(Relaxed);
    if now <= latest {
        return Some(latest);
    }
    let taken = ring.header.latest.compare_exchange(latest, now, Relaxed, Relaxed);
    taken.ok().map(|_| now)
}

/// Says of the sub-buffer that `head` was in what its reader needs, and commits its unused end.
///
/// # Safety
/// `ring` is a mapped shared ring and the caller's reservation the one that left this sub-buffer.
unsafe fn leave(ring: &Ring<'_>, head: Head, at: u64, lost: u64) {
    let Leave { destination, lost } = ring.leave(head, lost);
    // SAFETY: nobody else writes there, and the reader waits for the commit below.
    unsafe { plain::write(destination, [at, head.0, lost]) };
    // Never nothing: no record ends with a sub-buffer's last byte. So it is not complete before the words above are there.
    let size = ring.geometry.size() as u32;
    let unused = size - (head.start() & (size - 1));
    // SAFETY: the caller's obligation.
    let (commits, _) = unsafe { ring.commits(head.start()) };
    // ORDER(commit:B) pairs with read:C and view:D.
    commits.committed.fetch_add(u64::from(unused), Release);
}

/// Writes the record at `start`.
///
/// # Safety
/// The place is reserved for it; the payload is readable.
unsafe fn fill(ring: &Ring<'_>, start: Head, words: [u64; 2], record: &Record) {
    let to = ring.data(start.start());
    let payload = record.shape.payload();
    let length = (RECORD_HEADER + SHARED_EXTRA + payload) as u32;
    let extra = [sordino_percpu::current_cpu(), length];
    // SAFETY: the reserved place has room for it and is aligned to 8.
    unsafe { plain::write(to.cast(), words) };
    // SAFETY: behind it, likewise.
    unsafe { plain::write(to.wrapping_add(RECORD_HEADER).cast(), extra) };
    let to = to.wrapping_add(RECORD_HEADER + SHARED_EXTRA);
    // SAFETY: behind that; the payload is the program's own memory, not the ring's.
    unsafe { plain::copy_in(to, record.payload.from, payload) };
}

/// Makes the record at `start` visible.
///
/// # Safety
/// `ring` is a mapped shared ring and `start` one of its positions.
unsafe fn commit(ring: &Ring<'_>, start: Head, size: u32) {
    // SAFETY: the caller's obligation.
    let (commits, marks) = unsafe { ring.commits(start.start()) };
    let offset = start.start() as usize & (ring.geometry.size() - 1);
    if let Some(word) = marks.get(offset / MARKED) {
        mark(word, start.turn(), 1 << (offset % MARKED / 8));
    }
    // ORDER(commit:B) pairs with read:C and view:D.
    commits.committed.fetch_add(u64::from(size), Release);
}

/// Marks a record's begin, and clears what an earlier turn left. Bounded: it is tried again only when another mark was
/// set in the same word, which has 32.
fn mark(word: &MarkWord, turn: u32, bit: u32) {
    let mut before = word.load(Relaxed);
    loop {
        let marks = if (before >> 32) as u32 == turn { before as u32 } else { 0 };
        let after = u64::from(turn) << 32 | u64::from(marks | bit);
        // ORDER(commit:A) pairs with read:D. The marks before it keep their orders: each change continues their release.
        match word.compare_exchange(before, after, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => before = now,
        }
    }
}
