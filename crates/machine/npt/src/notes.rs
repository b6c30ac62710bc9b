//! The measuring loop and its records.

use crate::bursts::Bursts;
use crate::iteration::Iteration;
use crate::{Histogram, Monitor, Plan};
use sordino_clock::{Rate, cycles};
use std::time::Duration;

/// Greatest number of gaps that are recorded one by one. Further gaps are only counted in the histogram.
const MOST_GAPS: usize = 1 << 16;

/// Interval at which the loop checks whether to end, and updates the monitor.
const LOOK: Duration = Duration::from_millis(10);

/// Time between two readings of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// End of the gap: a reading of the cycle counter.
    pub end: u64,
    /// Length of the gap in cycles.
    pub cycles: u64,
}

/// State of the loop. All of its memory is present before the loop starts, and none is added later.
pub(crate) struct Notes<'a> {
    pub(crate) histogram: Histogram,
    pub(crate) gaps: Vec<Gap>,
    /// Number of gaps for which `gaps` had no room.
    pub(crate) gaps_without_room: u64,
    pub(crate) span: (u64, u64),
    pub(crate) longest: u64,
    pub(crate) waited: u64,
    pub(crate) done: u64,
    loops: u64,
    warm_up: u64,
    /// Limits from the plan in cycles: `limit` to `look`.
    limit: u64,
    pace: u64,
    note_over: u64,
    end_at: u64,
    look: u64,
    /// Length of a gap, in cycles, from which it is more than a count in the histogram: long enough to be recorded, or
    /// the longest so far.
    notice: u64,
    /// Time, in cycles after the first loop, at which there is more to do than to measure.
    attend_at: u64,
    bursts: Bursts,
    rate: Rate,
    monitor: &'a Monitor,
}

impl<'a> Notes<'a> {
    pub(crate) fn new(plan: &Plan, rate: &Rate, monitor: &'a Monitor) -> Self {
        let cycles = |time| in_cycles(time, rate);
        let mut gaps = vec![Gap { end: 1, cycles: 1 }; MOST_GAPS];
        gaps.fill(std::hint::black_box(Gap { end: 0, cycles: 0 }));
        gaps.clear();
        Self {
            histogram: Histogram::new(),
            gaps,
            gaps_without_room: 0,
            span: (0, 0),
            longest: 0,
            waited: 0,
            done: 0,
            loops: plan.loops,
            warm_up: plan.warm_up,
            limit: plan.duration.map_or(u64::MAX, cycles),
            pace: cycles(plan.pace),
            note_over: cycles(plan.note_over.min(plan.end_at.unwrap_or(Duration::MAX))),
            end_at: plan.end_at.map_or(u64::MAX, cycles),
            look: cycles(LOOK),
            notice: 0,
            attend_at: 0,
            bursts: Bursts::new(plan.faults_at.iter().copied().map(cycles)),
            rate: *rate,
            monitor,
        }
    }

    /// Runs the main loop of the papers' npt.
    #[inline(never)]
    pub(crate) fn measure(&mut self, body: &mut impl Iteration) {
        let mut before = Gap { end: cycles(), cycles: 0 };
        for _ in 0..self.warm_up {
            body.iterate(0, before);
            before = self.next(before);
            if self.monitor.is_stopped() {
                break;
            }
        }
        let first = before.end;
        let mut number = 0;
        while number < self.loops {
            let counts = body.iterate(number + 1, before);
            before = self.next(before);
            if counts {
                number += 1;
                self.histogram.record(before.cycles);
                if before.cycles >= self.notice && self.note(before) {
                    // Another hit puts the end of this gap into the trace.
                    body.iterate(number + 1, before);
                    break;
                }
            } else {
                self.waited += before.cycles;
                // No loop took that long: it was a pause.
                before.cycles = 0;
            }
            let since = before.end.wrapping_sub(first);
            if since >= self.attend_at && self.attend(since, number) {
                break;
            }
        }
        self.span = (first, before.end);
        self.done = number;
        self.monitor.show(number, self.rate.nanoseconds(self.longest));
    }

    /// Waits for the pace, or until the measurement is stopped, and returns the gap since `before`.
    #[inline(always)]
    fn next(&self, before: Gap) -> Gap {
        loop {
            let end = cycles();
            let cycles = end.wrapping_sub(before.end);
            if cycles >= self.pace || self.monitor.is_stopped() {
                return Gap { end, cycles };
            }
        }
    }

    /// Records a gap that is long, or the longest so far. Returns true if it ends the measurement.
    #[cold]
    fn note(&mut self, gap: Gap) -> bool {
        self.longest = self.longest.max(gap.cycles);
        self.notice = self.note_over.min(self.longest.saturating_add(1));
        if gap.cycles >= self.note_over {
            if self.gaps.len() < self.gaps.capacity() {
                self.gaps.push(gap);
            } else {
                self.gaps_without_room += 1;
            }
        }
        let is_the_end = gap.cycles >= self.end_at;
        if is_the_end {
            self.monitor.stop();
        }
        is_the_end
    }

    /// Does what is due `since` cycles after the first loop. Returns true if the measurement is over.
    #[cold]
    fn attend(&mut self, since: u64, loops: u64) -> bool {
        self.monitor.show(loops, self.rate.nanoseconds(self.longest));
        if since >= self.limit || self.monitor.is_stopped() {
            return true;
        }
        if since >= self.bursts.next {
            self.bursts.fault();
        }
        self.attend_at = self.limit.min(self.bursts.next).min(since.saturating_add(self.look));
        false
    }
}

/// Converts a time to cycles; a time that is too long becomes `u64::MAX`.
pub(crate) fn in_cycles(time: Duration, rate: &Rate) -> u64 {
    (time.as_secs_f64() * rate.hertz) as u64
}
