//! The placement of the session's threads: off the CPUs on which its programs record.

use super::{Session, Sink};
use std::time::{Duration, Instant};

/// Time between two looks at which rings have moved on.
const EVERY: Duration = Duration::from_secs(1);

impl Session<'_> {
    /// Goes by what the collector saw since the last tick, and asks it again: soon where there is a new program, else once a second.
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
    /// Programs have recorded on these CPUs. A program at full speed uses up its first pages in a few milliseconds: where who gives it more
    /// waits for a CPU behind it, it is told at once, and not with the next tick.
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
