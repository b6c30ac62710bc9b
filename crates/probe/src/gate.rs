//! The comparison that a session has made where a tracepoint is hit, before anything is made ready for a record.

use sordino_percpu::primitive::Relaxed;
use sordino_ring::layout::{EnableWord, Gate};
use sordino_ring::want::Wants;

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
    let wants = Wants(wanted);
    if !wants.is_gated() || values.iter().all(Option::is_none) {
        return false;
    }
    let gate = (&raw const *word).cast::<u8>().wrapping_add(wants.distance()).cast::<Gate>();
    // SAFETY: the collector says that a gate lies so far behind the word, in the same area, which is never unmapped; all atomics.
    let gate = unsafe { &*gate };
    let field = gate.field.load(Relaxed) as usize;
    // All but the comparisons with the numbers is known to the compiler.
    let is_it = |(number, value): (usize, Option<u64>)| value.filter(|_| number == field);
    let value = values.into_iter().enumerate().find_map(is_it).unwrap_or(0);
    value.wrapping_sub(gate.low.load(Relaxed)) > gate.span.load(Relaxed)
}
