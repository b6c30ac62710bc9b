//! Payloads that are put together on the stack before they are recorded.

use crate::MAX_PAYLOAD;
use crate::emit::{Staged, emit_outlined};
use crate::point::Tracepoint;
use sordino_percpu::Words;
use sordino_ring::position::Shape;
use std::mem::MaybeUninit;

/// A payload of at most this many bytes is staged without further ado.
const SMALL: usize = 256;
/// The next larger stage; the last has room for [`MAX_PAYLOAD`].
const MEDIUM: usize = 4096;

/// Room for a payload, aligned as it is copied.
#[repr(align(16))]
struct Stage<const SIZE: usize>(MaybeUninit<[u8; SIZE]>);

/// Stages a payload of `length` bytes that `fill` writes, and [`emit`](crate::emit::emit)s it. `fill` is not called if there is no room.
///
/// # Safety
/// `fill` writes exactly `length` bytes, laid out as the tracepoint's fields say; for `wanted` see [`emit`](crate::emit::emit).
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
