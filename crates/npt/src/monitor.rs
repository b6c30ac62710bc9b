//! A measurement seen from outside while it runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How far a loop is, and a way to end it. The loop looks here every 10 ms.
///
/// All accesses are relaxed: the figures are for showing, and whoever wants the results joins the thread.
#[derive(Debug, Default)]
pub struct Monitor {
    stop: AtomicBool,
    loops: AtomicU64,
    longest_ns: AtomicU64,
}

impl Monitor {
    /// Ends the measurement within some 10 ms; what was measured counts.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Loops so far.
    pub fn loops(&self) -> u64 {
        self.loops.load(Relaxed)
    }

    /// The longest gap so far, as far as the cycle counter's rate is known.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns.load(Relaxed))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub(crate) fn show(&self, loops: u64, longest_ns: f64) {
        self.loops.store(loops, Relaxed);
        self.longest_ns.store(longest_ns as u64, Relaxed);
    }
}
