//! The use of a CPU's time so far, as sums: the parts of the wait of a thread in its queue.

use sordino_event::{Nanos, Tid, Time};

/// The use of a CPU's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuUse {
    Interrupts = 0,
    Threads = 1,
    Idle = 2,
    Unknown = 3,
}

/// The time of each [`CpuUse`].
pub(crate) type Uses = [Nanos; 4];

/// The present use of a CPU, and the sums of the earlier ones.
#[derive(Debug)]
pub(crate) struct CpuUseSums {
    /// The thread that runs; `None` if it is not known.
    pub(crate) running: Option<Tid>,
    /// The time of the first record of this CPU, unless one was lost since.
    pub(crate) first: Option<Time>,
    depth: u32,
    since: Time,
    uses: Uses,
}

impl CpuUseSums {
    /// Creates the state of a CPU whose first record is now; its use since `begin` is unknown.
    pub(crate) fn new(begin: Time, now: Time) -> Self {
        Self { running: None, first: Some(now), depth: 0, since: begin, uses: [Nanos::ZERO; 4] }
    }

    fn present(&self) -> CpuUse {
        match (self.depth, self.running) {
            (_, None) => CpuUse::Unknown,
            (1.., _) => CpuUse::Interrupts,
            (0, Some(Tid(0))) => CpuUse::Idle,
            (0, Some(_)) => CpuUse::Threads,
        }
    }

    /// Returns the sums until now.
    pub(crate) fn until(&self, now: Time) -> Uses {
        let mut uses = self.uses;
        uses[self.present() as usize] += now - self.since;
        uses
    }

    fn advance(&mut self, now: Time) {
        let now = now.max(self.since);
        (self.uses, self.since) = (self.until(now), now);
    }

    /// Gives the CPU to a thread, and ends its interrupts.
    pub(crate) fn switch(&mut self, now: Time, to: Tid) {
        self.advance(now);
        (self.running, self.depth) = (Some(to), 0);
    }

    pub(crate) fn enter(&mut self, now: Time) {
        self.advance(now);
        self.depth += 1;
    }

    pub(crate) fn exit(&mut self, now: Time) {
        self.advance(now);
        self.depth = self.depth.saturating_sub(1);
    }

    /// Forgets the state, as records are missing.
    pub(crate) fn lose(&mut self, now: Time) {
        self.advance(now);
        (self.running, self.first, self.depth) = (None, None, 0);
    }
}
