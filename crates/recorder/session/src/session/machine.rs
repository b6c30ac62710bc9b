//! The machine during a recording: stolen time, and attributes of threads.

use super::bell::TICK;
use sordino_clock::Sample;
use sordino_collect::Error;
use sordino_collect::chunk::ChunkEnd;
use sordino_collect::context::Watcher;
use sordino_collect::kernel::Emptied;
use sordino_inspect::clock::TraceClock;
use sordino_inspect::counters::CounterWatch;
use sordino_inspect::interrupted::InterruptedTime;
use sordino_inspect::steal::Steal;
use sordino_sched::CpuList;
use std::time::Instant;

/// Time that the machine took from the session's CPUs, and the observed attributes of threads.
pub(super) struct MachineTime {
    pub(super) steal: Steal,
    /// Gaps that interrupts made in the recorder's own loop when recording began.
    pub(super) gaps: Vec<InterruptedTime>,
    /// The time of the last reading of steal time.
    pub(super) looked: Instant,
    pub(super) watcher: Watcher,
    pub(super) counters: CounterWatch,
}

impl MachineTime {
    /// Returns true if steal time is to be read now.
    pub(super) fn is_steal_due(&self) -> bool {
        self.steal.is_due(self.looked.elapsed(), TICK)
    }

    /// Reads the steal time since the last reading.
    pub(super) fn look_at_steal(&mut self, clock: &TraceClock) {
        let window = self.looked.elapsed().as_nanos() as u64;
        self.looked = Instant::now();
        self.steal.look(clock.now()(), window);
    }

    /// Takes the measured offsets of the CPUs' counters, and begins another measurement if it is due. `cpus` are those
    /// on which it may run.
    pub(super) fn look_at_counters(&mut self, clock: &mut TraceClock, cpus: impl FnOnce() -> CpuList) {
        self.counters.ended().into_iter().for_each(|offset| clock.offsets.add(offset));
        if self.counters.is_due() {
            self.counters.begin(&cpus());
        }
    }

    /// Returns the data of a chunk that ends now, other than its programs' traces, and refines the clock by this time.
    pub(super) fn rest(&mut self, clock: &mut TraceClock, kernel: Result<Vec<Emptied>, Error>) -> ChunkEnd {
        let end = Sample::take();
        clock.refine(&end);
        let observations = self.watcher.rotate();
        let gaps = std::mem::take(&mut self.gaps);
        ChunkEnd { end, kernel, stolen: self.steal.take_stolen(), gaps, observations }
    }
}
