//! What one turn of the loop does besides reading the clock.

use crate::Monitor;
use sordino_clock::cycles;

/// Part of each turn. The loop is compiled for each, so that one that does nothing costs nothing.
pub(crate) trait Turn {
    /// Does it; whether the loop counts. `last` is the last reading of the clock.
    fn turn(&mut self, number: u64, last: u64) -> bool;

    /// How often the tracepoint was hit.
    fn hits(&self) -> u64 {
        0
    }
}

/// Nothing.
pub(crate) struct Idle;

impl Turn for Idle {
    #[inline(always)]
    fn turn(&mut self, _number: u64, _last: u64) -> bool {
        true
    }
}

/// Both, one after the other.
impl<A: Turn, B: Turn> Turn for (A, B) {
    #[inline(always)]
    fn turn(&mut self, number: u64, last: u64) -> bool {
        self.0.turn(number, last) && self.1.turn(number, last)
    }

    fn hits(&self) -> u64 {
        self.0.hits() + self.1.hits()
    }
}

/// Writes to each cache line of some memory.
pub(crate) struct Sweep(pub(crate) Vec<u8>);

impl Sweep {
    /// Of all processors that are supported.
    const CACHE_LINE: usize = 64;
}

impl Turn for Sweep {
    #[inline(always)]
    fn turn(&mut self, number: u64, _last: u64) -> bool {
        self.0.iter_mut().step_by(Self::CACHE_LINE).for_each(|byte| *byte = number as u8);
        std::hint::black_box(&mut self.0);
        true
    }
}

/// Enters the kernel and leaves it: getppid(2), which neither the C library nor the vDSO answers.
pub(crate) struct SystemCall;

impl Turn for SystemCall {
    #[inline(always)]
    fn turn(&mut self, _number: u64, _last: u64) -> bool {
        std::hint::black_box(rustix::process::getppid());
        true
    }
}

/// Hits the tracepoint.
pub(crate) struct Hit<F> {
    pub(crate) hit: F,
    pub(crate) hits: u64,
}

impl<F: Fn(u64, u64)> Turn for Hit<F> {
    #[inline(always)]
    fn turn(&mut self, number: u64, last: u64) -> bool {
        (self.hit)(number, last);
        self.hits += 1;
        true
    }

    fn hits(&self) -> u64 {
        self.hits
    }
}

/// When the tracepoint may be hit, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The least time between two hits.
    pub(crate) period: u64,
    /// For how long it is hit; without end: `u64::MAX`.
    pub(crate) trace: u64,
    /// For how long nothing is done then, nor measured.
    pub(crate) wait: u64,
}

/// Hits the tracepoint, but not always.
pub(crate) struct Limited<'a, F> {
    hit: Hit<F>,
    limits: Limits,
    /// When the next hit is due.
    due: u64,
    /// When the window began.
    begin: u64,
    monitor: &'a Monitor,
}

impl<'a, F: Fn(u64, u64)> Limited<'a, F> {
    pub(crate) fn new(hit: F, limits: Limits, monitor: &'a Monitor) -> Self {
        let now = cycles();
        Self { hit: Hit { hit, hits: 0 }, limits, due: now, begin: now, monitor }
    }

    /// The loops' CPU does nothing else meanwhile: what a tracer does then, it does elsewhere.
    #[cold]
    #[inline(never)]
    fn wait(&mut self) {
        let begin = cycles();
        while cycles().wrapping_sub(begin) < self.limits.wait && !self.monitor.is_stopped() {
            std::hint::spin_loop();
        }
        self.begin = cycles();
    }
}

impl<F: Fn(u64, u64)> Turn for Limited<'_, F> {
    #[inline(always)]
    fn turn(&mut self, number: u64, last: u64) -> bool {
        if last.saturating_sub(self.begin) >= self.limits.trace {
            self.wait();
            return false;
        }
        if last >= self.due {
            self.hit.turn(number, last);
            self.due = next_due(self.due, last, self.limits.period);
        }
        true
    }

    fn hits(&self) -> u64 {
        self.hit.hits
    }
}

/// When a hit is due after one that was due at `due` and came at `now`: on the same grid, unless a whole period was missed; what
/// was missed is not caught up on.
fn next_due(due: u64, now: u64, period: u64) -> u64 {
    let next = due.saturating_add(period);
    if next > now { next } else { now.saturating_add(period) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn hits_keep_their_grid_and_missed_ones_are_not_caught_up_on() {
        assert_eq!(next_due(100, 103, 10), 110);
        assert_eq!(next_due(100, 109, 10), 110);
        assert_eq!(next_due(100, 110, 10), 120);
        assert_eq!(next_due(100, 555, 10), 565);
        assert_eq!(next_due(100, 103, 0), 103);
    }

    #[test]
    fn the_tracepoint_is_hit_no_more_often_than_it_may() {
        let hits = RefCell::new(Vec::new());
        let monitor = Monitor::default();
        let limits = Limits { period: 10, trace: u64::MAX, wait: 0 };
        let mut turn = Limited::new(|_, last| hits.borrow_mut().push(last), limits, &monitor);
        turn.due = 100;
        for last in (100..140).step_by(3).chain([175, 178, 184, 185]) {
            assert!(turn.turn(0, last));
        }
        assert_eq!((turn.hits(), hits.take()), (6, vec![100, 112, 121, 130, 175, 185]));
    }

    #[test]
    fn a_turn_that_waits_does_not_count_and_a_new_window_begins() {
        let monitor = Monitor::default();
        let limits = Limits { period: 0, trace: 1_000_000_000, wait: 10_000 };
        let mut turn = Limited::new(|_, _| (), limits, &monitor);
        let begin = turn.begin;
        assert!(turn.turn(0, begin) && !turn.turn(1, begin + 1_000_000_000));
        assert!(turn.begin >= begin + 10_000);
        assert!(turn.turn(2, turn.begin) && turn.hits() == 2);
    }

    #[test]
    fn a_sweep_touches_each_cache_line_to_the_last() {
        let mut sweep = Sweep(vec![0; 200]);
        sweep.turn(7, 0);
        assert_eq!(sweep.0.iter().filter(|byte| **byte == 7).count(), 4);
        assert_eq!(sweep.0[192], 7);
    }
}
