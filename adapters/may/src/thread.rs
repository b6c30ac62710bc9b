//! The fiber that each thread runs. A coroutine may go on on another thread behind any call of may's, so no function
//! here is inlined into code around one: a compiler keeps addresses of a thread's variables.

use sordino_fiber::SwitchReason;
use std::cell::Cell;

thread_local! {
    /// Fiber that this thread runs, as far as recorded; 0: none.
    static RUNNING: Cell<u64> = const { Cell::new(0) };
    /// True if the thread's event `thread_enter` is recorded.
    static HAS_ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// Records that the thread runs the fiber from now on, unless that is recorded.
#[inline(never)]
pub(crate) fn arrive(fiber: u64) {
    if !HAS_ENTERED.replace(true) {
        sordino_fiber::thread_enter("may");
    }
    let before = RUNNING.replace(fiber);
    if before != fiber {
        // Another fiber has left in a call that was not wrapped.
        let why = if before == 0 { SwitchReason::Resumed } else { SwitchReason::Unknown };
        sordino_fiber::switch(before, fiber, why, "");
    }
}

/// Records that the running fiber leaves its thread. If it came behind a call that was not wrapped, that is recorded
/// before.
#[inline(never)]
pub(crate) fn leave(fiber: u64, why: SwitchReason, on: &str) {
    arrive(fiber);
    RUNNING.set(0);
    sordino_fiber::switch(fiber, 0, why, on);
}
