//! The wake-up of a collector whose session requests it.

use crate::layout::RingHeader;
use sordino_percpu::primitive::{AtomicU32, Relaxed, Release};

/// Wakes the collector, if its session requests wake-ups, after a sub-buffer switch in `ring` or a request for a
/// snapshot.
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
    // ORDER(write:D) pairs with drain:A: if the load sees this count, then the collector sees the completed sub-buffer;
    // if it misses the count, then the word has changed since, and the collector does not fall asleep.
    word.fetch_add(1, Release);
    sordino_percpu::wake(word);
}
