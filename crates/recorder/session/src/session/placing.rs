//! Keeps the session's threads off the CPUs on which its programs record.

use super::{Session, Sink};
use std::time::{Duration, Instant};

/// Time between two checks of the rings that have advanced.
const EVERY: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Applies the collector's answers since the last tick, and asks it again: at once after a new program, otherwise
    /// once a second.
    pub(super) fn place(&mut self) {
        let (now, moved) = (Instant::now(), self.collector.moved());
        if !moved.is_empty() {
            self.keep_off(moved);
        }
        if now.duration_since(self.placed.0) >= EVERY || self.placed.1 != self.numbered {
            self.placed = (now, self.numbered);
            self.collector.ask_what_moved();
        }
    }
    /// Notes that programs have recorded on these CPUs, and moves the recorder's threads. Called without waiting for
    /// the next tick when a program runs short of pages: at full speed it uses up its first pages in a few
    /// milliseconds, and the thread that supplies more may be waiting for the same CPU.
    pub(super) fn keep_off(&mut self, cpus: impl IntoIterator<Item = Vec<u32>>) {
        let now = Instant::now();
        self.placement.note(cpus.into_iter().flatten(), now);
        self.placement.update(now);
        let cpus = self.placement.cpus();
        if let Sink::Chunk(chunk) = &mut self.sink {
            chunk.summary.recorder_cpus.clone_from(&cpus);
        }
        self.template.recorder_cpus = cpus;
    }
}
