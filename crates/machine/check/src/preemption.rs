//! The papers' preempt-test: measures how fast a thread preempts one of a lower priority.
//!
//! Threads of rising priorities wait on one CPU. The lowest wakes the next, which preempts it at once and wakes its own
//! next, and so on. Each thread measures the time from being woken to its first instruction. When the lowest thread has
//! its CPU back, all others must have run, however long that took: otherwise the kernel did not respect priorities.

use crate::Samples;
use sordino_clock::{Rate, cycles};
use sordino_npt::Histogram;
use sordino_sched::{BadPolicy, CpuList, Policy, set_affinity, set_policy};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Result of the measurement.
#[derive(Clone, Debug)]
pub struct Preemption {
    /// Times from the call that wakes a thread to that thread's first instruction.
    pub times: Samples,
    /// Number of rounds that the lowest thread started.
    pub rounds: u64,
    /// Number of rounds in which the lowest thread continued before all others had run.
    pub out_of_order: u64,
}

/// Reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The thread could not be bound to the CPU.
    #[error("can't run on CPU {cpu}: {source}")]
    Affinity {
        /// Number of the CPU.
        cpu: u32,
        /// Error that the kernel returned.
        source: io::Error,
    },
    /// A real-time priority could not be set.
    #[error(transparent)]
    Policy(#[from] BadPolicy),
    /// A thread could not be created.
    #[error("can't start a thread: {0}")]
    Thread(io::Error),
    /// The rate of the cycle counter could not be measured.
    #[error("no time passed while the clock's rate was measured")]
    Clock,
}

/// The lowest thread's priority. All are above the kernel's threaded interrupt handlers (50) and below its most urgent
/// threads (99).
const LOWEST: u8 = 60;
/// Number of threads and priorities.
const LEVELS: u8 = 8;
/// Pause between two rounds, in which other threads can run.
const REST: Duration = Duration::from_micros(200);

/// State shared by the threads. All accesses are sequentially consistent, the strongest order: one CPU runs all
/// threads, and the wake-ups that are measured take far longer.
struct Shared {
    /// Last round of each level.
    rounds: Vec<AtomicU64>,
    /// Time at which the level below woke it, in cycles.
    woken_at: Vec<AtomicU64>,
    ready: AtomicU32,
    is_over: AtomicBool,
}

/// Measures on `cpu` for `time`, or until `stop` is set.
///
/// # Errors
/// Returns an error if the CPU, the priority, the threads or the clock were not available.
pub fn run(cpu: u32, time: Duration, stop: &AtomicBool) -> Result<Preemption, Error> {
    let rate = Rate::measure(Duration::from_millis(50)).ok_or(Error::Clock)?;
    let fresh = || (0..LEVELS).map(|_| AtomicU64::new(0)).collect();
    let shared = Shared {
        rounds: fresh(),
        woken_at: fresh(),
        ready: AtomicU32::new(0),
        is_over: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let mut above: Option<Thread> = None;
        let mut threads = Vec::new();
        let mut failure = None;
        for level in (1..LEVELS).rev() {
            let (next, shared) = (above.clone(), &shared);
            let body = move || woken(level, cpu, next.as_ref(), shared);
            match thread::Builder::new().name(format!("preempt{level}")).spawn_scoped(scope, body) {
                Ok(handle) => {
                    above = Some(handle.thread().clone());
                    threads.push(handle);
                }
                Err(error) => failure = Some(Error::Thread(error)),
            }
        }
        let shared = &shared;
        let lowest = scope.spawn(move || match (failure, above) {
            (None, Some(next)) => begin(cpu, time, stop, &next, shared),
            (failure, _) => Err(failure.unwrap_or(Error::Clock)),
        });
        let counted = lowest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        shared.is_over.store(true, SeqCst);
        let mut histograms = Vec::new();
        for thread in threads {
            thread.thread().unpark();
            histograms.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        let (rounds, out_of_order) = counted?;
        let histograms = histograms.into_iter().collect::<Result<Vec<_>, Error>>()?;
        Ok(Preemption { times: samples(&histograms, &rate), rounds, out_of_order })
    })
}

/// The longest time in cycles, and a histogram of all.
type Noted = (u64, Histogram);

fn go_to(level: u8, cpu: u32) -> Result<(), Error> {
    set_affinity(&CpuList::new([cpu])).map_err(|source| Error::Affinity { cpu, source })?;
    Ok(set_policy(Policy::Fifo(LOWEST + level))?)
}

/// Body of all threads but the lowest: waits, measures, wakes the next.
fn woken(level: u8, cpu: u32, next: Option<&Thread>, shared: &Shared) -> Result<Noted, Error> {
    let mut noted = (0, Histogram::new());
    let is_there = go_to(level, cpu);
    shared.ready.fetch_add(1, SeqCst);
    is_there?;
    let own = &shared.rounds[usize::from(level)];
    let (below, woken_at) = (&shared.rounds[usize::from(level) - 1], &shared.woken_at[usize::from(level)]);
    loop {
        // `park` may return spuriously.
        while below.load(SeqCst) == own.load(SeqCst) {
            if shared.is_over.load(SeqCst) {
                return Ok(noted);
            }
            thread::park();
        }
        let took = cycles().saturating_sub(woken_at.load(SeqCst));
        noted.0 = noted.0.max(took);
        noted.1.record(took);
        own.store(below.load(SeqCst), SeqCst);
        wake(level + 1, next, shared);
    }
}

fn wake(level: u8, next: Option<&Thread>, shared: &Shared) {
    if let (Some(next), Some(woken_at)) = (next, shared.woken_at.get(usize::from(level))) {
        woken_at.store(cycles(), SeqCst);
        next.unpark();
    }
}

/// Body of the lowest thread: returns the number of rounds, and of those that were out of order.
fn begin(
    cpu: u32,
    time: Duration,
    stop: &AtomicBool,
    next: &Thread,
    shared: &Shared,
) -> Result<(u64, u64), Error> {
    while shared.ready.load(SeqCst) < u32::from(LEVELS) - 1 {
        thread::sleep(REST);
    }
    go_to(0, cpu)?;
    let (start, mut round, mut out_of_order) = (Instant::now(), 0, 0);
    while start.elapsed() < time && !stop.load(SeqCst) {
        thread::sleep(REST);
        round += 1;
        shared.rounds[0].store(round, SeqCst);
        wake(1, Some(next), shared);
        if shared.rounds.iter().any(|of_level| of_level.load(SeqCst) != round) {
            out_of_order += 1;
            // Lets a late thread catch up, so that its delay is counted once.
            thread::sleep(REST);
        }
    }
    set_policy(Policy::Other)?;
    Ok((round, out_of_order))
}

fn samples(histograms: &[Noted], rate: &Rate) -> Samples {
    let longest = histograms.iter().map(|(longest, _)| *longest).max().unwrap_or(0);
    Samples::of_cycles(histograms.iter().flat_map(|(_, histogram)| histogram.buckets()), longest, rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_this_machine_priorities_are_kept_or_refused() {
        let cpu = sordino_sched::affinity().unwrap().as_slice()[0];
        match run(cpu, Duration::from_millis(200), &AtomicBool::new(false)) {
            Ok(measured) => {
                let count: u64 = measured.times.bins.iter().map(|bin| bin.count).sum();
                assert!(measured.rounds > 10 && measured.out_of_order == 0, "{measured:?}");
                assert_eq!(count, measured.rounds * (u64::from(LEVELS) - 1));
            }
            Err(error) => assert!(matches!(error, Error::Policy(_)), "{error}"),
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error_and_nobody_waits() {
        let error = run(60_000, Duration::from_secs(60), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, Error::Affinity { cpu: 60_000, .. }), "{error}");
    }
}
