//! Whether a thread of a higher priority preempts one of a lower: the papers' preempt-test.
//!
//! On one CPU, threads of rising priorities wait. The lowest wakes the next, which takes the CPU from it at once, wakes its own next, and
//! so on. Each measures how long that took; and when the lowest has its CPU back, all others must have run, whatever the times were: if
//! not, priorities are not kept.

use crate::Samples;
use sordino_clock::{Rate, cycles};
use sordino_npt::Histogram;
use sordino_sched::{BadPolicy, CpuList, Policy, set_affinity, set_policy};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// What was measured.
#[derive(Clone, Debug)]
pub struct Preemption {
    /// From a thread's waking another to that one's first instruction.
    pub times: Samples,
    /// How often the lowest began.
    pub rounds: u64,
    /// How often a lower thread went on before all those above it had run.
    pub out_of_order: u64,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The CPU can't be had.
    #[error("can't run on CPU {cpu}: {source}")]
    Affinity {
        /// The CPU.
        cpu: u32,
        /// What the kernel says.
        source: io::Error,
    },
    /// Priorities can't be had.
    #[error(transparent)]
    Policy(#[from] BadPolicy),
    /// A thread could not be started.
    #[error("can't start a thread: {0}")]
    Thread(io::Error),
    /// The clock did not run.
    #[error("no time passed while the clock's rate was measured")]
    Clock,
}

/// The priorities: above the kernel's threaded interrupt handlers (50), below what it relies on (99).
const LOWEST: u8 = 60;
/// How many threads.
const LEVELS: u8 = 8;
/// What is left to others between two rounds.
const REST: Duration = Duration::from_micros(200);

/// What the threads share. Each order is the strongest: one CPU runs them all, and they are not measured between these.
struct Shared {
    /// Each level's last round.
    rounds: Vec<AtomicU64>,
    /// When the level below woke it, in cycles.
    woken_at: Vec<AtomicU64>,
    ready: AtomicU32,
    is_over: AtomicBool,
}

/// Measures on `cpu` for that long, or until `stop`.
///
/// # Errors
/// Why nothing was measured.
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

/// The longest in cycles and all in a histogram.
type Noted = (u64, Histogram);

fn go_to(level: u8, cpu: u32) -> Result<(), Error> {
    set_affinity(&CpuList::new([cpu])).map_err(|source| Error::Affinity { cpu, source })?;
    Ok(set_policy(Policy::Fifo(LOWEST + level))?)
}

/// A thread that waits to be woken.
fn woken(level: u8, cpu: u32, next: Option<&Thread>, shared: &Shared) -> Result<Noted, Error> {
    let mut noted = (0, Histogram::new());
    let is_there = go_to(level, cpu);
    shared.ready.fetch_add(1, SeqCst);
    is_there?;
    let own = &shared.rounds[usize::from(level)];
    let (below, woken_at) = (&shared.rounds[usize::from(level) - 1], &shared.woken_at[usize::from(level)]);
    loop {
        // Wakes also without a reason.
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

/// The lowest thread: how many rounds there were, and how many out of order.
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
            // One that lags is let to come, so that each is counted once.
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
