//! Work of one iteration of the loop besides reading the clock.

use crate::{Gap, Monitor};
use sordino_clock::{Rate, cycles};

/// Work in each iteration. The loop is compiled for each type, so that an empty one costs nothing.
pub(crate) trait Iteration {
    /// Does the work, and returns true if the loop counts. `before` is the gap that has just ended, with the last
    /// reading of the clock.
    fn iterate(&mut self, number: u64, before: Gap) -> bool;

    /// Returns the number of hits of the tracepoint.
    fn hits(&self) -> u64 {
        0
    }
}

/// An iteration without any work.
pub(crate) struct Idle;

impl Iteration for Idle {
    #[inline(always)]
    fn iterate(&mut self, _number: u64, _before: Gap) -> bool {
        true
    }
}

/// Does the work of both, one after the other.
impl<A: Iteration, B: Iteration> Iteration for (A, B) {
    #[inline(always)]
    fn iterate(&mut self, number: u64, before: Gap) -> bool {
        self.0.iterate(number, before) && self.1.iterate(number, before)
    }

    fn hits(&self) -> u64 {
        self.0.hits() + self.1.hits()
    }
}

/// Writes to each cache line of its memory.
pub(crate) struct Sweep(pub(crate) Vec<u8>);

impl Sweep {
    /// Size of a cache line in bytes on all supported processors.
    const CACHE_LINE: usize = 64;
}

impl Iteration for Sweep {
    #[inline(always)]
    fn iterate(&mut self, number: u64, _before: Gap) -> bool {
        self.0.iter_mut().step_by(Self::CACHE_LINE).for_each(|byte| *byte = number as u8);
        std::hint::black_box(&mut self.0);
        true
    }
}

/// Enters and leaves the kernel: neither the C library nor the vDSO answers getppid(2).
pub(crate) struct SystemCall;

impl Iteration for SystemCall {
    #[inline(always)]
    fn iterate(&mut self, _number: u64, _before: Gap) -> bool {
        std::hint::black_box(rustix::process::getppid());
        true
    }
}

/// Hits the tracepoint: calls `hit` with the loop's number, and the duration of the longest loop since the last hit in
/// nanoseconds.
pub(crate) struct TracepointHit<F> {
    hit: F,
    hits: u64,
    /// Nanoseconds of a cycle in units of 2^-32, rounded up: a multiplication and a shift convert cycles, where
    /// floating point would take a dozen instructions.
    scale: u64,
}

impl<F: Fn(u64, u64)> TracepointHit<F> {
    pub(crate) fn new(hit: F, rate: &Rate) -> Self {
        Self { hit, hits: 0, scale: (1e9 / rate.hertz * 2f64.powi(32)).ceil() as u64 }
    }

    #[inline(always)]
    fn nanoseconds(&self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.scale)) >> 32) as u64
    }
}

impl<F: Fn(u64, u64)> Iteration for TracepointHit<F> {
    #[inline(always)]
    fn iterate(&mut self, number: u64, before: Gap) -> bool {
        (self.hit)(number, self.nanoseconds(before.cycles));
        self.hits += 1;
        true
    }

    fn hits(&self) -> u64 {
        self.hits
    }
}

/// Limits on hits of the tracepoint, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HitLimits {
    /// Least time between two hits.
    pub(crate) period: u64,
    /// Length of the window in which it is hit; `u64::MAX` has no end.
    pub(crate) trace: u64,
    /// Length of the pause after that, which is not measured.
    pub(crate) wait: u64,
}

/// Hits the tracepoint with limits. A hit has the duration of the longest loop since the last one, so a condition on
/// the duration still covers each loop.
pub(crate) struct Limited<'a, F> {
    hit: TracepointHit<F>,
    limits: HitLimits,
    /// Time of the next hit in cycles.
    due: u64,
    /// Start of the window in cycles.
    begin: u64,
    /// The longest loop since the last hit, in cycles.
    longest: u64,
    monitor: &'a Monitor,
}

impl<'a, F: Fn(u64, u64)> Limited<'a, F> {
    pub(crate) fn new(hit: TracepointHit<F>, limits: HitLimits, monitor: &'a Monitor) -> Self {
        let now = cycles();
        Self { hit, limits, due: now, begin: now, longest: 0, monitor }
    }

    /// Pauses busily, so that the tracer's own work has to run on other CPUs.
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

impl<F: Fn(u64, u64)> Iteration for Limited<'_, F> {
    #[inline(always)]
    fn iterate(&mut self, number: u64, before: Gap) -> bool {
        let now = before.end;
        self.longest = self.longest.max(before.cycles);
        if now.saturating_sub(self.begin) >= self.limits.trace {
            self.wait();
            return false;
        }
        if now >= self.due {
            self.hit.iterate(number, Gap { cycles: self.longest, ..before });
            self.longest = 0;
            self.due = next_due(self.due, now, self.limits.period);
        }
        true
    }

    fn hits(&self) -> u64 {
        self.hit.hits
    }
}

/// Time of the next hit, after one that was due at `due` and came at `now`: on the same grid, unless a whole period was
/// missed. Missed hits are not made up for.
fn next_due(due: u64, now: u64, period: u64) -> u64 {
    let next = due.saturating_add(period);
    if next > now { next } else { now.saturating_add(period) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const RATE: Rate = Rate { hertz: 3e9, uncertainty: 0.0 };

    fn at(end: u64) -> Gap {
        Gap { end, cycles: 0 }
    }

    #[test]
    fn a_hit_has_the_duration_of_the_loop_before() {
        let hits = RefCell::new(Vec::new());
        let mut iteration =
            TracepointHit::new(|number, duration| hits.borrow_mut().push((number, duration)), &RATE);
        // The durations reach from zero to a month.
        for (number, cycles) in [0, 3, 150_000, 7_776_000_000_000_000].into_iter().enumerate() {
            assert!(iteration.iterate(number as u64, Gap { end: 1, cycles }));
        }
        let [none, short, long, month] = hits.take()[..] else { panic!("four hits") };
        assert_eq!([none, long], [(0, 0), (2, 50_000)]);
        assert!(
            short.1 == 1 && month.1.abs_diff(2_592_000_000_000_000) < 2_592_000_000,
            "{short:?} {month:?}"
        );
    }

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
        let limits = HitLimits { period: 10, trace: u64::MAX, wait: 0 };
        let hit = TracepointHit::new(|number, _| hits.borrow_mut().push(number), &RATE);
        let mut iteration = Limited::new(hit, limits, &monitor);
        iteration.due = 100;
        for now in (100..140).step_by(3).chain([175, 178, 184, 185]) {
            assert!(iteration.iterate(now, at(now)));
        }
        assert_eq!((iteration.hits(), hits.take()), (6, vec![100, 112, 121, 130, 175, 185]));
    }

    #[test]
    fn a_loop_without_a_hit_is_reported_with_the_next_hit() {
        let hits = RefCell::new(Vec::new());
        let monitor = Monitor::default();
        let limits = HitLimits { period: 1000, trace: u64::MAX, wait: 0 };
        let hit = TracepointHit::new(
            |_, duration| hits.borrow_mut().push(duration),
            &Rate { hertz: 1e9, uncertainty: 0.0 },
        );
        let mut iteration = Limited::new(hit, limits, &monitor);
        iteration.due = 0;
        for (end, cycles) in [(0, 5), (100, 100), (800, 700), (810, 10), (1000, 190), (1100, 100), (2000, 3)]
        {
            assert!(iteration.iterate(0, Gap { end, cycles }));
        }
        assert_eq!(hits.take(), [5, 700, 100]);
    }

    #[test]
    fn a_turn_that_waits_does_not_count_and_a_new_window_begins() {
        let monitor = Monitor::default();
        let limits = HitLimits { period: 0, trace: 1_000_000_000, wait: 10_000 };
        let mut iteration = Limited::new(TracepointHit::new(|_, _| (), &RATE), limits, &monitor);
        let begin = iteration.begin;
        assert!(iteration.iterate(0, at(begin)) && !iteration.iterate(1, at(begin + 1_000_000_000)));
        assert!(iteration.begin >= begin + 10_000);
        assert!(iteration.iterate(2, at(iteration.begin)) && iteration.hits() == 2);
    }

    #[test]
    fn a_sweep_touches_each_cache_line_to_the_last() {
        let mut sweep = Sweep(vec![0; 200]);
        sweep.iterate(7, at(0));
        assert_eq!(sweep.0.iter().filter(|byte| **byte == 7).count(), 4);
        assert_eq!(sweep.0[192], 7);
    }
}
