//! Four words that every thread has for itself, zero when it starts, reached without a call or an allocation.
//!
//! They lie in static thread-local storage (the initial-exec model): the first access in a thread, also in one
//! that a library loaded later finds already running, allocates nothing and calls nothing.

use crate::rseq::arch;

/// What every record of this thread carries, or 0 while nobody has [set](set_tag) it; and where it published last, or
/// wherever else [`set_place`] said, 0 before.
#[inline(always)]
pub fn tag_and_place() -> (u64, usize) {
    arch::tag_and_place()
}

/// Sets the first of [`tag_and_place`] in this thread.
pub fn set_tag(tag: u64) {
    arch::set_tag(tag);
}

/// Sets the second of [`tag_and_place`] in this thread.
pub fn set_place(place: usize) {
    arch::set_place(place);
}

/// Not 0 in the child of a `vfork`: its thread id.
///
/// Such a child runs on its parent's thread-local storage but without the kernel's protection of restartable
/// sequences: it must not [`publish`](crate::publish). Its [`tag_and_place`] start as 0, and its parent's come
/// back with the parent.
#[inline(always)]
pub fn borrowed() -> u64 {
    arch::borrowed()
}

/// The address of what this thread has of performance counters, as [`set_counters`] said; 0 before.
pub fn counters() -> usize {
    arch::counters()
}

/// Sets [`counters`] in this thread. The child of a `vfork` has its parent's.
pub fn set_counters(counters: usize) {
    arch::set_counters(counters);
}
