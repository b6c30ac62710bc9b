//! The shared ring: writers reserve by compare-and-swap, write, and commit.
//!
//! The algorithm is that of Desnoyers, Dagenais and Toupin, "Highly-Scalable Wait-Free Buffering Scheme for Multi-Core
//! System Tracing" (section 5), in the form for writers on several CPUs. It needs nothing from the kernel, so it serves
//! the threads whose sections cannot be restarted. A record may be unfinished between its reservation and its commit.
//! Unlike in the paper, each commit also marks the begin of its record, so that a writer that was killed in between
//! hides only its own record.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `commit:A`, the mark of a record's begin | `read:D` | if the load sees the mark, it sees the record |
//! | `commit:B`, counting a record's bytes | `read:C` | if the load sees all bytes committed, it sees all records |
//! | `commit:G`, counting a sub-buffer's unused bytes | `read:C` | if the load sees all bytes committed, it sees the words of the sub-buffer switch |
//! | `commit:B`, `commit:G` | `view:D` | if a writer sees all bytes committed, it overwrites them after their writers |
//! | `commit:H`, the reservation | `commit:C`, loading the head | if a writer's load sees a reservation, it sees the timestamps before its own |
//! | `commit:D`, before a record | `read:E` | if a reader copied a part of the record, it sees that its sub-buffer was claimed |
//! | `commit:E`, entering | `control:D`, closing; `control:K`, revoking | if the writer sees the ring open, the collector sees the writer; if the collector sees no writer, the writer sees the ring closed |
//! | `commit:F`, going | `control:D`, `control:K` | if the collector sees no writer, it sees all they wrote |

use crate::layout::{MARKED, MarkWord, RECORD_HEADER, RingHeader, SHARED_EXTRA};
use crate::number::Seqno;
use crate::offset::{Head, Placement, RecordSize, plan};
use crate::view::{NoSwitch, Ring};
use crate::write::{Full, IfFull, ReadClock, Record, TimestampClock};
use sordino_event::Ticks;
use sordino_percpu::SwitchWords;
use sordino_percpu::primitive::{Acquire, Relaxed, Release, SeqCst, fence, plain};

/// Number of tries to reserve. Others win only while they make progress themselves, so many times in a row do not
/// happen; but the path needs a bound.
const TRIES: u32 = 1000;

/// Writes `record`, or counts it as lost. Does neither if there is no ring. Returns true after a sub-buffer switch.
///
/// Real-time: no system call, no lock, no allocation; bounded by [`TRIES`] and the record's length.
///
/// # Errors
/// [`Full`] if there is no room, only with [`IfFull::Return`].
///
/// # Safety
/// `header` is that of the shared ring of a slot whose events were enabled, in a mapped area; `record.payload` is
/// readable.
pub(crate) unsafe fn write<S: ReadClock>(
    header: &RingHeader,
    record: &Record,
    clocks: S,
    if_full: IfFull,
) -> Result<bool, Full> {
    // ORDER(commit:E) pairs with control:D and control:K, as in Dekker's algorithm: each side writes, fences, then
    // reads the other's word. If this writer sees the ring open, then the collector sees that the writer counted itself
    // in.
    header.writers.fetch_add(1, Relaxed);
    fence(SeqCst);
    let left = match Ring::of(header) {
        // SAFETY: the caller guarantees the shared ring's header of an enabled slot and a readable payload; the writer
        // has counted itself in (commit:E).
        Some(ring) => unsafe { write_inside(&ring, record, clocks, if_full) },
        None => Ok(false),
    };
    // ORDER(commit:F) pairs with control:D and control:K: if the collector sees this count without the writer, then it
    // sees all that the writer wrote.
    header.writers.fetch_sub(1, Release);
    left
}

/// Writes to an open ring as [`write()`] specifies. While this runs, the collector gives neither the ring nor the
/// session's memory to another session.
///
/// # Safety
/// The requirements of [`write()`] hold; `ring` was read after the writer had counted itself in `writers`.
unsafe fn write_inside<S: ReadClock>(
    ring: &Ring<'_>,
    record: &Record,
    clocks: S,
    if_full: IfFull,
) -> Result<bool, Full> {
    let header = RECORD_HEADER + SHARED_EXTRA;
    let record_size = RecordSize::of(header, record.encoded_length.payload());
    for _ in 0..TRIES {
        // ORDER(commit:C) pairs with commit:H and control:E: if this load sees a reservation, then this writer sees the
        // timestamps of all earlier reservations; if it sees an opened ring's head, then it sees where the ring lies.
        let head = Head(ring.header.head.load(Acquire));
        if head.is_closed() {
            return Ok(false);
        }
        // SAFETY: the caller guarantees that `ring` is a mapped shared ring, with its commit words.
        let is_complete = |entry| unsafe { ring.is_complete(entry) };
        let start = match plan(head, record_size, ring.other_bits) {
            Placement::Fit => head,
            // SAFETY: the caller guarantees that `ring` is mapped, with its table if it overwrites.
            Placement::Switch => match unsafe { ring.enter(head, is_complete) } {
                Ok((seqno, offset)) => Head::entering(seqno, offset),
                Err(NoSwitch::Stale) => continue,
                Err(NoSwitch::Full) => return ring.header.refuse(if_full).map(|()| false),
            },
            Placement::TooLarge => {
                ring.header.lose_too_large();
                return Ok(false);
            }
        };
        let lost = ring.header.lost.load(Relaxed);
        let Some(at) = timestamp(ring, clocks) else { continue };
        let new = start.behind(record_size);
        // ORDER(commit:H) pairs with commit:C: if a later reservation's load sees this one, then it sees the timestamp.
        if ring.header.head.compare_exchange(head.0, new.0, Release, Relaxed).is_err() {
            continue;
        }
        // ORDER(commit:D) pairs with read:E: if a reader has copied a word that this thread stores below, then it sees
        // the claim that precedes the fence, which this thread made, or saw by the head.
        fence(Release);
        let left = start.seqno() != head.seqno();
        if left {
            // SAFETY: this thread's reservation moved the head out of the sub-buffer of `head`.
            unsafe { switch(ring, head, at, lost) };
        }
        let words = [at.0, record.tag.with_lost(lost).0];
        // SAFETY: the reserved bytes are this thread's alone until it commits them; the caller guarantees a readable
        // payload.
        unsafe { fill(ring, start, words, record) };
        // SAFETY: `start` is the begin of this thread's reservation, and the record is complete.
        unsafe { commit(ring, start, record_size.size()) };
        return Ok(left);
    }
    ring.header.lose();
    Ok(false)
}

/// The timestamp of a record that is reserved now; `None` if another writer's timestamp came in between, and the caller
/// has to start over.
///
/// The counters of two CPUs may differ by more than the time in which the ring changes hands between them: in storms on
/// a virtual machine a record was a tick before its predecessor (docs/storms.md). A timestamp whose reservation then
/// failed is no later than that of the next record either.
fn timestamp<S: ReadClock>(ring: &Ring<'_>, clocks: S) -> Option<Ticks> {
    let now = match ring.clock {
        TimestampClock::Cycles => clocks.cycles_in_order(),
        TimestampClock::Monotonic => clocks.monotonic(),
    };
    let latest = Ticks(ring.header.latest.load(Relaxed));
    if now <= latest {
        return Some(latest);
    }
    let taken = ring.header.latest.compare_exchange(latest.0, now.0, Relaxed, Relaxed);
    taken.ok().map(|_| now)
}

/// Writes the words of a sub-buffer switch into the sub-buffer that `head` was in, and commits its unused end.
///
/// # Safety
/// `ring` is a mapped shared ring, and the caller's reservation is the one that moved the head out of this sub-buffer.
unsafe fn switch(ring: &Ring<'_>, head: Head, at: Ticks, lost: u64) {
    let SwitchWords { destination, lost } = ring.switch(head, lost);
    // SAFETY: only the writer whose reservation left the sub-buffer writes these words, and the reader waits for the
    // commit below.
    unsafe { plain::write(destination, [at.0, head.0, lost]) };
    // The end is never empty: no record ends with a sub-buffer's last byte. So the sub-buffer is not complete before
    // these words are written.
    let size = ring.geometry.size() as u32;
    let unused = size - head.start().within(size);
    // SAFETY: the caller guarantees a mapped shared ring (this function's # Safety); the head's start is an offset in
    // it.
    let (commits, _) = unsafe { ring.commits(head.start()) };
    // ORDER(commit:G) pairs with read:C and view:D: if a load sees all bytes committed, then it sees the words above.
    commits.committed.fetch_add(u64::from(unused), Release);
}

/// Writes the record at `start`.
///
/// # Safety
/// The bytes from `start` on are reserved for this record; the payload is readable.
unsafe fn fill(ring: &Ring<'_>, start: Head, words: [u64; 2], record: &Record) {
    let to = ring.data(start.start());
    let payload = record.encoded_length.payload();
    let length = (RECORD_HEADER + SHARED_EXTRA + payload) as u32;
    let extra = [sordino_percpu::current_cpu(), length];
    // SAFETY: the reserved bytes begin with two words for these, and are aligned to 8.
    unsafe { plain::write(to.cast(), words) };
    // SAFETY: the reserved bytes have `SHARED_EXTRA` bytes for these behind the first `RECORD_HEADER`; aligned to 8.
    unsafe { plain::write(to.wrapping_add(RECORD_HEADER).cast(), extra) };
    let to = to.wrapping_add(RECORD_HEADER + SHARED_EXTRA);
    // SAFETY: the reserved bytes have room for the payload behind both headers; the payload is the program's own
    // memory, not the ring's.
    unsafe { plain::copy_in(to, record.payload.from, payload) };
}

/// Makes the record at `start` visible.
///
/// # Safety
/// `ring` is a mapped shared ring, and `start` is the begin of a record in it.
unsafe fn commit(ring: &Ring<'_>, start: Head, size: u32) {
    // SAFETY: the caller guarantees a mapped shared ring, and an offset in it (this function's # Safety).
    let (commits, marks) = unsafe { ring.commits(start.start()) };
    let offset = start.start().within(ring.geometry.size() as u32) as usize;
    if let Some(word) = marks.get(offset / MARKED) {
        mark(word, start.seqno(), 1 << (offset % MARKED / 8));
    }
    // ORDER(commit:B) pairs with read:C and view:D: if a load sees all bytes committed, then it sees this record.
    commits.committed.fetch_add(u64::from(size), Release);
}

/// Marks a record's begin, and clears the marks of an earlier sub-buffer sequence number. Bounded: it tries again only
/// when another of the 32 marks in the same word was set.
fn mark(word: &MarkWord, seqno: Seqno, bit: u32) {
    let mut before = word.load(Relaxed);
    loop {
        let marks = if (before >> 32) as u32 == seqno.0 { before as u32 } else { 0 };
        let after = u64::from(seqno.0) << 32 | u64::from(marks | bit);
        // ORDER(commit:A) pairs with read:D: if the load sees the mark, then it sees the record. The marks before it
        // keep their orders: each change continues their release.
        match word.compare_exchange(before, after, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => before = now,
        }
    }
}
