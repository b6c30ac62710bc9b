//! Four words of each thread, zero when it starts, accessed without a call or an allocation.
//!
//! They lie in static thread-local storage (the initial-exec model). So even the first access in a thread, also in one
//! that already runs when a library is loaded, allocates nothing and calls nothing.

use crate::arch;

/// The tag that every record of this thread carries, 0 until [set](set_tag); and the word that [`set_base`] stored
/// last, 0 before, by which the fast path finds the ring.
#[inline(always)]
pub fn tag_and_base() -> (u64, usize) {
    arch::tag_and_base()
}

/// Stores the first word of [`tag_and_base`] in this thread.
pub fn set_tag(tag: u64) {
    arch::set_tag(tag);
}

/// Stores the second word of [`tag_and_base`] in this thread.
pub fn set_base(base: usize) {
    arch::set_base(base);
}

/// The thread id of a `vfork`'s child that runs on this storage, 0 in all other threads.
///
/// Such a child runs on its parent's thread-local storage but without the kernel's protection of restartable sequences:
/// it must not [`publish`](crate::publish). Its [`tag_and_base`] start as 0; the parent's are restored when the parent
/// runs again.
#[inline(always)]
pub fn borrowed() -> u64 {
    arch::borrowed()
}

/// The address of this thread's data on performance counters, as [`set_counters`] stored it; 0 before.
pub fn counters() -> usize {
    arch::counters()
}

/// Stores [`counters`] in this thread. The child of a `vfork` has its parent's.
pub fn set_counters(counters: usize) {
    arch::set_counters(counters);
}
