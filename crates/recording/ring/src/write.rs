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
//!
//! | file | content |
//! |---|---|
//! | `payload` | a record, and its payload in registers or in memory |
//! | `switch` | the sub-buffer switch, right behind the fast path |
//! | `retry` | the slow path: tries after an interruption, and with any clock |
//! | `shared` | the choice of the shared ring, whose algorithm is in `commit` |
//! | `room` | the loop that waits for room |
//! | `wake` | the wake-up of a collector whose session requests it |

mod payload;
mod retry;
mod room;
mod shared;
mod switch;
mod wake;

use crate::area::slots::Rings;
use crate::layout::{LEFT_OUT, RingHeader};
use crate::number::{RingOffset, Tag};
use crate::offset::{Head, stays};
use sordino_event::{Cpu, Ticks};
use sordino_percpu::primitive::{Acquire, Relaxed};
use sordino_percpu::{Commit, Outcome, expect_write, publish};

pub use payload::{MAX_PAYLOAD, PayloadSource, Record, Staged};
pub use room::Full;
pub(crate) use room::IfFull;
pub(crate) use wake::wake;

/// Distance in bytes from a record to the memory that is prefetched for later records: some thirty records of two
/// words, the time that a cache line takes to come back from where the collector's write left it. Without the prefetch,
/// a record in a ring larger than the cache cost 20 ns instead of 11 (256 bytes ahead: 14, 512: 12.5, 1024 to 2048:
/// 11.5, 4096: 12).
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
    fn cycles(self) -> Ticks;
    /// The cycle counter, read after all instructions that precede the call.
    fn cycles_in_order(self) -> Ticks;
    /// The time by `CLOCK_MONOTONIC`, in nanoseconds.
    fn monotonic(self) -> Ticks;
}

/// The thread that writes records, as far as the slow path depends on it.
pub trait TracedThread: ReadClock {
    /// The rings of the program's first slot; `None` if the program has no area.
    fn first_rings(self) -> Option<Rings>;

    /// Stores the thread's present CPU for its next hit. `first` are the rings of the program's first slot.
    fn remember_cpu(self, first: Rings);

    /// Begins a wait for room in `rings`. The returned function sleeps until the next try, and returns true, or it
    /// returns false: the record is lost.
    fn wait(self, rings: Rings) -> impl FnMut(Full) -> bool;
}

impl RingHeader {
    /// Returns true if the session leaves out the records of this ring's CPU.
    fn is_left_out(&self) -> bool {
        self.cpu.load(Relaxed) == LEFT_OUT
    }
}

/// Writes one record to a CPU's `ring`: on the fast path if it fits at the head and this thread is still on that CPU,
/// otherwise on the slow path, which may find another ring of the slot.
///
/// Real-time: no system call (but for the wake-up if the session requested it), no lock, no allocation; on the fast
/// path one try, bounded by the record's length. The slow path makes at most 16 tries in CPUs' rings, then 1000 to
/// reserve in the shared ring; it waits only if [`TracedThread::wait`] does.
///
/// # Safety
/// - `ring` is a CPU's ring header in a mapped area, of a slot that a collector set up before it enabled the event; all
///   that the header points to is mapped as long as the program lives.
/// - The payload is readable: as many bytes as its encoded length copies.
#[inline(always)]
pub unsafe fn write<P: PayloadSource, T: TracedThread>(
    ring: *const RingHeader,
    tag: Tag,
    payload: P,
    thread: T,
) {
    let record = payload.record(tag);
    // SAFETY: the caller guarantees that `ring` is a mapped ring header (this function's # Safety); all its fields are
    // atomics.
    let header = unsafe { &*ring };
    // ORDER(write:C) pairs with control:E and control:G: if the load sees an opened ring's head, then the stores that
    // describe the ring are seen; if it sees a closed ring's head, the fast path is seen closed.
    let head = Head(header.head.load(Acquire));
    // The clock is read between the head and the section: a record whose thread is preempted in the section keeps this
    // time, so that the gap shows behind it. It is read right behind the head: instructions that do not wait for the
    // clock cost less behind it than before it.
    let at = thread.cycles();
    let new = head.behind(record.encoded_length.record_size());
    // ORDER(write:E) pairs with control:F: if the load sees the fast path open, then the section sees the head of the
    // opened ring, or one that is newer.
    if !stays(head, new, header.other_bits.load(Acquire)) {
        // SAFETY: the caller guarantees a ring of an enabled slot, and a readable payload; `at` was read after `head`.
        return unsafe { switch::write_switching(tag, ring, payload, head, at, thread) };
    }
    let to = destination(header, head.start());
    expect_write::<AHEAD>(to);
    let commit = Commit {
        cpu: header.cpu.load(Relaxed),
        head: &header.head,
        expected: head.0,
        new: new.0,
        destination: to,
        timestamp: at.0,
        tag: record.tag.with_lost(header.lost.load(Relaxed)).0,
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
    if unsafe { publish(&commit) } == Outcome::Restart {
        // SAFETY: the caller guarantees a ring of an enabled slot, and a readable payload; `at` was read after `head`.
        unsafe { retry::write_again(Tag(commit.tag), ring, payload, head, at, thread) };
    }
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

/// Writes `record`, one of several with the same payload, to the ring of `cpu`; `None` stands for the shared ring.
///
/// Real-time: that of [`write()`]. In the shared ring, bounded by the tries to reserve, too.
///
/// # Safety
/// The requirements of [`write()`] hold for all of `rings`, which have one of `cpu`.
#[inline(always)]
pub unsafe fn write_to<T: TracedThread>(rings: Rings, cpu: Option<Cpu>, record: &Record, thread: T) {
    match cpu {
        // SAFETY: the caller guarantees a ring of `cpu` in a slot that a collector set up, and a readable payload.
        Some(cpu) => unsafe { write_staged(rings.at(cpu.0), record, thread) },
        // SAFETY: the caller guarantees a slot that a collector set up, and a readable payload.
        None => unsafe { shared::write_shared(rings, record, thread) },
    }
}

/// Calls [`write()`], as one copy: each copy is another restartable section, which a test has to stop and kill at every
/// instruction. Takes the record by reference: its parts need not be kept in registers from one session to the next.
///
/// # Safety
/// The requirements of [`write()`] hold.
#[inline(never)]
unsafe fn write_staged<T: TracedThread>(ring: *const RingHeader, record: &Record, thread: T) {
    let staged = Staged { from: record.payload.from, encoded_length: record.encoded_length };
    // SAFETY: the caller guarantees a ring of an enabled slot, and a readable payload (this function's # Safety).
    unsafe { write(ring, record.tag, staged, thread) };
}
