//! The writer's side of a CPU's ring, and the decision which ring a record goes to.
//!
//! What the two publications order:
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `write:A`, the section's last store | `read:A` | who sees the head sees the record, and what was left behind |
//! | `write:B`, the section's other stores | `read:E` | who copies a part of a record sees that its sub-buffer was claimed |
//! | `write:D`, counting up the futex | the collector's look at it, before the rings | a sub-buffer that is left while it falls asleep wakes it |
//!
//! The heads' own loads are `write:C`, that of the other bits is `write:E`; their partners are in `control`.

use crate::commit;
use crate::layout::{LEFT_OUT, PACKET_HEADER, RingHeader};
use crate::position::{Head, Plan, Shape, fits_alone, plan, stays};
use crate::view::{Barred, Ring};
use sordino_percpu::primitive::{Acquire, AtomicU32, Relaxed, Release};
use sordino_percpu::{
    Bytes, Commit, Outcome, Payload, cpu, current_cpu, expect_write, publish, publish_leaving,
};

/// How often a writer starts over before it takes the shared ring. Each time, it was preempted, migrated or
/// interrupted within some 20 instructions; only a debugger that steps through them does that again and again.
pub const TRIES: u32 = 16;

/// How far ahead of a record its memory is asked for, in bytes: some thirty records of two words, the time that a cache line
/// takes to come back from where the collector's write left it. Without it, a record in a ring larger than the cache cost
/// 20 ns instead of 11 (256 bytes ahead: 14, 512: 12.5, 1024 to 2048: 11.5, 4096: 12).
const AHEAD: usize = 1024;

/// The clocks that can stamp a ring's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// The CPU's cycle counter.
    Cycles = 0,
    /// `CLOCK_MONOTONIC` in nanoseconds, where the cycle counter does not run evenly.
    Monotonic = 1,
}

/// How the writers read clocks.
///
/// Real-time: must not block, allocate or take a lock.
pub trait Stamp: Copy {
    /// The cycle counter, as fast as it can be read.
    fn cycles(self) -> u64;
    /// The cycle counter, not before what precedes it in the program.
    fn cycles_in_order(self) -> u64;
    /// `CLOCK_MONOTONIC` in nanoseconds.
    fn monotonic(self) -> u64;
}

/// The rings of one slot, as a traced program has them mapped.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// The ring of CPU 0; the others follow, the shared one last.
    pub first: *const RingHeader,
    /// How many CPUs' rings there are.
    pub cpus: u32,
}

impl Rings {
    /// The ring of CPU `index`; the shared one for `cpus`.
    #[inline(always)]
    pub fn at(&self, index: u32) -> *const RingHeader {
        self.first.wrapping_add(index as usize)
    }

    /// # Safety
    /// `index <= self.cpus`, and `self.first` points to mapped ring headers.
    unsafe fn get<'a>(&self, index: u32) -> &'a RingHeader {
        // SAFETY: the caller's obligation; headers are atomics and stay mapped as long as the program lives.
        unsafe { &*self.at(index) }
    }
}

/// A record to be written: its second word without the count of lost records, and its payload.
#[derive(Clone, Copy, Debug)]
pub struct Record<P = Bytes> {
    /// The thread's id in the upper half, the event's in bits 16 to 31; the bits below are 0.
    pub tag: u64,
    /// The payload, up to the next multiple of 8 bytes.
    pub payload: P,
    /// Its length.
    pub shape: Shape,
}

/// A try that did not come to its end: what it saw, and the time it has already given the record.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Where; null if it came to nothing before it took the time.
    pub ring: *const RingHeader,
    /// The ring's head.
    pub head: u64,
    /// The time.
    pub stamp: u64,
    /// Whose time it is.
    pub clock: Clock,
}

impl Attempt {
    /// None was made.
    pub const NONE: Self = Self { ring: std::ptr::null(), head: 0, stamp: 0, clock: Clock::Cycles };
}

/// What becomes of a record for which a ring has no room, if the session [asks](crate::control::Wanted::block) writers to wait. If
/// it does not, the record is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfFull {
    /// It is counted as lost.
    Lose,
    /// Nothing yet: the caller is told, and tries again later.
    Tell,
}

/// A ring has no room for a record, and its session asks writers to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// How long at most, in microseconds; all ones: for ever.
    pub block: u32,
}

/// [`write()`] did not write: the short way is not enough, or the thread was interrupted, or is on another CPU. The words that
/// a caller has in registers then: to go on, it needs no others.
#[derive(Clone, Copy, Debug)]
pub struct Unwritten {
    /// The ring's head.
    pub head: u64,
    /// The cycle counter, which was read behind it.
    pub stamp: u64,
    /// The record's second word, but for its low 16 bits.
    pub tag: u64,
    /// Whether there is room in this sub-buffer: the thread was interrupted, or is on another CPU. Else [`cross`] may help.
    pub stays: bool,
}

/// Tries the short way: `record` fits where the head of `ring` is, and this thread is still on its CPU. If not, nothing
/// has happened, and [`write_fully`] takes over.
///
/// Real-time: no system call, no lock, no allocation; one try, bounded by the record's length.
///
/// # Errors
/// Why it has to be written in full.
///
/// # Safety
/// - `ring` is a CPU's ring header in a mapped area, of a slot that a collector set up before it enabled the event; whatever
///   it points to is mapped as long as the program lives.
/// - `record.payload` has `record.shape.copied()` bytes, which are readable.
#[inline(always)]
pub unsafe fn write<P: Payload, S: Stamp>(
    ring: *const RingHeader,
    record: Record<P>,
    stamp: S,
) -> Result<(), Unwritten> {
    // SAFETY: the caller's obligation; all atomics.
    let header = unsafe { &*ring };
    // ORDER(write:C) pairs with control:E and control:G.
    let head = Head(header.head.load(Acquire));
    // Between the head and the section: a record whose thread is preempted in the section keeps this time, so that the
    // gap shows behind it. As soon as the head is there: what does not wait for the clock costs less behind it than before.
    let at = stamp.cycles();
    let new = head.behind(record.shape.extent());
    // ORDER(write:E) pairs with control:F: with the short way open, the section sees that the ring is.
    if !stays(head, new, header.other_bits.load(Acquire)) {
        return Err(Unwritten { head: head.0, stamp: at, tag: record.tag, stays: false });
    }
    let to = destination(header, head.start());
    expect_write::<AHEAD>(to);
    let commit = Commit {
        cpu: header.cpu.load(Relaxed),
        head: &header.head,
        expected: head.0,
        new: new.0,
        destination: to,
        stamp: at,
        tag: record.tag | header.lost.load(Relaxed) & 0xffff,
        payload: record.payload,
    };
    // ORDER(write:A) pairs with read:A: the section ends with a release store of the head.
    // ORDER(write:B) pairs with read:E: it begins with a release fence, behind the claim, which we made, or saw by the head.
    // SAFETY: the record fits into the sub-buffer that the head is in (it `stays`), which is the writers' until the
    // head leaves it. The head is not that of a closed ring, and is different in every attachment: a commit to a
    // ring that was taken away restarts, unless the section outlasts a detach and an attach (docs/how-it-works.md).
    match unsafe { publish(&commit) } {
        Outcome::Committed => Ok(()),
        Outcome::Restart => Err(Unwritten { head: head.0, stamp: at, tag: commit.tag, stays: true }),
    }
}

/// Goes on with `record` at the start of the next sub-buffer, where a [`write()`] came to nothing at `head` because this one is
/// full; whether it did. If not, nothing has happened, and [`write_fully`] takes over: that was not the reason, there is no
/// room, or the thread was interrupted.
///
/// A way of its own, since no program can avoid it: at most 60 instructions more than the short way, not over 400.
///
/// Real-time: no system call but for the wake-up where the session asked for it, no lock, no allocation; one try, bounded by the
/// record's length.
///
/// # Safety
/// As for [`write()`]; `stamp` is the cycle counter, read behind `head`.
#[inline(always)]
pub unsafe fn cross<P: Payload>(ring: *const RingHeader, record: Record<P>, head: u64, stamp: u64) -> bool {
    // SAFETY: the caller's obligation; all atomics.
    let header = unsafe { &*ring };
    let (head, extent) = (Head(head), record.shape.extent());
    let view = Ring::open(header);
    if !fits_alone(extent, view.other_bits) {
        return false;
    }
    // SAFETY: the collector mapped it for us before it enabled the event.
    let Ok((turn, place)) = (unsafe { view.enter(head, |_| true) }) else { return false };
    let lost = header.lost.load(Relaxed);
    let commit = Commit {
        cpu: header.cpu.load(Relaxed),
        head: &header.head,
        expected: head.0,
        new: Head::entering(turn, place).0 + extent.0,
        destination: view.data(place + PACKET_HEADER as u32),
        stamp,
        tag: record.tag | lost & 0xffff,
        payload: record.payload,
    };
    // SAFETY: as in `try_write`.
    let outcome = unsafe { publish_leaving(&commit, view.leave(head, lost)) };
    if outcome == Outcome::Committed {
        wake(header);
    }
    outcome == Outcome::Committed
}

/// Where position `place` lies, given the ring's header.
#[inline(always)]
fn destination(ring: &RingHeader, place: u32) -> *mut u8 {
    let header: *const RingHeader = ring;
    header
        .cast::<u8>()
        .cast_mut()
        .wrapping_add((ring.data.load(Relaxed) as usize).wrapping_add(place as usize))
}

/// Writes `record` to the ring of this CPU, or to the shared one, or counts it as lost: all that the short way leaves out.
///
/// `attempt` is that of a [`write()`], if there was one: a record keeps the time that it was
/// given first unless others were published since.
///
/// Real-time: no system call (but for the wake-up where the session asked for it), no lock, no allocation; bounded by
/// [`TRIES`] and the record's length.
///
/// # Errors
/// [`Full`], with [`IfFull::Tell`] alone.
///
/// # Safety
/// As for [`write()`], for all of `rings`.
pub unsafe fn write_fully<S: Stamp>(
    rings: Rings,
    record: &Record,
    stamp: S,
    attempt: &Attempt,
    if_full: IfFull,
) -> Result<(), Full> {
    let mut attempt = *attempt;
    for _ in 0..TRIES {
        let cpu = cpu();
        if cpu >= rings.cpus {
            break;
        }
        // SAFETY: `cpu < cpus`.
        let ring = unsafe { rings.get(cpu) };
        // SAFETY: the caller's obligations are the same.
        match unsafe { try_write(ring, cpu, record, stamp, &mut attempt, if_full) }? {
            Done::Yes => return Ok(()),
            Done::NotYet => {}
            Done::NoRing => break,
        }
    }
    // SAFETY: the caller's obligations are the same.
    unsafe { write_shared(rings, record, stamp, if_full) }
}

/// Whether a try was the last.
enum Done {
    /// The record is in the ring, counted as lost, or not wanted from this CPU.
    Yes,
    /// Something came between: look again.
    NotYet,
    /// This CPU has no ring: it came online after the session began.
    NoRing,
}

/// One try; `attempt` is the one before, and then this one.
///
/// # Errors
/// As for [`write_fully`].
///
/// # Safety
/// As for [`write()`]; `ring` is that of `cpu`.
#[inline(always)]
unsafe fn try_write<S: Stamp>(
    ring: &RingHeader,
    cpu: u32,
    record: &Record,
    stamp: S,
    attempt: &mut Attempt,
    if_full: IfFull,
) -> Result<Done, Full> {
    // ORDER(write:C) pairs with control:E. Before the rest: if another session opens the ring meanwhile, the section refuses
    // this head, whatever else we see.
    let head = Head(ring.head.load(Acquire));
    let Some(view) = Ring::of(ring) else {
        return Ok(if is_left_out(ring) { Done::Yes } else { Done::NoRing });
    };
    if head.is_closed() {
        return Ok(Done::NoRing);
    }
    let extent = record.shape.extent();
    let start = match plan(head, extent, view.other_bits) {
        Plan::Fit => head,
        // SAFETY: the collector mapped it for us before it enabled the event.
        Plan::Cross => match unsafe { view.enter(head, |_| true) } {
            Ok((turn, place)) => Head::entering(turn, place),
            Err(Barred::Stale) => return Ok(Done::NotYet),
            Err(Barred::Full) => return ring.refuse(if_full).map(|()| Done::Yes),
        },
        Plan::TooLarge => {
            ring.lose_too_large();
            return Ok(Done::Yes);
        }
    };
    let lost = ring.lost.load(Relaxed);
    let at = match view.clock {
        clock if std::ptr::eq(attempt.ring, ring) && attempt.head == head.0 && attempt.clock == clock => {
            attempt.stamp
        }
        Clock::Cycles => stamp.cycles(),
        Clock::Monotonic => stamp.monotonic(),
    };
    let commit = Commit {
        cpu,
        head: &ring.head,
        expected: head.0,
        new: start.behind(extent).0,
        destination: destination(ring, start.start()),
        stamp: at,
        tag: record.tag | lost & 0xffff,
        payload: record.payload,
    };
    let left = start.turn() != head.turn();
    let outcome = if left {
        // SAFETY: as in `write`. The next sub-buffer is free: the reader gave it back or we claimed it (view:B, view:C). The words go to the packet
        // header of the sub-buffer that the head is in, which is the writers' until the head leaves it.
        unsafe { publish_leaving(&commit, view.leave(head, lost)) }
    } else {
        // SAFETY: as in `write`.
        unsafe { publish(&commit) }
    };
    if outcome == Outcome::Restart {
        *attempt = Attempt { ring, head: head.0, stamp: at, clock: view.clock };
        return Ok(Done::NotYet);
    }
    if left {
        wake(ring);
    }
    Ok(Done::Yes)
}

/// Whether the session does not want the records of this ring's CPU.
fn is_left_out(ring: &RingHeader) -> bool {
    ring.cpu.load(Relaxed) == LEFT_OUT
}

/// As [`write_fully`], but to the shared ring: for threads that the kernel does not restart.
///
/// # Errors
/// [`Full`], with [`IfFull::Tell`] alone.
///
/// # Safety
/// As for [`write()`].
#[cold]
#[inline(never)]
pub unsafe fn write_shared<S: Stamp>(
    rings: Rings,
    record: &Record,
    stamp: S,
    if_full: IfFull,
) -> Result<(), Full> {
    let cpu = current_cpu();
    // SAFETY: only asked for where it is.
    if cpu < rings.cpus && is_left_out(unsafe { rings.get(cpu) }) {
        return Ok(());
    }
    // SAFETY: the shared ring's header is the last.
    let ring = unsafe { rings.get(rings.cpus) };
    // SAFETY: the last ring is the shared one; the caller's obligations for the rest.
    let left = unsafe { commit::write(ring, record, stamp, if_full) }?;
    if left {
        wake(ring);
    }
    Ok(())
}

/// Tells a collector that asked for it that a sub-buffer of `ring` was left, or that a snapshot is wanted.
#[inline(always)]
pub(crate) fn wake(ring: &RingHeader) {
    let offset = ring.wake.load(Relaxed) as usize;
    if offset != 0 {
        wake_at(ring, offset);
    }
}

/// `offset` is what the ring's header says of the futex.
#[cold]
#[inline(never)]
fn wake_at(ring: &RingHeader, offset: usize) {
    let header: *const RingHeader = ring;
    // SAFETY: the collector set `wake` to the distance back to the slot's futex in the same area, whose control part is
    // mapped as long as the program lives.
    let word = unsafe { &*header.cast::<u8>().wrapping_sub(offset).cast::<AtomicU32>() };
    // ORDER(write:D) pairs with the collector's look at it.
    word.fetch_add(1, Release);
    sordino_percpu::wake(word);
}
