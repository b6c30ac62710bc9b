//! Progress of a running measurement, and a way to stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Progress of a loop, and a flag that stops it. The loop updates and checks it every 10 ms.
///
/// All accesses are relaxed: the figures are for display, and a reader of the results joins the thread first.
#[derive(Debug, Default)]
pub struct Monitor {
    stop: AtomicBool,
    loops: AtomicU64,
    longest_ns: AtomicU64,
}

impl Monitor {
    /// Stops the measurement within about 10 ms; the results so far are kept.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Returns the number of loops so far.
    pub fn loops(&self) -> u64 {
        self.loops.load(Relaxed)
    }

    /// Returns the longest gap so far, by the preliminary rate of the cycle counter.
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
