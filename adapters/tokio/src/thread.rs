//! The fiber that each thread runs, and the threads that schedule fibers.

use sordino_fiber::SwitchReason;
use std::cell::Cell;
use tokio::runtime::Builder;

thread_local! {
    /// Fiber that this thread runs; 0: none.
    static RUNNING: Cell<u64> = const { Cell::new(0) };
    /// True between the thread's events `thread_enter` and `thread_leave`.
    static HAS_ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// Sets the hooks of a runtime's threads: the worker threads are recorded as scheduling fibers.
///
/// It replaces the builder's `on_thread_park` and `on_thread_stop`. A thread that polls a traced future without these
/// hooks is recorded from its first poll on.
pub fn threads(builder: &mut Builder) -> &mut Builder {
    builder.on_thread_park(enter).on_thread_stop(leave)
}

/// Returns the number of the fiber that the calling thread runs, or 0.
pub fn current() -> u64 {
    RUNNING.get()
}

/// Records a worker thread once: threads for blocking work start the same hooks, and never park or poll.
fn enter() {
    if !HAS_ENTERED.replace(true) {
        sordino_fiber::thread_enter("tokio");
    }
}

fn leave() {
    if HAS_ENTERED.replace(false) {
        sordino_fiber::thread_leave();
    }
}

/// Switches to a fiber. Returns the one that ran before, inside of which it is polled, or 0.
pub(crate) fn mount(fiber: u64) -> u64 {
    enter();
    let outer = RUNNING.replace(fiber);
    let why = if outer == 0 { SwitchReason::Resumed } else { SwitchReason::Yielded };
    sordino_fiber::switch(outer, fiber, why, "");
    outer
}

/// Switches from the running fiber back to the outer one.
pub(crate) fn unmount(outer: u64, why: SwitchReason) {
    let fiber = RUNNING.replace(outer);
    sordino_fiber::switch(fiber, outer, why, "");
}
