//! High-resolution timers that are started, and the times at which they are due.

use foldhash::HashMap;
use sordino_event::Time;

/// The maximum number of timers that are followed; a trace with more has lost their ends.
const STARTED_MAX: usize = 65_536;

/// The started timers by their addresses, with their earliest and latest expiry. Each timer has a clock of its own; the
/// event of its expiry has that clock's time.
#[derive(Debug, Default)]
pub(crate) struct Timers(HashMap<u64, [i64; 2]>);

impl Timers {
    pub(crate) fn start(&mut self, timer: u64, due: [i64; 2]) {
        if self.0.len() < STARTED_MAX || self.0.contains_key(&timer) {
            self.0.insert(timer, due);
        }
    }

    /// Returns the earliest and the latest expiry of a timer by the trace's clock. The timer expires `now`, which is
    /// `clock` by its own clock. Returns `None` if its start was not recorded, or if the times are invalid.
    pub(crate) fn expire(&mut self, timer: u64, clock: i64, now: Time) -> Option<[Time; 2]> {
        let [first, last] = self.0.remove(&timer)?;
        let ago = |due: i64| clock.checked_sub(due).map(|ago| Time(now.0.saturating_sub(ago.max(0))));
        let (first, last) = (ago(first)?, ago(last.max(first))?);
        Some([first, last])
    }

    /// Forgets all timers, as records are missing: they may have been started anew.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
