//! Payloads that are composed on the stack before they are recorded.

use crate::MAX_PAYLOAD;
use crate::emit::emit_outlined;
use crate::point::Tracepoint;
use sordino_percpu::Words;
use sordino_ring::area::enable::EnableMask;
use sordino_ring::offset::EncodedLength;
use sordino_ring::write::Staged;
use std::mem::MaybeUninit;

/// The largest payload, in bytes, that is staged in the hit's own stack frame.
const SMALL: usize = 256;
/// The next larger stage; the last has room for [`MAX_PAYLOAD`].
const MEDIUM: usize = 4096;

/// Room for a payload, with the alignment that its copy needs.
#[repr(align(16))]
struct PayloadBuffer<const SIZE: usize>(MaybeUninit<[u8; SIZE]>);

/// Stages a payload of `length` bytes that `fill` writes, and [`emit`](crate::emit::emit)s it. `fill` is not called if
/// there is no room.
///
/// # Safety
/// `fill` writes exactly `length` bytes, laid out as the tracepoint's fields are declared; `enabled` is the enable word
/// that [`Tracepoint::enabled`] returned.
#[inline(always)]
pub unsafe fn record(point: &Tracepoint, enabled: EnableMask, length: usize, fill: impl FnOnce(*mut u8)) {
    if length <= SMALL {
        let mut stage = PayloadBuffer::<SMALL>(MaybeUninit::uninit());
        // SAFETY: the stage has `SMALL` bytes, a multiple of 8, and `length` is at most that; the caller guarantees the
        // rest for `fill` and `enabled`.
        unsafe { record_staged(point, enabled, stage.0.as_mut_ptr().cast(), length, fill) };
    } else {
        // SAFETY: the caller guarantees that `fill` writes `length` bytes of the declared layout, and an enable word of
        // this tracepoint.
        unsafe { record_large(point, enabled, length, fill) };
    }
}

/// # Safety
/// The requirements of [`record`] hold.
#[cold]
unsafe fn record_large(point: &Tracepoint, enabled: EnableMask, length: usize, fill: impl FnOnce(*mut u8)) {
    if length <= MEDIUM {
        // SAFETY: `length <= MEDIUM`; the caller guarantees that `fill` writes `length` bytes of the declared layout,
        // and an enable word.
        unsafe { record_in::<MEDIUM>(point, enabled, length, fill) };
    } else if length <= MAX_PAYLOAD {
        // SAFETY: `length <= MAX_PAYLOAD`; the caller guarantees that `fill` writes `length` bytes of the declared
        // layout, and an enable word.
        unsafe { record_in::<{ MAX_PAYLOAD.next_multiple_of(8) }>(point, enabled, length, fill) };
    } else {
        // SAFETY: no byte is read of a record that fits into no ring.
        unsafe {
            emit_outlined(
                point,
                enabled,
                Staged { from: std::ptr::null(), encoded_length: EncodedLength::of(EncodedLength::MAX) },
            )
        };
    }
}

/// Records with a stage of `SIZE` bytes, in a function of its own, so that only large records need a large stack frame.
///
/// # Safety
/// The requirements of [`record`] hold, and `length <= SIZE`.
#[inline(never)]
unsafe fn record_in<const SIZE: usize>(
    point: &Tracepoint,
    enabled: EnableMask,
    length: usize,
    fill: impl FnOnce(*mut u8),
) {
    let mut stage = PayloadBuffer::<SIZE>(MaybeUninit::uninit());
    // SAFETY: the caller guarantees `length <= SIZE`, a multiple of 8, so the stage has room; and all that `fill` and
    // `enabled` require.
    unsafe { record_staged(point, enabled, stage.0.as_mut_ptr().cast(), length, fill) };
}

/// Fills `stage` and emits it.
///
/// # Safety
/// The requirements of [`record`] hold; `stage` has room for `length` bytes rounded up to 8, and is aligned to 8.
#[inline(always)]
pub unsafe fn record_staged(
    point: &Tracepoint,
    enabled: EnableMask,
    stage: *mut u8,
    length: usize,
    fill: impl FnOnce(*mut u8),
) {
    if !length.is_multiple_of(8) {
        // The copy goes on beyond the payload's end to a multiple of 8, and lands behind the record: zeros there, not
        // the stack's content.
        // SAFETY: the caller guarantees room for `length` rounded up to 8, aligned to 8, which holds this last word.
        unsafe { stage.wrapping_add(length & !7).cast::<u64>().write(0) };
    }
    fill(stage);
    if length == 16 {
        // SAFETY: the caller guarantees that `fill` wrote all 16 bytes of the stage, which is aligned to 8.
        let [first, second] = unsafe { stage.cast::<[u64; 2]>().read() };
        // SAFETY: the two words are what `fill` wrote, laid out as the caller guarantees; `enabled` is this
        // tracepoint's enable word.
        return unsafe { emit_outlined(point, enabled, Words(first, second)) };
    }
    // SAFETY: `fill` wrote `length` bytes to the stage, and the last word was zeroed, so all copied bytes are readable;
    // the caller guarantees their layout and the enable word.
    unsafe {
        emit_outlined(point, enabled, Staged { from: stage, encoded_length: EncodedLength::of(length) })
    };
}
