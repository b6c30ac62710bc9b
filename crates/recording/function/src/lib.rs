//! Events about functions of Rust programs: their entries and exits.
//!
//! ```
//! fn solve(steps: u32) -> u32 {
//!     let _function = sordino_function::function!();
//!     (0..steps).sum()
//! }
//! # assert_eq!(solve(4), 6);
//! ```
//!
//! The guard records the exit when it is dropped: on every way out, also by `?` or a panic that unwinds. In an `async`
//! function it records the exit when the future has ended, whatever its thread does meanwhile.
//!
//! `docs/functions.md` describes the schema, and `include/sordino/function.h` has the same calls for C. They are in a
//! crate of their own because every program that links it declares these tracepoints.
//!
//! # Real-time
//! An entry and an exit are hits of ordinary tracepoints: see [`sordino`](sordino#real-time).
#![forbid(unsafe_code)]

use sordino::{Hex, tracepoint};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// The mark of a function, whose address stands for that of the function in a recording.
///
/// It has a cell, so that no two of them share an address.
#[derive(Debug, Default)]
pub struct FunctionMark(OnceLock<()>);

/// An entered function, whose exit is recorded when the guard is dropped.
#[derive(Debug)]
#[must_use = "the exit is recorded when the guard is dropped"]
pub struct FunctionGuard {
    function: &'static FunctionMark,
    /// Keeps the guard on its thread, whose call stack the function belongs to.
    _thread: PhantomData<*const ()>,
}

impl FunctionMark {
    /// Creates the mark of one function.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Records that the calling thread enters the function.
    #[inline(always)]
    pub fn enter(&'static self) -> FunctionGuard {
        tracepoint!(
            level: DebugFunction,
            sordino_function:entry,
            function: Hex<u64> = Hex(self.address()),
            call_site: Hex<u64> = Hex(0),
        );
        FunctionGuard { function: self, _thread: PhantomData }
    }

    #[inline(always)]
    fn address(&'static self) -> u64 {
        (&raw const self.0).addr() as u64
    }
}

impl Drop for FunctionGuard {
    #[inline(always)]
    fn drop(&mut self) {
        tracepoint!(
            level: DebugFunction,
            sordino_function:exit,
            function: Hex<u64> = Hex(self.function.address()),
            call_site: Hex<u64> = Hex(0),
        );
    }
}

/// Records the entry of the function in which it stands, and returns the [guard](FunctionGuard) that records the exit.
///
/// The recording has the function's path as its name, if the program has its symbols.
#[macro_export]
macro_rules! function {
    () => {{
        // Readers take this name off the symbol's, which begins with the function's path.
        static SORDINO_FUNCTION: $crate::FunctionMark = $crate::FunctionMark::new();
        SORDINO_FUNCTION.enter()
    }};
}
