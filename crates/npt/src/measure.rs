//! The measuring thread and its loop.

use crate::{Error, Histogram, Plan};
use sordino_clock::{Rate, Sample, cycles};
use sordino_sched::{CpuList, Lock, lock_memory, set_affinity, set_policy};
use std::thread;
use std::time::Duration;

/// Gaps that are noted one by one, at most. More are counted in the histogram alone.
const MOST_GAPS: usize = 1 << 16;

/// One long gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When it ended, in cycles.
    pub end: u64,
    /// How long it was.
    pub cycles: u64,
}

/// What the loop noted.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Cycles from one loop to the next, of the loops that count.
    pub histogram: Histogram,
    /// The gaps that were long enough to be noted, in time order; at most some 65,000.
    pub gaps: Vec<Gap>,
    /// The first and the last reading of the clock.
    pub span: (u64, u64),
    /// How fast the cycle counter ran meanwhile.
    pub rate: Rate,
}

/// Measures as planned, on a thread of its own.
///
/// Locked memory stays locked afterwards.
///
/// # Errors
/// Why there was no measurement.
pub fn run(plan: &Plan) -> Result<Measured, Error> {
    if plan.lock_memory {
        lock_memory(Lock::All).map_err(Error::Memory)?;
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("npt".to_owned());
        let handle = thread.spawn_scoped(scope, || measure(plan)).map_err(Error::Thread)?;
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measure(plan: &Plan) -> Result<Measured, Error> {
    if let Some(cpu) = plan.cpu {
        set_affinity(&CpuList::new([cpu])).map_err(|source| Error::Affinity { cpu, source })?;
    }
    let guess = Rate::measure(Duration::from_millis(50)).ok_or(Error::Nothing)?;
    let mut notes = Notes::new(plan, &guess);
    if plan.lock_memory && !plan.faults_at.is_empty() {
        // Or the burst's memory would be made present when it is mapped, without a fault.
        lock_memory(Lock::Present).map_err(Error::Memory)?;
    }
    set_policy(plan.policy)?;
    let before = Sample::take();
    sordino::tracepoint!(npt:start, loops: u64 = plan.loops, pace_ns: u64 = plan.pace.as_nanos() as u64);
    if plan.tracepoint {
        notes.measure::<true>();
    } else {
        notes.measure::<false>();
    }
    sordino::tracepoint!(npt:stop, loops: u64 = notes.done);
    let after = Sample::take();
    set_policy(sordino_sched::Policy::Other)?;
    // A short run's own rate is less certain than the one measured before it.
    let own = Rate::between(&before, &after).filter(|own| own.uncertainty < guess.uncertainty);
    Ok(Measured {
        histogram: notes.histogram,
        gaps: notes.gaps,
        span: notes.span,
        rate: own.unwrap_or(guess),
    })
}

/// What the loop reads and writes; all of it present in memory before it starts.
struct Notes {
    histogram: Histogram,
    gaps: Vec<Gap>,
    span: (u64, u64),
    done: u64,
    loops: u64,
    warm_up: u64,
    /// The rest in cycles.
    limit: u64,
    pace: u64,
    note_over: u64,
    end_at: u64,
    bursts: Bursts,
}

impl Notes {
    fn new(plan: &Plan, rate: &Rate) -> Self {
        let cycles = |time: Duration| (time.as_secs_f64() * rate.hertz) as u64;
        let mut gaps = vec![Gap { end: 1, cycles: 1 }; MOST_GAPS];
        gaps.fill(std::hint::black_box(Gap { end: 0, cycles: 0 }));
        gaps.clear();
        Self {
            histogram: Histogram::new(),
            gaps,
            span: (0, 0),
            done: 0,
            loops: plan.loops,
            warm_up: plan.warm_up,
            limit: plan.duration.map_or(u64::MAX, cycles),
            pace: cycles(plan.pace),
            note_over: cycles(plan.note_over.min(plan.end_at.unwrap_or(Duration::MAX))),
            end_at: plan.end_at.map_or(u64::MAX, cycles),
            bursts: Bursts::new(plan.faults_at.iter().copied().map(cycles)),
        }
    }

    /// The main loop of the papers' npt.
    #[inline(never)]
    fn measure<const TRACED: bool>(&mut self) {
        let mut last = cycles();
        for _ in 0..self.warm_up {
            last = self.step::<TRACED>(last, 0);
        }
        let first = last;
        let mut number = 0;
        while number < self.loops && last.wrapping_sub(first) < self.limit {
            number += 1;
            let now = self.step::<TRACED>(last, number);
            let gap = now.wrapping_sub(last);
            last = now;
            self.histogram.record(gap);
            if gap >= self.note_over {
                if self.gaps.len() < self.gaps.capacity() {
                    self.gaps.push(Gap { end: now, cycles: gap });
                }
                if gap >= self.end_at {
                    // Its end is in the trace, too.
                    self.step::<TRACED>(last, number + 1);
                    break;
                }
            }
            if last.wrapping_sub(first) >= self.bursts.next {
                self.bursts.fault();
            }
        }
        self.span = (first, last);
        self.done = number;
    }

    /// One turn: the tracepoint, and the clock until the pace is kept.
    #[inline(always)]
    fn step<const TRACED: bool>(&self, last: u64, number: u64) -> u64 {
        if TRACED {
            sordino::tracepoint!(npt:loop, number: u64 = number, last: u64 = last);
        }
        loop {
            let now = cycles();
            if now.wrapping_sub(last) >= self.pace {
                return now;
            }
        }
    }
}

/// The planted page faults.
struct Bursts {
    /// When the next comes, in cycles after the first loop; never: `u64::MAX`.
    next: u64,
    /// When those after it come, the last first.
    later: Vec<u64>,
    /// What was touched. Given back, it would be there already for the next burst.
    touched: Vec<Vec<u8>>,
}

impl Bursts {
    /// What each burst touches: 256 pages.
    const SIZE: usize = 1 << 20;
    /// Room that is asked for, of which the rest is never touched: more than malloc ever takes from memory that it has
    /// (mallopt(3), `M_MMAP_THRESHOLD`: at most 32 MiB).
    const ROOM: usize = 33 << 20;

    fn new(at: impl Iterator<Item = u64>) -> Self {
        let mut later: Vec<u64> = at.collect();
        later.sort_unstable_by(|a, b| b.cmp(a));
        let touched = Vec::with_capacity(later.len());
        Self { next: later.pop().unwrap_or(u64::MAX), later, touched }
    }

    /// Touches memory that is not there, page by page.
    #[cold]
    #[inline(never)]
    fn fault(&mut self) {
        sordino::tracepoint!(npt:faults_begin);
        let mut memory: Vec<u8> = Vec::with_capacity(Self::ROOM);
        memory.resize(Self::SIZE, 1);
        self.touched.push(memory);
        sordino::tracepoint!(npt:faults_end);
        self.next = self.later.pop().unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_sched::Policy;

    fn plan() -> Plan {
        Plan { policy: Policy::Other, lock_memory: false, ..Plan::default() }
    }

    #[test]
    fn every_loop_that_counts_is_in_the_histogram() {
        let measured = run(&Plan { loops: 10_000, warm_up: 7, ..plan() }).unwrap();
        assert_eq!(measured.histogram.count(), 10_000);
        assert!(measured.span.1 > measured.span.0);
    }

    #[test]
    fn a_paced_loop_is_never_shorter_than_its_pace() {
        let pace = Duration::from_micros(20);
        let measured = run(&Plan { loops: 200, pace, tracepoint: false, ..plan() }).unwrap();
        let least = measured.histogram.buckets().next().unwrap().low;
        // The pace is kept by the rate as it was known before the run.
        assert!(measured.rate.nanoseconds(least) > 19_900.0);
        let total = measured.rate.nanoseconds(measured.span.1 - measured.span.0);
        assert!(total >= 200.0 * 19_900.0);
    }

    #[test]
    fn a_duration_ends_the_loop() {
        let measured =
            run(&Plan { loops: u64::MAX, duration: Some(Duration::from_millis(20)), ..plan() }).unwrap();
        assert!(measured.rate.nanoseconds(measured.span.1 - measured.span.0) > 19e6);
        assert!(measured.histogram.count() > 1_000);
    }

    #[test]
    fn a_gap_that_is_long_enough_ends_it() {
        let plan = Plan {
            loops: u64::MAX,
            duration: Some(Duration::from_secs(20)),
            // Page by page, a megabyte takes longer than this on any machine.
            faults_at: vec![Duration::from_millis(10), Duration::from_secs(15)],
            end_at: Some(Duration::from_micros(30)),
            ..plan()
        };
        let measured = run(&plan).unwrap();
        let last = measured.gaps.last().expect("the gap");
        assert!(measured.rate.nanoseconds(last.cycles) >= 29_900.0 && last.end == measured.span.1);
        assert!(measured.rate.nanoseconds(measured.span.1 - measured.span.0) < 15e9);
    }

    #[test]
    fn each_burst_of_faults_shows_as_a_gap() {
        let measured = run(&Plan {
            loops: u64::MAX,
            duration: Some(Duration::from_millis(50)),
            // In any order.
            faults_at: [30, 10].map(Duration::from_millis).to_vec(),
            note_over: Duration::from_micros(5),
            ..plan()
        })
        .unwrap();
        let begin = measured.span.0;
        let at = |gap: &Gap| measured.rate.nanoseconds(gap.end - begin) / 1e6;
        for burst in [9.9..30.0, 29.9..50.0] {
            assert!(measured.gaps.iter().any(|gap| burst.contains(&at(gap))), "{:?}", measured.gaps);
        }
    }

    #[test]
    fn each_burst_finds_its_memory_missing() {
        let faults = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            // proc(5): minflt is field 10, the third after the comm's parenthesis is field 5.
            fields[7].parse::<u64>().unwrap()
        };
        let mut bursts = Bursts::new([1, 2, 3].into_iter());
        for next in [2, 3, u64::MAX] {
            let before = faults();
            bursts.fault();
            assert!(faults() - before >= 256, "{} faults", faults() - before);
            assert_eq!(bursts.next, next);
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        let error = run(&Plan { cpu: Some(60_000), ..plan() }).unwrap_err();
        assert!(matches!(error, Error::Affinity { cpu: 60_000, .. }), "{error}");
    }
}
