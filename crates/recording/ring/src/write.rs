//! The writers' side of a CPU's ring, and the choice of the ring that gets a record.
//!
//! The memory orders of the two publications:
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `write:A`, the section's last store | `read:A` | if the load sees this head, it sees the record, and the words of a sub-buffer switch |
//! | `write:B`, the section's other stores | `read:E` | if a reader copied a part of a record, it sees that its sub-buffer was claimed |
//! | `write:D`, counting up the futex | `drain:A`, the collector's load of it, before the rings | if the load sees this count, the collector sees the completed sub-buffer; if it misses the count, the collector does not fall asleep |
//!
//! The loads of heads are `write:C`, those of the other bits are `write:E`; their partners are in `control`.

use crate::commit;
use crate::layout::{LEFT_OUT, PACKET_HEADER, RingHeader};
use crate::number::RingOffset;
use crate::position::{EncodedLength, Head, Placement, fits_alone, plan, stays};
use crate::view::{NoSwitch, Ring};
use sordino_percpu::primitive::{Acquire, AtomicU32, Relaxed, Release};
use sordino_percpu::{
    Bytes, Commit, Outcome, Payload, cpu, current_cpu, expect_write, publish, publish_switching,
};

/// Number of tries in this CPU's ring before a writer uses the shared ring. A try fails if the thread is preempted,
/// migrated or interrupted within some 20 instructions; only a debugger that steps through them achieves that again and
/// again.
pub const TRIES: u32 = 16;

/// Distance in bytes from a record to the memory that is prefetched for later records: some thirty records of two
/// words, the time that a cache line takes to come back from where the collector's write left it. Without the
/// prefetch, a record in a ring larger than the cache cost 20 ns instead of 11 (256 bytes ahead: 14, 512: 12.5, 1024 to
/// 2048: 11.5, 4096: 12).
const AHEAD: usize = 1024;

/// The clocks that give a ring's records their timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TimestampClock {
    /// The CPU's cycle counter.
    Cycles = 0,
    /// `CLOCK_MONOTONIC` in nanoseconds, where the cycle counter does not run evenly.
    Monotonic = 1,
}

/// The writers' access to clocks.
///
/// Real-time: must not block, allocate or take a lock.
pub trait ReadClock: Copy {
    /// The cycle counter, as fast as it can be read.
    fn cycles(self) -> u64;
    /// The cycle counter, read after all instructions that precede the call.
    fn cycles_in_order(self) -> u64;
    /// The time by `CLOCK_MONOTONIC`, in nanoseconds.
    fn monotonic(self) -> u64;
}

/// The rings of one slot, as a traced program has them mapped.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// The ring of CPU 0; the other CPUs' rings follow, and the shared ring is the last.
    pub first: *const RingHeader,
    /// Number of CPUs' rings, without the shared ring.
    pub cpus: u32,
}

impl Rings {
    /// The ring of CPU `index`, or the shared ring if `index` is `cpus`.
    #[inline(always)]
    pub fn at(&self, index: u32) -> *const RingHeader {
        self.first.wrapping_add(index as usize)
    }

    /// # Safety
    /// `index <= self.cpus`, and `self.first` points to mapped ring headers.
    unsafe fn get<'a>(&self, index: u32) -> &'a RingHeader {
        // SAFETY: the caller guarantees a mapped header at this index (this function's # Safety); headers are atomics
        // and stay mapped as long as the program lives.
        unsafe { &*self.at(index) }
    }
}

/// A record to be written: its second word without the count of lost records, and its payload.
#[derive(Clone, Copy, Debug)]
pub struct Record<P = Bytes> {
    /// The thread's id in the upper half, the event's in bits 16 to 31; the bits below are 0.
    pub tag: u64,
    /// The payload, readable up to the next multiple of 8 bytes.
    pub payload: P,
    /// The payload's encoded length.
    pub encoded_length: EncodedLength,
}

/// An unfinished try: the head that it saw, and the timestamp that the record has already.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The ring's header; null if the try ended before it read the clock.
    pub ring: *const RingHeader,
    /// The head that the try read.
    pub head: u64,
    /// The record's timestamp, by `clock`.
    pub timestamp: u64,
    /// The clock that the timestamp was read from.
    pub clock: TimestampClock,
}

impl Attempt {
    /// The value for a record without an earlier try.
    pub const NONE: Self =
        Self { ring: std::ptr::null(), head: 0, timestamp: 0, clock: TimestampClock::Cycles };
}

/// The treatment of a record for which a ring has no room, if the session [asks](crate::control::AttachOptions::block) writers
/// to wait. Without that request, the record is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfFull {
    /// The record is counted as lost.
    Lose,
    /// Nothing is counted: the caller gets [`Full`], and tries again later.
    Tell,
}

/// A ring has no room for a record, and its session asks writers to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The longest time to wait, in microseconds; all ones: without a limit.
    pub block: u32,
}

/// The result of a [`write()`] that did not write: the fast path is not enough, or the thread was interrupted or is on
/// another CPU. It holds the words that a caller has in registers then, and needs no others to go on.
#[derive(Clone, Copy, Debug)]
pub struct Unwritten {
    /// The head that the try read.
    pub head: u64,
    /// The cycle counter, read after the head.
    pub timestamp: u64,
    /// The record's second word, but for its low 16 bits.
    pub tag: u64,
    /// True if there is room in this sub-buffer, so that the thread was interrupted or is on another CPU; false if a
    /// sub-buffer switch, [`switch`], may help.
    pub stays: bool,
}

/// Writes `record` on the fast path: it fits at the head of `ring`, and this thread is still on its CPU. Otherwise
/// nothing has happened, and [`write_fully`] takes over.
///
/// Real-time: no system call, no lock, no allocation; one try, bounded by the record's length.
///
/// # Errors
/// [`Unwritten`], if the slow path has to write the record.
///
/// # Safety
/// - `ring` is a CPU's ring header in a mapped area, of a slot that a collector set up before it enabled the event; all
///   that the header points to is mapped as long as the program lives.
/// - `record.payload` has `record.encoded_length.copied()` bytes, which are readable.
#[inline(always)]
pub unsafe fn write<P: Payload, S: ReadClock>(
    ring: *const RingHeader,
    record: Record<P>,
    clocks: S,
) -> Result<(), Unwritten> {
    // SAFETY: the caller guarantees that `ring` is a mapped ring header (this function's # Safety); all its fields are
    // atomics.
    let header = unsafe { &*ring };
    // ORDER(write:C) pairs with control:E and control:G: if the load sees an opened ring's head, then the stores that
    // describe the ring are seen; if it sees a closed ring's head, the fast path is seen closed.
    let head = Head(header.head.load(Acquire));
    // The clock is read between the head and the section: a record whose thread is preempted in the section keeps this
    // time, so that the gap shows behind it. It is read right behind the head: instructions that do not wait for the
    // clock cost less behind it than before it.
    let at = clocks.cycles();
    let new = head.behind(record.encoded_length.record_size());
    // ORDER(write:E) pairs with control:F: if the load sees the fast path open, then the section sees the head of the
    // opened ring, or one that is newer.
    if !stays(head, new, header.other_bits.load(Acquire)) {
        return Err(Unwritten { head: head.0, timestamp: at, tag: record.tag, stays: false });
    }
    let to = destination(header, head.start());
    expect_write::<AHEAD>(to);
    let commit = Commit {
        cpu: header.cpu.load(Relaxed),
        head: &header.head,
        expected: head.0,
        new: new.0,
        destination: to,
        timestamp: at,
        tag: record.tag | header.lost.load(Relaxed) & 0xffff,
        payload: record.payload,
    };
    // ORDER(write:A) pairs with read:A: if the load sees this head, then it sees the record: the section ends with a
    // release store of the head.
    // ORDER(write:B) pairs with read:E: if a reader has copied a word that the section stores, then it sees the claim,
    // which this thread made, or saw by the head: the section begins with a release fence behind it.
    // SAFETY: the record fits into the sub-buffer that the head is in (`stays`, checked above), which is the writers'
    // until the head leaves it. The head is not that of a closed ring, and is different in every attachment: a commit
    // to a ring that was taken away restarts, unless the section outlasts a detach and an attach
    // (docs/how-it-works.md).
    match unsafe { publish(&commit) } {
        Outcome::Committed => Ok(()),
        Outcome::Restart => Err(Unwritten { head: head.0, timestamp: at, tag: commit.tag, stays: true }),
    }
}

/// Writes `record` with a sub-buffer switch, after a [`write()`] that failed at `head` because the sub-buffer is full.
/// Returns true if the record was written. Otherwise nothing has happened, and [`write_fully`] takes over: the
/// sub-buffer was not the reason, there is no room, or the thread was interrupted.
///
/// A path of its own, since every program needs it: at most 60 instructions more than the fast path, not over 400.
///
/// Real-time: no system call but for the wake-up if the session requested it, no lock, no allocation; one try, bounded
/// by the record's length.
///
/// # Safety
/// The requirements of [`write()`] hold; `timestamp` is the cycle counter, read after `head`.
#[inline(always)]
pub unsafe fn switch<P: Payload>(
    ring: *const RingHeader,
    record: Record<P>,
    head: u64,
    timestamp: u64,
) -> bool {
    // SAFETY: the caller guarantees that `ring` is a mapped ring header (this function's # Safety); all its fields are
    // atomics.
    let header = unsafe { &*ring };
    let (head, record_size) = (Head(head), record.encoded_length.record_size());
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
        timestamp,
        tag: record.tag | lost & 0xffff,
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

/// The address of the byte at offset `offset` in the ring with this header.
#[inline(always)]
fn destination(ring: &RingHeader, offset: RingOffset) -> *mut u8 {
    let header: *const RingHeader = ring;
    header
        .cast::<u8>()
        .cast_mut()
        .wrapping_add((ring.data.load(Relaxed) as usize).wrapping_add(offset.0 as usize))
}

/// Writes `record` to the ring of this CPU or to the shared ring, or counts it as lost: the slow path.
///
/// `attempt` is that of a failed [`write()`], if there was one: a record keeps its first timestamp unless others were
/// published since.
///
/// Real-time: no system call (but for the wake-up if the session requested it), no lock, no allocation; bounded by
/// [`TRIES`] and the record's length.
///
/// # Errors
/// [`Full`] if there is no room, only with [`IfFull::Tell`].
///
/// # Safety
/// The requirements of [`write()`] hold for all of `rings`.
pub unsafe fn write_fully<S: ReadClock>(
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
        match unsafe { try_write(ring, cpu, record, clocks, &mut attempt, if_full) }? {
            Done::Yes => return Ok(()),
            Done::NotYet => {}
            Done::NoRing => break,
        }
    }
    // SAFETY: the caller guarantees a slot that a collector set up, and a readable payload (this function's # Safety).
    unsafe { write_shared(rings, record, clocks, if_full) }
}

/// The outcome of one try.
enum Done {
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
/// [`Full`] if there is no room, only with [`IfFull::Tell`].
///
/// # Safety
/// The requirements of [`write()`] hold; `ring` is that of `cpu`.
#[inline(always)]
unsafe fn try_write<S: ReadClock>(
    ring: &RingHeader,
    cpu: u32,
    record: &Record,
    clocks: S,
    attempt: &mut Attempt,
    if_full: IfFull,
) -> Result<Done, Full> {
    // ORDER(write:C) pairs with control:E: if the load sees an opened ring's head, then it sees where the ring lies. It
    // precedes the other loads: if another session opens the ring meanwhile, the section refuses this head, whatever
    // else they see.
    let head = Head(ring.head.load(Acquire));
    let Some(view) = Ring::of(ring) else {
        return Ok(if is_left_out(ring) { Done::Yes } else { Done::NoRing });
    };
    if head.is_closed() {
        return Ok(Done::NoRing);
    }
    let record_size = record.encoded_length.record_size();
    let start = match plan(head, record_size, view.other_bits) {
        Placement::Fit => head,
        // SAFETY: the collector mapped the table before it enabled the event.
        Placement::Switch => match unsafe { view.enter(head, |_| true) } {
            Ok((seqno, offset)) => Head::entering(seqno, offset),
            Err(NoSwitch::Stale) => return Ok(Done::NotYet),
            Err(NoSwitch::Full) => return ring.refuse(if_full).map(|()| Done::Yes),
        },
        Placement::TooLarge => {
            ring.lose_too_large();
            return Ok(Done::Yes);
        }
    };
    let lost = ring.lost.load(Relaxed);
    let at = match view.clock {
        clock if std::ptr::eq(attempt.ring, ring) && attempt.head == head.0 && attempt.clock == clock => {
            attempt.timestamp
        }
        TimestampClock::Cycles => clocks.cycles(),
        TimestampClock::Monotonic => clocks.monotonic(),
    };
    let commit = Commit {
        cpu,
        head: &ring.head,
        expected: head.0,
        new: start.behind(record_size).0,
        destination: destination(ring, start.start()),
        timestamp: at,
        tag: record.tag | lost & 0xffff,
        payload: record.payload,
    };
    let left = start.seqno() != head.seqno();
    let outcome = if left {
        // SAFETY: the record fits into an empty sub-buffer (`plan`). The next sub-buffer is free: the reader put it or
        // a writer claimed it (view:B, view:C). The three words go to the packet header of the sub-buffer that the head
        // is in, which is the writers' until the head leaves it.
        unsafe { publish_switching(&commit, view.switch(head, lost)) }
    } else {
        // SAFETY: the record fits behind the head (`Placement::Fit`) into its sub-buffer, which is the writers' until the
        // head leaves it; the section refuses any other head.
        unsafe { publish(&commit) }
    };
    if outcome == Outcome::Restart {
        *attempt = Attempt { ring, head: head.0, timestamp: at, clock: view.clock };
        return Ok(Done::NotYet);
    }
    if left {
        wake(ring);
    }
    Ok(Done::Yes)
}

/// Returns true if the session leaves out the records of this ring's CPU.
fn is_left_out(ring: &RingHeader) -> bool {
    ring.cpu.load(Relaxed) == LEFT_OUT
}

/// Writes to the shared ring as [`write_fully`] does to a CPU's: for threads whose sections the kernel does not
/// restart.
///
/// # Errors
/// [`Full`] if there is no room, only with [`IfFull::Tell`].
///
/// # Safety
/// The requirements of [`write()`] hold for all of `rings`.
#[cold]
#[inline(never)]
pub unsafe fn write_shared<S: ReadClock>(
    rings: Rings,
    record: &Record,
    clocks: S,
    if_full: IfFull,
) -> Result<(), Full> {
    let cpu = current_cpu();
    // SAFETY: `cpu < rings.cpus` (evaluated first), and the caller guarantees mapped headers for all of `rings`.
    if cpu < rings.cpus && is_left_out(unsafe { rings.get(cpu) }) {
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

/// Wakes the collector, if it asked for that, after a sub-buffer switch in `ring` or a request for a snapshot.
#[inline(always)]
pub(crate) fn wake(ring: &RingHeader) {
    let offset = ring.wake.load(Relaxed) as usize;
    if offset != 0 {
        wake_at(ring, offset);
    }
}

/// Wakes the collector by the futex that lies `offset` bytes before the ring's header.
#[cold]
#[inline(never)]
fn wake_at(ring: &RingHeader, offset: usize) {
    let header: *const RingHeader = ring;
    // SAFETY: the collector set `wake` to the distance back to the slot's futex in the same area, whose control part is
    // mapped as long as the program lives.
    let word = unsafe { &*header.cast::<u8>().wrapping_sub(offset).cast::<AtomicU32>() };
    // ORDER(write:D) pairs with drain:A: if the load sees this count, then the collector sees the completed
    // sub-buffer; if it misses the count, then the word has changed since, and the collector does not fall asleep.
    word.fetch_add(1, Release);
    sordino_percpu::wake(word);
}
