//! Measures the cost of interrupts beyond their own events, when a recording begins: from the gaps in a loop that a
//! timer interrupts.
//!
//! The kernel's events for an interrupt are inside its entry and exit, which take longer than many a handler, above all
//! in a virtual machine. A reader of the trace finds the interrupt of each gap, and so the difference.
//!
//! The timer is that of perf's event `cpu-clock`. Its function runs in the interrupt itself on every kernel; on
//! PREEMPT_RT, functions of other timers run in a thread, which interrupts the loop, too.

use perf_event::Builder;
use perf_event::events::Software;
use rustix::thread::sched_getcpu;
use sordino_ring::number::Ticks;
use std::time::{Duration, Instant};

/// A time during which a loop did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptedTime {
    /// The end of the gap, in the recording's clock.
    pub at: Ticks,
    /// The CPU that was interrupted.
    pub cpu: u32,
    /// The length in the clock's ticks.
    pub ticks: u64,
}

/// The number of gaps to measure.
const GAPS: usize = 25;
/// The period of the timer.
const PERIOD: Duration = Duration::from_micros(80);
/// Longest wait for the next gap, and for all of them.
const PATIENCE: Duration = Duration::from_micros(400);
const ALL: Duration = Duration::from_millis(20);
/// Shortest gap that counts as an interrupt, as a time and in the loop's usual steps; the longer one applies. A step
/// takes some tens of nanoseconds, and microseconds where a processor is emulated or the clock is slow.
const SHORTEST: Duration = Duration::from_nanos(400);
const STEPS: u64 = 4;
/// The number of steps from which the usual one is determined.
const SAMPLE: usize = 128;

/// Returns the gaps of a loop on this thread's CPU, made by some interrupts of a timer. It usually takes 2 ms, and
/// a bounded time at most. Returns nothing where the kernel has no such timer or does not permit it.
pub fn measure(now: fn() -> Ticks, ticks_in: impl Fn(Duration) -> u64) -> Vec<InterruptedTime> {
    let mut timer = Builder::new(Software::CPU_CLOCK);
    timer.sample_period(PERIOD.as_nanos() as u64).observe_self().any_cpu();
    let Ok(mut timer) = timer.build() else { return Vec::new() };
    if timer.enable().is_err() {
        return Vec::new();
    }
    let (patience, begin) = (ticks_in(PATIENCE), Instant::now());
    let shortest = ticks_in(SHORTEST).max(STEPS * usual_step(now)).max(2);
    let gap = || {
        let (cpu, first) = (sched_getcpu(), now());
        let mut last = first;
        while last.0.wrapping_sub(first.0) < patience {
            let at = now();
            // A clock that steps back ends the attempt.
            let ticks = at.0.checked_sub(std::mem::replace(&mut last, at).0)?;
            if ticks >= shortest {
                return (sched_getcpu() == cpu).then_some(InterruptedTime { at, cpu: cpu as u32, ticks });
            }
        }
        None
    };
    (0..GAPS).take_while(|_| begin.elapsed() < ALL).filter_map(|_| gap()).collect()
}

/// Returns the median time between two readings of the clock, in its ticks.
fn usual_step(now: fn() -> Ticks) -> u64 {
    let mut last = now();
    let mut steps = [(); SAMPLE].map(|()| {
        let at = now();
        at.0.saturating_sub(std::mem::replace(&mut last, at).0)
    });
    *steps.select_nth_unstable(SAMPLE / 2).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_clock::{Clock, nanoseconds};

    #[test]
    fn timers_interrupt_the_loop() {
        let gaps = measure(|| Ticks(nanoseconds(Clock::Monotonic)), |time| time.as_nanos() as u64);
        assert!(!gaps.is_empty() && gaps.len() <= GAPS, "{gaps:?}");
        assert!(gaps.windows(2).all(|pair| pair[0].at.after(pair[1].ticks) <= pair[1].at), "{gaps:?}");
        assert!(gaps.iter().all(|gap| gap.ticks >= SHORTEST.as_nanos() as u64), "{gaps:?}");
    }
}
