//! Events about fibers, for Rust libraries that schedule fibers, tasks or coroutines by themselves on threads.
//!
//! A fiber is whatever such a library runs. Its number is not 0, and no other living fiber of the process has it. With
//! these events, a recording contains the fiber that each thread runs at any time.
//!
//! ```
//! use sordino_fiber::SwitchReason;
//!
//! # fn run_until_it_yields(fiber: u64) {}
//! # let fibers = [1, 2];
//! sordino_fiber::thread_enter("my scheduler");
//! for fiber in fibers {
//!     sordino_fiber::new(fiber, "worker");
//!     sordino_fiber::switch(0, fiber, SwitchReason::Resumed, "");
//!     run_until_it_yields(fiber);
//!     sordino_fiber::switch(fiber, 0, SwitchReason::Yielded, "");
//! }
//! sordino_fiber::thread_leave();
//! ```
//!
//! `docs/fibers.md` describes the schema, and `include/sordino/fiber.h` has the same calls for C. They are in a crate
//! of their own because every program that links it declares these tracepoints.
//!
//! # Real-time
//! Each call is a hit of an ordinary tracepoint: see [`sordino`](sordino#real-time).
#![forbid(unsafe_code)]

use sordino::{Enumerated, Label, tracepoint};
use std::ffi::CStr;

/// The reason for a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SwitchReason {
    /// The library gives no reason.
    Unknown = 0,
    /// The fiber let others run, and is ready.
    Yielded = 1,
    /// The scheduler took the thread from the fiber, which is ready.
    SliceOver = 2,
    /// The fiber waits until another event wakes it.
    Blocked = 3,
    /// The fiber has ended.
    Ended = 4,
    /// The scheduler starts or resumes a fiber, from no other one.
    Resumed = 5,
}

impl Enumerated for SwitchReason {
    type Integer = u8;
    const NAME: &'static CStr = c"enum:u8";
    const LABELS: &'static [Label] = &[
        label(Self::Unknown, c"unknown"),
        label(Self::Yielded, c"yielded"),
        label(Self::SliceOver, c"slice over"),
        label(Self::Blocked, c"blocked"),
        label(Self::Ended, c"ended"),
        label(Self::Resumed, c"resumed"),
    ];
    #[inline(always)]
    fn integer(self) -> u8 {
        self as u8
    }
}

const fn label(why: SwitchReason, text: &'static CStr) -> Label {
    Label { low: why as i64, high: why as i64, text: text.as_ptr() }
}

/// Records that the calling thread begins to schedule fibers of the named scheduler.
pub fn thread_enter(scheduler: &str) {
    tracepoint!(sordino_fiber:thread_enter, scheduler: &str = scheduler);
}

/// Records that the calling thread schedules no fibers any more.
pub fn thread_leave() {
    tracepoint!(sordino_fiber:thread_leave);
}

/// Records a new fiber, whose name may be empty.
pub fn new(fiber: u64, name: &str) {
    tracepoint!(sordino_fiber:new, fiber: u64 = fiber, name: &str = name);
}

/// Records that the calling thread stops to run the fiber `from`, and runs the fiber `to`.
///
/// 0 for either stands for the scheduler, or the thread's own code. To be called by the thread directly before the
/// switch. `on` names the thing on which `from` is blocked, and may be empty.
pub fn switch(from: u64, to: u64, why: SwitchReason, on: &str) {
    sordino::__declare!(POINT, Info, sordino_fiber:switch, from: u64, to: u64, why: SwitchReason, on: &str);
    let (word, enabled) = POINT.load();
    if enabled.is_empty() {
        return;
    }
    if on.is_empty() {
        // An empty text is one zero byte, so the record has a constant size, which costs less.
        sordino::__hit!(POINT, word, enabled, from: u64 = from, to: u64 = to, why: SwitchReason = why, on: u8 = 0);
    } else {
        sordino::__hit!(POINT, word, enabled, from: u64 = from, to: u64 = to, why: SwitchReason = why, on: &str = on);
    }
}

/// Records the end of a fiber, behind its last switch. Its number may belong to a new fiber afterwards.
pub fn end(fiber: u64) {
    tracepoint!(sordino_fiber:end, fiber: u64 = fiber);
}

/// Records that a blocked fiber becomes ready, because of the fiber `by`, or 0.
pub fn wake(fiber: u64, by: u64) {
    tracepoint!(sordino_fiber:wake, fiber: u64 = fiber, by: u64 = by);
}

/// Records another name of a fiber.
pub fn rename(fiber: u64, name: &str) {
    tracepoint!(sordino_fiber:rename, fiber: u64 = fiber, name: &str = name);
}
