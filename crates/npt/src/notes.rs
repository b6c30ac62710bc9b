//! The measuring loop, and what it writes down.

use crate::bursts::Bursts;
use crate::turn::Turn;
use crate::{Histogram, Monitor, Plan};
use sordino_clock::{Rate, cycles};
use std::time::Duration;

/// Gaps that are noted one by one, at most. More are counted in the histogram alone.
const MOST_GAPS: usize = 1 << 16;

/// How often the loop looks whether it is to end, and shows how far it is.
const LOOK: Duration = Duration::from_millis(10);

/// What lies between two readings of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When it ended, in cycles.
    pub end: u64,
    /// How long it was.
    pub cycles: u64,
}

/// What the loop reads and writes; all of it present in memory before it starts, and none added however long it runs.
pub(crate) struct Notes<'a> {
    pub(crate) histogram: Histogram,
    pub(crate) gaps: Vec<Gap>,
    /// Gaps as long as those, for which there was no room.
    pub(crate) gaps_without_room: u64,
    pub(crate) span: (u64, u64),
    pub(crate) longest: u64,
    pub(crate) waited: u64,
    pub(crate) done: u64,
    loops: u64,
    warm_up: u64,
    /// The rest in cycles.
    limit: u64,
    pace: u64,
    note_over: u64,
    end_at: u64,
    look: u64,
    /// What a gap has to reach to be more than a count in the histogram: to be noted, or the longest so far.
    notice: u64,
    /// When, after the first loop, there is more to do than to measure.
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

    /// The main loop of the papers' npt.
    #[inline(never)]
    pub(crate) fn measure(&mut self, body: &mut impl Turn) {
        let mut before = Gap { end: cycles(), cycles: 0 };
        for _ in 0..self.warm_up {
            body.turn(0, before);
            before = self.next(before);
            if self.monitor.is_stopped() {
                break;
            }
        }
        let first = before.end;
        let mut number = 0;
        while number < self.loops {
            let counts = body.turn(number + 1, before);
            before = self.next(before);
            if counts {
                number += 1;
                self.histogram.record(before.cycles);
                if before.cycles >= self.notice && self.note(before) {
                    // Its end is in the trace, too.
                    body.turn(number + 1, before);
                    break;
                }
            } else {
                self.waited += before.cycles;
                // No loop took that long.
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

    /// The gap behind `before`: to where the clock is once the pace is kept, or the measurement is stopped.
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

    /// A gap that is long, or the longest so far; whether it ends the measurement.
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

    /// What is due `since` so many cycles after the first loop; whether it is the end.
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

/// A time in cycles; one that does not fit is the longest there is.
pub(crate) fn in_cycles(time: Duration, rate: &Rate) -> u64 {
    (time.as_secs_f64() * rate.hertz) as u64
}
