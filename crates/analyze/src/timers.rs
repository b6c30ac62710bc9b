//! High-resolution timers that are started: when each is due.

use sordino_event::Time;
use std::collections::HashMap;

/// Timers that are followed at a time; a trace that claims more has lost their ends.
const STARTED_MAX: usize = 65_536;

/// The timers that are started, by their addresses, with the times when they may expire and have to expire. Each timer has a clock of its
/// own, and says its time when it expires.
#[derive(Debug, Default)]
pub(crate) struct Timers(HashMap<u64, [i64; 2]>);

impl Timers {
    pub(crate) fn start(&mut self, timer: u64, due: [i64; 2]) {
        if self.0.len() < STARTED_MAX || self.0.contains_key(&timer) {
            self.0.insert(timer, due);
        }
    }

    /// Returns when the timer, which expires `now` and when its own clock says `clock`, was due by the trace's clock; `None` if nobody saw it
    /// start, or if the times make no sense.
    pub(crate) fn expire(&mut self, timer: u64, clock: i64, now: Time) -> Option<[Time; 2]> {
        let [first, last] = self.0.remove(&timer)?;
        let ago = |due: i64| clock.checked_sub(due).map(|ago| Time(now.0.saturating_sub(ago.max(0))));
        let (first, last) = (ago(first)?, ago(last.max(first))?);
        Some([first, last])
    }

    /// Takes in that records are missing: timers may have been started anew.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
