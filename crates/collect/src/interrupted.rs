//! What interrupts cost a CPU beyond their own events: measured when a recording begins, from the gaps in a loop that a timer interrupts.
//!
//! The kernel's events about an interrupt lie inside its entry and exit, which take longer than many a handler, above all in a virtual machine. Who
//! reads the trace finds the interrupt of each gap, and so the difference.

use rustix::thread::sched_getcpu;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::time::{Duration, Instant};

/// A time in which a loop stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The end of it, in the recording's clock.
    pub(crate) at: u64,
    pub(crate) cpu: u32,
    /// The length in the clock's ticks.
    pub(crate) ticks: u64,
}

/// Gaps that are measured.
const GAPS: usize = 25;
/// Time from setting a timer to its interrupt.
const AHEAD: Duration = Duration::from_micros(20);
/// Time that one gap may take to come, and all of them.
const PATIENCE: Duration = Duration::from_micros(200);
const ALL: Duration = Duration::from_millis(5);
/// The loop's steps take some tens of nanoseconds, and no interrupt takes less than this.
const SHORTEST: Duration = Duration::from_nanos(400);

/// Returns the gaps of a loop on this thread's CPU, as [`GAPS`] timers interrupt it. It takes 2 ms as a rule, and [`ALL`] at most; nothing where
/// there are no timers.
pub(crate) fn measure(now: fn() -> u64, ticks_in: impl Fn(Duration) -> u64) -> Vec<Gap> {
    let Ok(timer) = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC) else {
        return Vec::new();
    };
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let once =
        Itimerspec { it_interval: zero, it_value: Timespec { tv_nsec: AHEAD.as_nanos() as _, ..zero } };
    let (shortest, patience, begin) = (ticks_in(SHORTEST), ticks_in(PATIENCE), Instant::now());
    let gap = || {
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once).ok()?;
        let (cpu, first) = (sched_getcpu(), now());
        let mut last = first;
        while last.wrapping_sub(first) < patience {
            let at = now();
            // A clock that steps back ends the round.
            let ticks = at.checked_sub(std::mem::replace(&mut last, at))?;
            if ticks >= shortest.max(2) {
                return (sched_getcpu() == cpu).then_some(Gap { at, cpu: cpu as u32, ticks });
            }
        }
        None
    };
    (0..GAPS).take_while(|_| begin.elapsed() < ALL).filter_map(|_| gap()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_clock::{Clock, nanoseconds};

    #[test]
    fn timers_interrupt_the_loop() {
        let gaps = measure(|| nanoseconds(Clock::Monotonic), |time| time.as_nanos() as u64);
        assert!(!gaps.is_empty() && gaps.len() <= GAPS, "{gaps:?}");
        assert!(gaps.windows(2).all(|pair| pair[0].at + pair[1].ticks <= pair[1].at), "{gaps:?}");
        assert!(gaps.iter().all(|gap| gap.ticks >= SHORTEST.as_nanos() as u64), "{gaps:?}");
    }
}
