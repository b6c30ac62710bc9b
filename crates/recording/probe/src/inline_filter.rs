//! The inline filter: a session's comparison, evaluated at the hit before anything is prepared for a record.

use sordino_percpu::primitive::Relaxed;
use sordino_ring::area::enable::EnableMask;
use sordino_ring::layout::{EnableWord, InlineFilter};

/// Returns true if the inline filter of the one session that enabled the event rejects a hit with these values; `None`
/// stands for fields that are no integers.
///
/// Real-time: one test for a hit without an inline filter; otherwise three loads.
///
/// # Safety
/// [`Tracepoint::load`](crate::Tracepoint::load) returned `word` with the value `enabled`.
#[inline(always)]
pub unsafe fn is_filtered_out<const N: usize>(
    word: &'static EnableWord,
    enabled: EnableMask,
    values: [Option<u64>; N],
) -> bool {
    // Only the comparisons with the field's number remain at run time.
    let value = |field: usize| {
        let is_it = |(number, value): (usize, Option<u64>)| value.filter(|_| number == field);
        values.into_iter().enumerate().find_map(is_it).unwrap_or(0)
    };
    // SAFETY: the caller guarantees that `enabled` was loaded from `word` (this function's # Safety).
    values.iter().any(Option::is_some) && unsafe { compare(word, enabled, value) }
}

/// Returns the result of [`is_filtered_out`] for values of all fields, with any value for one that is no integer.
///
/// # Safety
/// [`Tracepoint::load`](crate::Tracepoint::load) returned `word` with the value `enabled`.
#[inline(always)]
pub unsafe fn is_rejected<const N: usize>(
    word: &'static EnableWord,
    enabled: EnableMask,
    values: [u64; N],
) -> bool {
    let value = |field: usize| values.get(field).copied().unwrap_or(0);
    // SAFETY: the caller guarantees that `enabled` was loaded from `word` (this function's # Safety).
    unsafe { compare(word, enabled, value) }
}

/// Returns true if there is an inline filter, and the value of the field that it names is outside of its interval.
///
/// # Safety
/// [`Tracepoint::load`](crate::Tracepoint::load) returned `word` with the value `enabled`.
#[inline(always)]
unsafe fn compare(word: &'static EnableWord, enabled: EnableMask, value: impl FnOnce(usize) -> u64) -> bool {
    if !enabled.has_inline_filter() {
        return false;
    }
    let filter = (&raw const *word).cast::<u8>().wrapping_add(enabled.distance()).cast::<InlineFilter>();
    // SAFETY: `enabled` has an inline filter, so the collector has set up a filter at this distance behind `word`, in
    // the same area, which is never unmapped; all fields are atomics.
    let filter = unsafe { &*filter };
    let value = value(filter.field.load(Relaxed) as usize);
    value.wrapping_sub(filter.low.load(Relaxed)) > filter.span.load(Relaxed)
}
