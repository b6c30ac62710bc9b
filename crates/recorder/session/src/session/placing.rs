//! Keeps the session's threads off the CPUs on which its programs record.

use super::collector::Collector;
use super::recordings::{RecordSink, Recordings};
use sordino_collect::placement::CpuPlacement;
use sordino_event::Cpu;
use std::time::{Duration, Instant};

/// Time between two checks of the rings that have advanced.
const EVERY: Duration = Duration::from_secs(1);

/// The CPUs of the recorder's threads.
pub(super) struct Placing {
    pub(super) placement: CpuPlacement,
    /// The time of the last request for rings that have advanced, and the number of programs at that time.
    pub(super) requested: (Instant, usize),
}

impl Placing {
    /// Applies the collector's answers since the last tick, and sends the next request: at once after a new program,
    /// otherwise once a second.
    pub(super) fn update(&mut self, numbered: usize, collector: &Collector, recordings: &mut Recordings) {
        let (now, moved) = (Instant::now(), collector.moved());
        if !moved.is_empty() {
            self.keep_off(recordings, moved);
        }
        if now.duration_since(self.requested.0) >= EVERY || self.requested.1 != numbered {
            self.requested = (now, numbered);
            collector.request_moved();
        }
    }

    /// Notes that programs have recorded on these CPUs, and moves the recorder's threads. Called without waiting for
    /// the next tick when a program runs short of pages: at full speed it uses up its first pages in a few
    /// milliseconds, and the thread that supplies more may be waiting for the same CPU.
    pub(super) fn keep_off(&mut self, recordings: &mut Recordings, cpus: impl IntoIterator<Item = Vec<Cpu>>) {
        let now = Instant::now();
        self.placement.note(cpus.into_iter().flatten(), now);
        self.placement.update(now);
        let cpus = self.placement.cpus();
        if let RecordSink::Chunk(chunk) = &mut recordings.sink {
            chunk.summary.recorder_cpus.clone_from(&cpus);
        }
        recordings.template.recorder_cpus = cpus;
    }
}
