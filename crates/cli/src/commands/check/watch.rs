//! A check's progress, and its interruption by Ctrl-C.

use crate::Failure;
use crate::progress::Progress;
use crate::signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Shows progress, and receives Ctrl-C.
pub(super) struct Watch {
    progress: Progress,
    stop: OwnedFd,
    what: String,
    since: Instant,
    planned: Duration,
    maximum_ns: Option<f64>,
}

impl Watch {
    pub(super) fn new() -> Result<Self, Failure> {
        let stop = signals::stop()?;
        let (what, since) = (String::new(), Instant::now());
        Ok(Self {
            progress: Progress::new(false),
            stop,
            what,
            since,
            planned: Duration::ZERO,
            maximum_ns: None,
        })
    }

    /// Begins a measurement of `planned` duration.
    pub(super) fn begin(&mut self, what: impl Into<String>, planned: Duration) {
        (self.what, self.since, self.planned, self.maximum_ns) = (what.into(), Instant::now(), planned, None);
        self.tick();
    }

    /// Reports a measured time; the longest so far is shown.
    pub(super) fn longest(&mut self, ns: f64) {
        self.maximum_ns = Some(self.maximum_ns.map_or(ns, |maximum| maximum.max(ns)));
        self.tick();
    }

    pub(super) fn tick(&mut self) {
        let (seconds, of) = (self.since.elapsed().as_secs(), self.planned.as_secs());
        let maximum =
            self.maximum_ns.map(|ns| format!(", longest so far {:.1} us", ns / 1e3)).unwrap_or_default();
        self.progress.doing(format!("{}: {seconds} of {of} s{maximum}; Ctrl-C ends it", self.what));
    }

    /// Removes the progress from the terminal, for other output.
    pub(super) fn clear(&mut self) {
        self.progress.clear();
        self.progress = Progress::new(false);
    }

    pub(super) fn is_interrupted(&self) -> bool {
        let mut stop = [PollFd::new(&self.stop, PollFlags::IN)];
        poll(&mut stop, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}
