//! Threads that run the measuring loop.

use crate::iteration::{HitLimits, Idle, Iteration, Limited, Sweep, SystemCall, TracepointHit};
use crate::notes::{Notes, in_cycles};
use crate::{Body, Error, Gap, Histogram, Monitor, Plan};
use sordino_clock::{Rate, Sample};
use sordino_sched::{CpuList, MemoryLock, Policy, lock_memory, set_affinity, set_policy};
use std::thread;
use std::time::{Duration, Instant};

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Times from one loop to the next in cycles, without warm-up and pauses.
    pub histogram: Histogram,
    /// Gaps of at least [`Plan::note_over`] in the order of time; at most 65,536.
    pub gaps: Vec<Gap>,
    /// Number of further gaps of at least that length, which only the histogram has.
    pub gaps_without_room: u64,
    /// The longest gap in cycles.
    pub longest: u64,
    /// First and last reading of the clock in cycles.
    pub span: (u64, u64),
    /// Cycles of that span that do not count, because the loop paused between windows.
    pub waited: u64,
    /// Number of hits of the tracepoint, warm-up included.
    pub hits: u64,
    /// Rate of the cycle counter during the measurement.
    pub rate: Rate,
}

impl Measured {
    /// Returns the duration in cycles, without pauses.
    pub fn cycles(&self) -> u64 {
        self.span.1.saturating_sub(self.span.0).saturating_sub(self.waited)
    }

    /// Returns the duration in seconds, without pauses.
    pub fn seconds(&self) -> f64 {
        self.rate.nanoseconds(self.cycles()) / 1e9
    }

    /// Combines measurements into one sample, with the sum of their durations. `None` if there are none.
    pub fn combined(several: &[Self]) -> Option<Self> {
        let (first, others) = several.split_first()?;
        let mut all = first.clone();
        for other in others {
            all.histogram.add(&other.histogram);
            all.gaps.extend(&other.gaps);
            all.gaps_without_room += other.gaps_without_room;
            all.longest = all.longest.max(other.longest);
            all.span.1 += other.span.1 - other.span.0;
            all.waited += other.waited;
            all.hits += other.hits;
        }
        all.gaps.sort_by_key(|gap| gap.end);
        Some(all)
    }
}

/// Measures as planned, in a new thread, with sordino's tracepoint.
///
/// Locked memory stays locked afterwards.
///
/// # Errors
/// Returns the reason why nothing was measured.
pub fn run(plan: &Plan) -> Result<Measured, Error> {
    run_watched(plan, &Monitor::default(), hit)
}

/// Hits the tracepoint `npt:loop`, as [`run`] does. A session with the trigger `npt:loop if duration > 50us` takes a
/// snapshot for each longer gap; if hits are limited ([`Plan::most_hits`]), at the next hit.
#[inline(always)]
pub fn hit(number: u64, duration: u64) {
    sordino::tracepoint!(npt:loop, number: u64 = number, duration: u64 = duration);
}

/// Measures like [`run`], with a monitor and with another tracer's tracepoint. `hit` gets the loop's number, and the
/// duration of the loop before it in nanoseconds: the longest since the previous hit if hits are limited, 0 after a
/// pause between windows.
///
/// # Errors
/// Returns the reason why nothing was measured.
pub fn run_watched(plan: &Plan, monitor: &Monitor, hit: impl Fn(u64, u64) + Send) -> Result<Measured, Error> {
    if plan.lock_memory {
        lock_memory(MemoryLock::All).map_err(Error::Memory)?;
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("npt".to_owned());
        let handle = thread.spawn_scoped(scope, || measure(plan, monitor, hit)).map_err(Error::Thread)?;
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Measures on all `cpus` at once, so that disturbances of one by another are included. Returns the results in the
/// order of `cpus`. There is one monitor for each CPU, and [`Plan::cpu`] is ignored. A gap that ends the measurement on
/// one CPU ends all.
///
/// # Errors
/// Returns the reason why nothing was measured on one of them; the measurements on the others end early then.
pub fn run_on(
    cpus: &CpuList,
    plan: &Plan,
    monitors: &[Monitor],
    hit: impl Fn(u64, u64) + Sync,
) -> Result<Vec<Measured>, Error> {
    if plan.lock_memory {
        lock_memory(MemoryLock::All).map_err(Error::Memory)?;
    }
    on_each(cpus, plan, monitors, |plan, monitor| measure(plan, monitor, &hit))
}

/// Calls `measure` in a new thread for each of `cpus`. If one fails or is stopped, all end.
pub(crate) fn on_each(
    cpus: &CpuList,
    plan: &Plan,
    monitors: &[Monitor],
    measure: impl Fn(&Plan, &Monitor) -> Result<Measured, Error> + Sync,
) -> Result<Vec<Measured>, Error> {
    let stop_all = || monitors.iter().for_each(Monitor::stop);
    let measure_on = |cpu, monitor: &Monitor| {
        let measured = measure(&Plan { cpu: Some(cpu), ..plan.clone() }, monitor);
        if measured.is_err() || monitor.is_stopped() {
            stop_all();
        }
        measured
    };
    thread::scope(|scope| {
        let start = |(&cpu, monitor)| {
            let (thread, measure_on) = (thread::Builder::new().name("npt".to_owned()), &measure_on);
            let started = thread.spawn_scoped(scope, move || measure_on(cpu, monitor));
            started.map_err(Error::Thread).inspect_err(|_| stop_all())
        };
        let threads: Vec<_> = cpus.as_slice().iter().zip(monitors).map(start).collect();
        let join = |thread: Result<thread::ScopedJoinHandle<'_, _>, Error>| {
            thread?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Time for which the CPU is kept busy before and during the measurement of its cycle counter's rate, so that a clock
/// that follows the load has settled, as in the papers.
const STRESS: Duration = Duration::from_millis(50);

fn stress() {
    let begin = Instant::now();
    while begin.elapsed() < STRESS {
        std::hint::spin_loop();
    }
}

fn evaluate_rate() -> Option<Rate> {
    stress();
    let earlier = Sample::take();
    stress();
    Rate::between(&earlier, &Sample::take())
}

fn measure(plan: &Plan, monitor: &Monitor, hit: impl Fn(u64, u64)) -> Result<Measured, Error> {
    if let Some(cpu) = plan.cpu {
        set_affinity(&CpuList::new([cpu])).map_err(|source| Error::Affinity { cpu, source })?;
    }
    let guess = evaluate_rate().ok_or(Error::Nothing)?;
    let mut notes = Notes::new(plan, &guess, monitor);
    let sweep = sweep(plan)?;
    if plan.lock_memory && !plan.faults_at.is_empty() {
        // If future mappings stayed locked, the burst's memory would be present at once, without a fault.
        lock_memory(MemoryLock::Present).map_err(Error::Memory)?;
    }
    set_policy(plan.policy)?;
    let before = Sample::take();
    sordino::tracepoint!(npt:start, loops: u64 = plan.loops, pace_ns: u64 = plan.pace.as_nanos() as u64);
    let hits = match plan.body {
        Body::Empty => trace(&mut notes, plan, &guess, monitor, Idle, hit),
        Body::Memory(_) => trace(&mut notes, plan, &guess, monitor, sweep, hit),
        Body::SystemCall => trace(&mut notes, plan, &guess, monitor, SystemCall, hit),
    };
    sordino::tracepoint!(npt:stop, loops: u64 = notes.done);
    let after = Sample::take();
    set_policy(Policy::Other)?;
    // The rate over a short run is less certain than the one measured before it.
    let own = Rate::between(&before, &after).filter(|own| own.uncertainty < guess.uncertainty);
    Ok(Measured {
        histogram: notes.histogram,
        gaps: notes.gaps,
        gaps_without_room: notes.gaps_without_room,
        longest: notes.longest,
        span: notes.span,
        waited: notes.waited,
        hits,
        rate: own.unwrap_or(guess),
    })
}

/// Allocates the memory that the loop sweeps, all of it present.
fn sweep(plan: &Plan) -> Result<Sweep, Error> {
    let Body::Memory(size) = plan.body else { return Ok(Sweep(Vec::new())) };
    let mut memory = Vec::new();
    memory.try_reserve_exact(size).map_err(|_| Error::Sweep(size))?;
    memory.resize(size, std::hint::black_box(1));
    Ok(Sweep(memory))
}

/// Runs the loop with `body` and, if the plan has it, the tracepoint. Returns the number of hits.
fn trace(
    notes: &mut Notes<'_>,
    plan: &Plan,
    rate: &Rate,
    monitor: &Monitor,
    mut body: impl Iteration,
    hit: impl Fn(u64, u64),
) -> u64 {
    if !plan.tracepoint {
        notes.measure(&mut body);
        return 0;
    }
    if plan.most_hits.is_none() && plan.windows.is_none() {
        let mut both = (body, TracepointHit::new(hit, rate));
        notes.measure(&mut both);
        both.hits()
    } else {
        let mut both = (body, Limited::new(TracepointHit::new(hit, rate), limits(plan, rate), monitor));
        notes.measure(&mut both);
        both.hits()
    }
}

fn limits(plan: &Plan, rate: &Rate) -> HitLimits {
    HitLimits {
        // The period is rounded up, so that hits are never more frequent.
        period: plan.most_hits.map_or(0, |frequency| (rate.hertz / frequency).ceil() as u64),
        trace: plan.windows.map_or(u64::MAX, |(trace, _)| in_cycles(trace, rate)),
        wait: plan.windows.map_or(0, |(_, wait)| in_cycles(wait, rate)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_sched::Policy;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

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
        // The pace is kept by the rate known before the run.
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
            // Faulting in a megabyte takes longer than this on any machine.
            faults_at: vec![Duration::from_millis(10), Duration::from_secs(15)],
            end_at: Some(Duration::from_micros(30)),
            ..plan()
        };
        let measured = run(&plan).unwrap();
        let last = measured.gaps.last().expect("the gap");
        assert_eq!(measured.longest, measured.gaps.iter().map(|gap| gap.cycles).max().unwrap());
        assert!(measured.rate.nanoseconds(last.cycles) >= 29_900.0 && last.end == measured.span.1);
        assert!(measured.rate.nanoseconds(measured.span.1 - measured.span.0) < 15e9);
    }

    #[test]
    fn each_burst_of_faults_shows_as_a_gap() {
        let measured = run(&Plan {
            loops: u64::MAX,
            duration: Some(Duration::from_millis(600)),
            // The order of bursts does not matter.
            faults_at: [300, 10].map(Duration::from_millis).to_vec(),
            note_over: Duration::from_micros(5),
            ..plan()
        })
        .unwrap();
        let begin = measured.span.0;
        let at = |gap: &Gap| measured.rate.nanoseconds(gap.end - begin) / 1e6;
        for burst in [9.9..300.0, 299.9..600.0] {
            assert!(measured.gaps.iter().any(|gap| burst.contains(&at(gap))), "{:?}", measured.gaps);
        }
    }

    #[test]
    fn who_looks_on_sees_how_far_it_is_and_ends_it() {
        // No gap is long enough to be noted: the longest is known all the same.
        let note_over = Duration::from_secs(3600);
        let (monitor, endless) = (Monitor::default(), Plan { loops: u64::MAX, note_over, ..plan() });
        let measured = thread::scope(|scope| {
            let loops = scope.spawn(|| run_watched(&endless, &monitor, hit).unwrap());
            while monitor.loops() == 0 {
                thread::yield_now();
            }
            assert!(monitor.longest() > Duration::ZERO);
            monitor.stop();
            loops.join().unwrap()
        });
        assert_eq!(measured.histogram.count(), monitor.loops());
        let last = measured.histogram.buckets().next_back().unwrap();
        assert!(last.low <= measured.longest && measured.longest <= last.high);
    }

    #[test]
    fn a_pause_between_windows_is_no_loop_s_duration() {
        let window = Duration::from_millis(200);
        let windows = Some((Duration::from_millis(1), window));
        let (longest, hits) = (AtomicU64::new(0), AtomicU64::new(0));
        let plan = Plan { loops: u64::MAX, duration: Some(3 * window), windows, ..plan() };
        let measured = run_watched(&plan, &Monitor::default(), |_, duration| {
            hits.fetch_add(1, Relaxed);
            longest.fetch_max(duration, Relaxed);
        });
        let measured = measured.unwrap();
        assert!(measured.waited > 0 && hits.into_inner() == measured.hits);
        // The histogram has all loops, and no pause.
        let all = measured.rate.nanoseconds(measured.longest);
        assert!(longest.into_inner() as f64 <= all + 1.0, "{all}");
    }

    #[test]
    fn a_tracepoint_of_another_kind_is_hit_as_often_as_it_may_be() {
        let hits = AtomicU64::new(0);
        let count = |_, _| _ = hits.fetch_add(1, Relaxed);
        let few = Plan {
            loops: u64::MAX,
            duration: Some(Duration::from_millis(100)),
            most_hits: Some(1000.0),
            ..plan()
        };
        let measured = run_watched(&few, &Monitor::default(), count).unwrap();
        assert_eq!(measured.hits, hits.load(Relaxed));
        assert!((1..=101).contains(&measured.hits), "{}", measured.hits);
        assert!(measured.histogram.count() > measured.hits);
        let each = run(&Plan { loops: 500, warm_up: 3, ..plan() }).unwrap();
        assert_eq!(each.hits, 503);
        let none = run(&Plan { loops: 500, tracepoint: false, ..plan() }).unwrap();
        assert_eq!(none.hits, 0);
    }

    #[test]
    fn what_the_loop_waits_does_not_count() {
        let windows = Some((Duration::from_millis(5), Duration::from_millis(20)));
        let duration = Some(Duration::from_millis(110));
        let measured = run(&Plan { loops: u64::MAX, duration, windows, ..plan() }).unwrap();
        let waited = measured.rate.nanoseconds(measured.waited);
        assert!(waited > 39e6, "{waited}");
        assert!(
            measured.histogram.buckets().map(|bucket| bucket.low * bucket.count).sum::<u64>()
                <= measured.cycles()
        );
        assert!(measured.cycles() + measured.waited == measured.span.1 - measured.span.0);
    }

    #[test]
    fn bodies_take_the_time_that_they_take() {
        let median = |body| {
            let measured = run(&Plan { loops: 2_000, tracepoint: false, body, ..plan() }).unwrap();
            crate::GapStatistics::of(&measured).percentiles[0].gap_ns
        };
        let empty = median(Body::Empty);
        assert!(median(Body::SystemCall) > empty && median(Body::Memory(1 << 20)) > 10.0 * empty);
        let huge = Plan { body: Body::Memory(usize::MAX / 2), ..plan() };
        assert!(matches!(run(&huge), Err(Error::Sweep(_))));
    }

    #[test]
    fn several_cpus_are_measured_at_once_or_none() {
        let ours = sordino_sched::affinity().unwrap();
        let monitors: Vec<_> = ours.as_slice().iter().map(|_| Monitor::default()).collect();
        let all = run_on(&ours, &Plan { loops: 1000, ..plan() }, &monitors, hit).unwrap();
        assert!(all.len() == ours.as_slice().len() && all.iter().all(|one| one.histogram.count() == 1000));
        let (bad, monitors) =
            (CpuList::new([ours.as_slice()[0], 60_000]), [Monitor::default(), Monitor::default()]);
        let endless = Plan { loops: u64::MAX, ..plan() };
        assert!(matches!(run_on(&bad, &endless, &monitors, hit), Err(Error::Affinity { cpu: 60_000, .. })));
    }

    #[test]
    fn the_gap_that_ends_one_cpus_loop_ends_all() {
        let ours = sordino_sched::affinity().unwrap();
        let monitors: Vec<_> = ours.as_slice().iter().map(|_| Monitor::default()).collect();
        let plan = Plan {
            loops: u64::MAX,
            duration: Some(Duration::from_secs(60)),
            end_at: Some(Duration::from_millis(1400)),
            ..plan()
        };
        let is_asleep = AtomicBool::new(false);
        let sleep_once = |number, _| {
            if number == 10_000 && !is_asleep.swap(true, Relaxed) {
                thread::sleep(Duration::from_millis(1500));
            }
        };
        let all = run_on(&ours, &plan, &monitors, sleep_once).unwrap();
        assert!(all.iter().all(|one| one.seconds() < 50.0), "{:?}", all.iter().map(Measured::seconds));
    }

    #[test]
    fn a_loop_that_keeps_a_long_pace_is_stopped_all_the_same() {
        let monitor = Monitor::default();
        monitor.stop();
        let plan = Plan { loops: 1, warm_up: 0, pace: Duration::from_secs(60), ..plan() };
        assert!(run_watched(&plan, &monitor, hit).unwrap().seconds() < 50.0);
    }

    #[test]
    fn limits_are_in_cycles_and_a_frequency_is_never_exceeded() {
        let rate = Rate { hertz: 1e9, uncertainty: 0.0 };
        let of = |most_hits, windows| limits(&Plan { most_hits, windows, ..plan() }, &rate);
        assert_eq!(of(None, None), HitLimits { period: 0, trace: u64::MAX, wait: 0 });
        assert_eq!([3e8, 1e9, 1e-30].map(|hits| of(Some(hits), None).period), [4, 1, u64::MAX]);
        let windows = of(None, Some((Duration::from_micros(3), Duration::from_millis(5))));
        assert_eq!(windows, HitLimits { period: 0, trace: 3_000, wait: 5_000_000 });
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        let error = run(&Plan { cpu: Some(60_000), ..plan() }).unwrap_err();
        assert!(matches!(error, Error::Affinity { cpu: 60_000, .. }), "{error}");
    }
}
