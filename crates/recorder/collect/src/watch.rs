//! The progress of a recording, as its caller sees it.

use std::time::Duration;

/// Receives the progress of a recording.
pub trait Watch {
    /// Reports the time since recording began, and the number of programs.
    fn recording(&mut self, since: Duration, programs: usize);
    /// Reports the progress of `what`, an operation on the recorded data: `done` of `total` bytes.
    fn working(&mut self, what: &'static str, done: u64, total: u64);
}

/// Ignores the progress of a recording.
pub struct Nobody;

impl Watch for Nobody {
    fn recording(&mut self, _: Duration, _: usize) {}
    fn working(&mut self, _: &'static str, _: u64, _: u64) {}
}
