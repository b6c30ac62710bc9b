//! The comparison that a session has made where a tracepoint is hit, before anything is made ready for a record.

use sordino_percpu::primitive::Relaxed;
use sordino_ring::layout::{EnableWord, Gate};
use sordino_ring::want::Wants;

/// Returns true if one session enabled the event and there is no gate: [`Wants::is_one`].
#[inline(always)]
pub fn is_one(wanted: u64) -> bool {
    Wants(wanted).is_one()
}

/// Whether a hit with these values, those of its fields that are integers, is turned away: by the gate of the one session that wants it.
///
/// Real-time: of a hit that nobody wants through a gate a test; else three loads.
///
/// # Safety
/// `word` said `wanted`: they are what [`Tracepoint::look`](crate::Tracepoint::look) answered.
#[inline(always)]
pub unsafe fn turned_away<const N: usize>(
    word: &'static EnableWord,
    wanted: u64,
    values: [Option<u64>; N],
) -> bool {
    // All but the comparisons with the numbers is known to the compiler.
    let value = |field: usize| {
        let is_it = |(number, value): (usize, Option<u64>)| value.filter(|_| number == field);
        values.into_iter().enumerate().find_map(is_it).unwrap_or(0)
    };
    // SAFETY: the caller's obligation is the same.
    values.iter().any(Option::is_some) && unsafe { compare(word, wanted, value) }
}

/// Returns the result of [`turned_away`] where every field has a value, of any kind if it is no integer.
///
/// # Safety
/// [`Tracepoint::look`](crate::Tracepoint::look) returned `word` with the value `wanted`.
#[inline(always)]
pub unsafe fn is_rejected<const N: usize>(word: &'static EnableWord, wanted: u64, values: [u64; N]) -> bool {
    let value = |field: usize| values.get(field).copied().unwrap_or(0);
    // SAFETY: the caller's obligation is the same.
    unsafe { compare(word, wanted, value) }
}

/// Returns true if there is a gate, and the value of the field that it names is outside of its interval.
///
/// # Safety
/// [`Tracepoint::look`](crate::Tracepoint::look) returned `word` with the value `wanted`.
#[inline(always)]
unsafe fn compare(word: &'static EnableWord, wanted: u64, value: impl FnOnce(usize) -> u64) -> bool {
    let wants = Wants(wanted);
    if !wants.is_gated() {
        return false;
    }
    let gate = (&raw const *word).cast::<u8>().wrapping_add(wants.distance()).cast::<Gate>();
    // SAFETY: the collector says that a gate lies so far behind the word, in the same area, which is never unmapped; all atomics.
    let gate = unsafe { &*gate };
    let value = value(gate.field.load(Relaxed) as usize);
    value.wrapping_sub(gate.low.load(Relaxed)) > gate.span.load(Relaxed)
}
