//! An allocator that counts a thread's allocated bytes, for tests of what is allocated: a module of theirs by its path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which also counts the bytes of each thread, and their maximum.
struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does all the work; the counters have no influence on it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.get().wrapping_add(layout.size().cast_signed());
        NOW.set(now);
        PEAK.set(PEAK.get().max(now));
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // Another thread may have allocated it: then the count of this one falls below zero.
        NOW.set(NOW.get().wrapping_sub(layout.size().cast_signed()));
        // SAFETY: `memory` came from `alloc` above, so from the system's allocator, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Calls `call`, and returns its result with the most bytes that it had allocated at once.
pub(crate) fn peak_of<T>(call: impl FnOnce() -> T) -> (T, isize) {
    let before = NOW.get();
    PEAK.set(before);
    let result = call();
    (result, PEAK.get() - before)
}
