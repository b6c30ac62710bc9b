//! What a hit of an enabled tracepoint does.

use crate::point::Tracepoint;
use crate::{MAX_PAYLOAD, program, system};
use sordino_percpu::{Bytes, Payload, Words, thread};
use sordino_ring::layout::RingHeader;
use sordino_ring::position::Shape;
use sordino_ring::write::{self, Attempt, Clock, Record, Stamp, Unwritten};
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

/// Writes one record to every session of `wanted`.
///
/// Real-time: see the crate's documentation.
///
/// # Safety
/// `payload` is readable for `shape.copied()` bytes, and is laid out as the tracepoint's fields say. `wanted` is what
/// [`Tracepoint::wanted`] answered.
#[inline(always)]
pub unsafe fn emit(point: &Tracepoint, wanted: u8, payload: *const u8, shape: Shape) {
    let bytes = Bytes { from: payload, length: shape.copied() };
    // SAFETY: the caller's obligations are the same.
    match unsafe { emit_shortly(point, wanted, bytes, shape) } {
        Short::Written => {}
        Short::Unfit => {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_fully(point.tag(), wanted, payload, shape) }
        }
        Short::Unwritten(ring, Unwritten { head, stamp, tag, stays: false }) => {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_across(tag, payload, shape, ring, head, stamp) }
        }
        Short::Unwritten(ring, Unwritten { head, stamp, tag, stays: true }) => {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_again(tag, payload, shape, ring, head, stamp) }
        }
    }
}

/// The shape of a payload of two words.
const TWO_WORDS: Shape = Shape::of(size_of::<Words>());

/// [`emit`] for a payload of two words, in registers: 11.3 ns instead of 12.9 by way of the stack.
///
/// # Safety
/// As for [`emit`].
#[inline(always)]
pub unsafe fn emit_words(point: &Tracepoint, wanted: u8, words: Words) {
    // SAFETY: the caller's obligations are the same.
    match unsafe { emit_shortly(point, wanted, words, TWO_WORDS) } {
        Short::Written => {}
        Short::Unfit => {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_words_fully(point.tag(), wanted, words[0], words[1]) }
        }
        Short::Unwritten(ring, Unwritten { head, stamp, tag, stays: false }) => {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_words_across(tag, ring, words[0], words[1], head, stamp) }
        }
        Short::Unwritten(ring, Unwritten { head, stamp, tag, stays: true }) => {
            // SAFETY: the caller's obligations are the same.
            unsafe { emit_words_again(tag, ring, words[0], words[1], head, stamp) }
        }
    }
}

/// How the short way ended.
enum Short {
    /// With the record written, or with nobody to write it for.
    Written,
    /// This record cannot go it.
    Unfit,
    /// It came to nothing in this ring.
    Unwritten(*const RingHeader, Unwritten),
}

/// The short way of [`emit`] and [`emit_words`].
///
/// # Safety
/// As for them.
#[inline(always)]
unsafe fn emit_shortly<P: Payload>(point: &Tracepoint, wanted: u8, payload: P, shape: Shape) -> Short {
    // A thread remembers the ring that it wrote to last: a guess that saves the look at the CPU's number, which the
    // restartable section takes anyway. 0 before its first record, and in the child of a vfork.
    let (tag, place) = thread::tag_and_place();
    if !program::has_area() {
        return Short::Written;
    }
    if wanted != 1 || place == 0 {
        return Short::Unfit;
    }
    let ring = place as *const RingHeader;
    let record = Record { tag: tag | point.tag(), payload, shape };
    // SAFETY: the area is never unmapped, and a collector set the bit after it had made the rings of slot 0.
    match unsafe { write::write(ring, record, Clocks) } {
        Ok(()) => Short::Written,
        Err(unwritten) => Short::Unwritten(ring, unwritten),
    }
}

/// [`emit`], as a function that the macros call.
///
/// # Safety
/// As for [`emit`].
#[inline(never)]
pub(crate) unsafe fn emit_outlined(point: &Tracepoint, wanted: u8, payload: *const u8, shape: Shape) {
    // SAFETY: the caller's obligations are the same.
    unsafe { emit(point, wanted, payload, shape) }
}

/// [`emit_words`], likewise.
///
/// # Safety
/// As for [`emit_words`].
#[inline(never)]
unsafe fn emit_words_outlined(point: &Tracepoint, wanted: u8, first: u64, second: u64) {
    // SAFETY: the caller's obligations are the same.
    unsafe { emit_words(point, wanted, [first, second]) }
}

/// Where the short way came to nothing: mostly at the end of a sub-buffer. All of it in words that are in registers then, and
/// stay there.
///
/// # Safety
/// As for [`emit`].
#[cold]
#[inline(never)]
unsafe fn emit_across(
    tag: u64,
    payload: *const u8,
    shape: Shape,
    ring: *const RingHeader,
    head: u64,
    stamp: u64,
) {
    let record = Record { tag, payload: Bytes { from: payload, length: shape.copied() }, shape };
    // SAFETY: the caller's obligations are the same.
    if !unsafe { write::cross(ring, record, head, stamp) } {
        // SAFETY: likewise.
        unsafe { emit_again(tag, payload, shape, ring, head, stamp) };
    }
}

/// [`emit_across`] with a payload of two words.
///
/// # Safety
/// As for [`emit_words`].
#[cold]
#[inline(never)]
unsafe fn emit_words_across(
    tag: u64,
    ring: *const RingHeader,
    first: u64,
    second: u64,
    head: u64,
    stamp: u64,
) {
    let record = Record { tag, payload: [first, second], shape: TWO_WORDS };
    // SAFETY: the caller's obligations are the same.
    if !unsafe { write::cross(ring, record, head, stamp) } {
        // SAFETY: likewise.
        unsafe { emit_words_again(tag, ring, first, second, head, stamp) };
    }
}

/// Where that came to nothing, too: after an interruption.
///
/// # Safety
/// As for [`emit`].
#[cold]
#[inline(never)]
unsafe fn emit_again(
    tag: u64,
    payload: *const u8,
    shape: Shape,
    ring: *const RingHeader,
    head: u64,
    stamp: u64,
) {
    let attempt = Attempt { ring, head, stamp, clock: Clock::Cycles };
    // SAFETY: the caller's obligations are the same.
    unsafe { emit_slots(tag & 0xffff_0000, 1, payload, shape, attempt) };
}

/// [`emit_again`] with a payload of two words.
///
/// # Safety
/// As for [`emit_words`].
#[cold]
#[inline(never)]
unsafe fn emit_words_again(
    tag: u64,
    ring: *const RingHeader,
    first: u64,
    second: u64,
    head: u64,
    stamp: u64,
) {
    let words: Words = [first, second];
    // SAFETY: the caller's obligations are the same.
    unsafe { emit_again(tag, words.as_ptr().cast(), TWO_WORDS, ring, head, stamp) };
}

/// [`emit_fully`] with a payload of two words.
///
/// # Safety
/// As for [`emit_words`].
#[cold]
#[inline(never)]
unsafe fn emit_words_fully(event: u64, wanted: u8, first: u64, second: u64) {
    let words: Words = [first, second];
    // SAFETY: the caller's obligations are the same.
    unsafe { emit_fully(event, wanted, words.as_ptr().cast(), TWO_WORDS) };
}

/// A thread's first record, records for several sessions, those of a vfork's child.
///
/// # Safety
/// As for [`emit`].
#[cold]
#[inline(never)]
unsafe fn emit_fully(event: u64, wanted: u8, payload: *const u8, shape: Shape) {
    // SAFETY: the caller's obligations are the same.
    unsafe { emit_slots(event, wanted, payload, shape, Attempt::NONE) };
}

/// `event` is the tracepoint's number in its place.
///
/// # Safety
/// As for [`emit`].
unsafe fn emit_slots(event: u64, wanted: u8, payload: *const u8, shape: Shape, attempt: Attempt) {
    let Some(rings) = program::rings() else { return };
    let borrowed = thread::borrowed();
    if borrowed == 0 && thread::tag_and_place().0 == 0 {
        thread::set_tag(u64::from(system::thread_id()) << 32);
    }
    let tag = if borrowed == 0 { thread::tag_and_place().0 } else { borrowed << 32 };
    let record = Record { tag: tag | event, payload: Bytes { from: payload, length: shape.copied() }, shape };
    let mut slots = wanted;
    while slots != 0 {
        let rings = program::rings_of(rings, slots.trailing_zeros());
        slots &= slots - 1;
        if borrowed == 0 {
            // SAFETY: as in `emit`.
            unsafe { write::write_fully(rings, record, Clocks, attempt) };
        } else {
            // SAFETY: as in `emit`.
            unsafe { write::write_shared(rings, record, Clocks) };
        }
    }
    let cpu = sordino_percpu::cpu();
    if borrowed == 0 && cpu < rings.cpus {
        thread::set_place(rings.at(cpu) as usize);
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
pub unsafe fn record(point: &Tracepoint, wanted: u8, length: usize, fill: impl FnOnce(*mut u8)) {
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
unsafe fn record_large(point: &Tracepoint, wanted: u8, length: usize, fill: impl FnOnce(*mut u8)) {
    if length <= MEDIUM {
        // SAFETY: the caller's obligations are the same.
        unsafe { record_in::<MEDIUM>(point, wanted, length, fill) };
    } else if length <= MAX_PAYLOAD {
        // SAFETY: the caller's obligations are the same.
        unsafe { record_in::<{ MAX_PAYLOAD.next_multiple_of(8) }>(point, wanted, length, fill) };
    } else {
        // SAFETY: nothing is read of a record that fits into no ring.
        unsafe { emit_outlined(point, wanted, std::ptr::null(), Shape::of(Shape::MAX)) };
    }
}

/// A function of its own, so that only large records need a large stack frame.
///
/// # Safety
/// As for [`record`], and `length <= SIZE`.
#[inline(never)]
unsafe fn record_in<const SIZE: usize>(
    point: &Tracepoint,
    wanted: u8,
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
    wanted: u8,
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
    if length == size_of::<Words>() {
        // SAFETY: the stage has so much, aligned, and `fill` wrote it.
        let [first, second] = unsafe { stage.cast::<Words>().read() };
        // SAFETY: the caller's obligations are the same.
        return unsafe { emit_words_outlined(point, wanted, first, second) };
    }
    // SAFETY: the caller's obligations are the same.
    unsafe { emit_outlined(point, wanted, stage, Shape::of(length)) };
}
