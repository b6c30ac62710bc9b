//! What a hit of an enabled tracepoint does.

use crate::condition::{self, Decision, Hit};
use crate::point::Tracepoint;
use crate::wait::Waiting;
use crate::{MAX_PAYLOAD, program, system};
use sordino_percpu::{Bytes, Payload, Words, thread};
use sordino_ring::layout::RingHeader;
use sordino_ring::position::Shape;
use sordino_ring::slots::Slots;
use sordino_ring::want::{Sessions, Wants};
use sordino_ring::write::{self, Attempt, Clock, IfFull, Record, Stamp, Unwritten};
use std::mem::MaybeUninit;

/// The clocks that stamp records.
#[derive(Clone, Copy)]
struct Clocks;

impl Stamp for Clocks {
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
/// `record` gives a payload of as many bytes as its shape says, and `in_memory` the same one.
pub unsafe trait Content: Copy {
    /// How the restartable section gets it.
    type Payload: Payload;

    /// The record with this tag.
    fn record(self, tag: u64) -> Record<Self::Payload>;

    /// Has `go` called with the payload in memory.
    fn in_memory(self, go: impl FnOnce(Staged));
}

/// A payload in memory, readable for as many bytes as `shape` says are copied.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// Where.
    pub from: *const u8,
    /// How much.
    pub shape: Shape,
}

// SAFETY: it is what it says.
unsafe impl Content for Staged {
    type Payload = Bytes;

    #[inline(always)]
    fn record(self, tag: u64) -> Record {
        let payload = Bytes { from: self.from, length: self.shape.copied() };
        Record { tag, payload, shape: self.shape }
    }

    #[inline(always)]
    fn in_memory(self, go: impl FnOnce(Staged)) {
        go(self);
    }
}

/// Two words in registers: 11.3 ns instead of 12.9 by way of the stack.
// SAFETY: two words are 16 bytes.
unsafe impl Content for Words {
    type Payload = Self;

    #[inline(always)]
    fn record(self, tag: u64) -> Record<Self> {
        Record { tag, payload: self, shape: Shape::of(16) }
    }

    #[inline(always)]
    fn in_memory(self, go: impl FnOnce(Staged)) {
        let words = [self.0, self.1];
        go(Staged { from: words.as_ptr().cast(), shape: Shape::of(16) });
    }
}

/// Writes one record to every session of `wanted`.
///
/// Real-time: see the crate's documentation.
///
/// # Safety
/// `content` is laid out as the tracepoint's fields say and, where it is [`Staged`], readable. `wanted` is what
/// [`Tracepoint::wanted`] answered.
#[inline(always)]
pub unsafe fn emit<C: Content>(point: &Tracepoint, wanted: u64, content: C) {
    let wants = Wants(wanted);
    // A thread remembers where the ring is that slot 0 has for the CPU it wrote on last: a guess that saves the look at the CPU's
    // number, which the restartable section takes anyway. 0 before its first record, and in the child of a vfork.
    let (tag, place) = thread::tag_and_place();
    if !program::has_area() {
        return;
    }
    if place == 0 || !wants.is_one() {
        // SAFETY: the caller's obligations are the same.
        return unsafe { emit_fully(point.tag(), wants, content) };
    }
    let ring = wants.ring(place) as *const RingHeader;
    // SAFETY: the area is never unmapped, and a collector stored the word after it had made the rings that it leads to.
    match unsafe { write::write(ring, content.record(tag | point.tag()), Clocks) } {
        Ok(()) => {}
        Err(Unwritten { head, stamp, tag, stays: false }) => {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_across(tag, ring, content, head, stamp) }
        }
        Err(Unwritten { head, stamp, tag, stays: true }) => {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_again(tag, ring, content, head, stamp) }
        }
    }
}

/// [`emit`], as a function that the macros call.
///
/// # Safety
/// As for [`emit`].
#[inline(never)]
pub(crate) unsafe fn emit_outlined<C: Content>(point: &Tracepoint, wanted: u64, content: C) {
    // SAFETY: the caller's obligations are the same.
    unsafe { emit(point, wanted, content) }
}

/// Where there was no room on the short way: at the end of a sub-buffer. All of it in words that are in registers then, and
/// stay there.
///
/// # Safety
/// As for [`emit`].
#[cold]
#[inline(never)]
unsafe fn emit_across<C: Content>(tag: u64, ring: *const RingHeader, content: C, head: u64, stamp: u64) {
    // SAFETY: the caller's obligations are the same.
    if !unsafe { write::cross(ring, content.record(tag), head, stamp) } {
        // SAFETY: likewise.
        unsafe { emit_again(tag, ring, content, head, stamp) };
    }
}

/// Where that came to nothing, too, or the thread was interrupted.
///
/// # Safety
/// As for [`emit`].
#[cold]
#[inline(never)]
unsafe fn emit_again<C: Content>(tag: u64, ring: *const RingHeader, content: C, head: u64, stamp: u64) {
    let attempt = Attempt { ring, head, stamp, clock: Clock::Cycles };
    let Some(slots) = program::slots() else { return };
    let wants = Wants::only(slots.offset_of(ring));
    // SAFETY: the caller's obligations are the same.
    content.in_memory(|staged| unsafe { emit_slots(tag & 0xffff_0000, wants, staged, attempt) });
}

/// A thread's first record, records for several sessions, conditional ones, those of a vfork's child.
///
/// # Safety
/// As for [`emit`].
#[cold]
#[inline(never)]
unsafe fn emit_fully<C: Content>(event: u64, wants: Wants, content: C) {
    // SAFETY: the caller's obligations are the same.
    content.in_memory(|staged| unsafe { emit_slots(event, wants, staged, Attempt::NONE) });
}

/// `event` is the tracepoint's number in its place.
///
/// # Safety
/// As for [`emit`].
#[inline(never)]
unsafe fn emit_slots(event: u64, wants: Wants, staged: Staged, attempt: Attempt) {
    let Some(slots) = program::slots() else { return };
    let borrowed = thread::borrowed();
    if borrowed == 0 && thread::tag_and_place().0 == 0 {
        thread::set_tag(u64::from(system::thread_id()) << 32);
    }
    let tag = if borrowed == 0 { thread::tag_and_place().0 } else { borrowed << 32 };
    let record = staged.record(tag | event);
    let Sessions { all, conditional } = wants.sessions(slots.cpus());
    let mut left = all;
    while left != 0 {
        let slot = left.trailing_zeros();
        left &= left - 1;
        let mut decision = Decision { record: true, trigger: false };
        if conditional >> slot & 1 != 0 {
            // SAFETY: the caller's obligation.
            decision = unsafe { decide(slots, slot, record) };
        }
        if decision.record {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_slot(slots, slot, &record, &attempt) };
        }
        if decision.trigger {
            slots.trigger(slot, id_of(event));
        }
    }
}

/// The number of the tracepoint in a record's tag.
fn id_of(tag: u64) -> u16 {
    (tag >> 16) as u16
}

/// What the session in `slot` does with a record.
///
/// # Safety
/// As for [`emit`].
#[inline(always)]
unsafe fn decide(slots: Slots, slot: u32, record: Record) -> Decision {
    let (from, length) = (record.payload.from, record.shape.payload());
    let conditions = slots.conditions(slot).filter(|_| length <= MAX_PAYLOAD);
    // Of a record that no ring takes there is no payload: it is counted as lost.
    let Some(conditions) = conditions else { return Decision { record: true, trigger: false } };
    // SAFETY: the caller's obligation: that much is readable, and the program's own.
    let payload = unsafe { std::slice::from_raw_parts(from, length) };
    condition::decide(conditions, id_of(record.tag), Hit { payload, tid: (record.tag >> 32) as u32 })
}

/// Writes the record to the session in `slot`. Waits for room where [`Waiting`] does, but not in the child of a vfork, whose parent
/// waits as well.
///
/// # Safety
/// As for [`emit`].
#[inline(never)]
unsafe fn emit_slot(slots: Slots, slot: u32, record: &Record, attempt: &Attempt) {
    let (rings, borrowed) = (slots.rings(slot), thread::borrowed() != 0);
    let mut if_full = if borrowed { IfFull::Lose } else { IfFull::Tell };
    let mut waiting = Waiting::default();
    loop {
        let written = if borrowed {
            // SAFETY: as in `emit`.
            unsafe { write::write_shared(rings, *record, Clocks, if_full) }
        } else {
            // SAFETY: as in `emit`.
            unsafe { write::write_fully(rings, *record, Clocks, *attempt, if_full) }
        };
        let Err(full) = written else { break };
        if !waiting.sleep(slots, slot, full) {
            if_full = IfFull::Lose;
        }
    }
    let cpu = sordino_percpu::cpu();
    if !borrowed && cpu < slots.cpus() {
        thread::set_place(Wants::place(slots.rings(0).at(cpu) as usize));
    }
}

/// A payload of at most this many bytes is staged without further ado.
const SMALL: usize = 256;
/// The next larger stage; the last has room for [`MAX_PAYLOAD`].
const MEDIUM: usize = 4096;

/// Room for a payload, aligned as it is copied.
#[repr(align(16))]
struct Stage<const SIZE: usize>(MaybeUninit<[u8; SIZE]>);

/// Stages a payload of `length` bytes that `fill` writes, and [`emit`]s it. `fill` is not called if there is no room.
///
/// # Safety
/// `fill` writes exactly `length` bytes, laid out as the tracepoint's fields say; for `wanted` see [`emit`].
#[inline(always)]
pub unsafe fn record(point: &Tracepoint, wanted: u64, length: usize, fill: impl FnOnce(*mut u8)) {
    if length <= SMALL {
        let mut stage = Stage::<SMALL>(MaybeUninit::uninit());
        // SAFETY: the stage has room; the caller's obligations are the same.
        unsafe { record_staged(point, wanted, stage.0.as_mut_ptr().cast(), length, fill) };
    } else {
        // SAFETY: the caller's obligations are the same.
        unsafe { record_large(point, wanted, length, fill) };
    }
}

/// # Safety
/// As for [`record`].
#[cold]
unsafe fn record_large(point: &Tracepoint, wanted: u64, length: usize, fill: impl FnOnce(*mut u8)) {
    if length <= MEDIUM {
        // SAFETY: the caller's obligations are the same.
        unsafe { record_in::<MEDIUM>(point, wanted, length, fill) };
    } else if length <= MAX_PAYLOAD {
        // SAFETY: the caller's obligations are the same.
        unsafe { record_in::<{ MAX_PAYLOAD.next_multiple_of(8) }>(point, wanted, length, fill) };
    } else {
        // SAFETY: nothing is read of a record that fits into no ring.
        unsafe {
            emit_outlined(point, wanted, Staged { from: std::ptr::null(), shape: Shape::of(Shape::MAX) })
        };
    }
}

/// A function of its own, so that only large records need a large stack frame.
///
/// # Safety
/// As for [`record`], and `length <= SIZE`.
#[inline(never)]
unsafe fn record_in<const SIZE: usize>(
    point: &Tracepoint,
    wanted: u64,
    length: usize,
    fill: impl FnOnce(*mut u8),
) {
    let mut stage = Stage::<SIZE>(MaybeUninit::uninit());
    // SAFETY: the stage has room; the caller's obligations are the same.
    unsafe { record_staged(point, wanted, stage.0.as_mut_ptr().cast(), length, fill) };
}

/// Fills `stage` and emits it.
///
/// # Safety
/// As for [`record`]; `stage` has room for `length` bytes rounded up to 8, and is aligned to 8.
#[inline(always)]
pub unsafe fn record_staged(
    point: &Tracepoint,
    wanted: u64,
    stage: *mut u8,
    length: usize,
    fill: impl FnOnce(*mut u8),
) {
    if !length.is_multiple_of(8) {
        // What is copied beyond the payload's end lands behind the record; it shall not be what the stack held.
        // SAFETY: inside the stage, aligned.
        unsafe { stage.wrapping_add(length & !7).cast::<u64>().write(0) };
    }
    fill(stage);
    if length == 16 {
        // SAFETY: the stage has so much, aligned, and `fill` wrote it.
        let [first, second] = unsafe { stage.cast::<[u64; 2]>().read() };
        // SAFETY: the caller's obligations are the same.
        return unsafe { emit_outlined(point, wanted, Words(first, second)) };
    }
    // SAFETY: the caller's obligations are the same.
    unsafe { emit_outlined(point, wanted, Staged { from: stage, shape: Shape::of(length) }) };
}
