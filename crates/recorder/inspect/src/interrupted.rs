//! Measures the cost of interrupts beyond their own events, when a recording begins: from the gaps in a loop that a
//! timer interrupts, and then messages from another CPU.
//!
//! The kernel's events for an interrupt are inside its entry and exit, which take longer than many a handler, above all
//! in a virtual machine, where a timer may cost twice what a message costs. A reader of the trace finds the interrupt
//! of each gap, and so the difference.
//!
//! The timer is that of perf's event `cpu-clock`. Its function runs in the interrupt itself on every kernel; on
//! PREEMPT_RT, functions of other timers run in a thread, which interrupts the loop, too. The messages come from a
//! thread that reads such an event of the loop's thread: the kernel interrupts the CPU on which that thread runs.

use perf_event::events::Software;
use perf_event::{Builder, Counter};
use rustix::thread::{gettid, sched_getcpu};
use sordino_event::{Cpu, Ticks};
use sordino_sched::{CpuList, ThreadIdentity, affinity, set_affinity};
use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

/// A time during which a loop did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptedTime {
    /// The end of the gap, in the recording's clock.
    pub at: Ticks,
    /// The CPU that was interrupted.
    pub cpu: Cpu,
    /// The length in the clock's ticks.
    pub ticks: u64,
}

/// The number of gaps of each kind to measure.
const GAPS: usize = 25;
/// The period of the timer.
const PERIOD: Duration = Duration::from_micros(80);
/// Longest wait for the next gap, and for all of a kind.
const PATIENCE: Duration = Duration::from_micros(400);
const ALL: Duration = Duration::from_millis(20);
/// Longest wait until the thread that sends messages runs, and until it runs on another CPU.
const READY: Duration = Duration::from_millis(50);
/// Shortest gap that counts as an interrupt, as a time and in the loop's usual steps; the longer one applies. A step
/// takes some tens of nanoseconds, and microseconds where a processor is emulated or the clock is slow.
const SHORTEST: Duration = Duration::from_nanos(400);
const STEPS: u64 = 4;
/// The number of steps from which the usual one is determined.
const SAMPLE: usize = 128;

/// Returns the gaps of a loop on this thread's CPU, made by some interrupts of a timer and then of messages. It usually
/// takes 3 ms, and 0.2 s at most. Returns nothing where the kernel has no such timer or does not permit it, and no
/// messages' gaps where this thread may use one CPU only.
pub fn measure(now: fn() -> Ticks, ticks_in: impl Fn(Duration) -> u64) -> Vec<InterruptedTime> {
    let patience = ticks_in(PATIENCE);
    let shortest = ticks_in(SHORTEST).max(STEPS * usual_step(now)).max(2);
    let gaps = Gaps { now, patience, shortest };
    let mut measured = Vec::new();
    if let Some(_timer) = clock_event(Some(PERIOD)) {
        measured.extend(gaps.until(Instant::now() + ALL));
    }
    if let Some(event) = clock_event(None) {
        measured.extend(while_read(event, || gaps.until(Instant::now() + ALL)));
    }
    measured
}

/// Returns perf's event of this thread's CPU time, enabled: with a timer of this period, or a mere counter.
fn clock_event(period: Option<Duration>) -> Option<Counter> {
    let mut event = Builder::new(Software::CPU_CLOCK);
    event.observe_self().any_cpu();
    if let Some(period) = period {
        event.sample_period(period.as_nanos() as u64);
    }
    let mut event = event.build().ok()?;
    event.enable().ok()?;
    Some(event)
}

/// Returns what `measure` finds on this thread's CPU while a thread on the other CPUs reads the event again and again;
/// nothing where there are none.
///
/// This thread chooses where the reader runs: at the end both may run everywhere again, so that no CPU on which others
/// leave no time keeps the reader from its end.
fn while_read<T>(mut event: Counter, measure: impl FnOnce() -> Vec<T>) -> Vec<T> {
    let (here, Ok(before)) = (sched_getcpu() as u32, affinity()) else { return Vec::new() };
    let here = CpuList::new([here]);
    let others = before.without(&here);
    if others.is_empty() {
        return Vec::new();
    }
    let is_over = AtomicBool::new(false);
    // The reader's id, and another message as soon as it runs on another CPU.
    let (send, receive) = sync_channel(2);
    let read = || {
        let tid = gettid().as_raw_nonzero().get();
        let _ = send.send(tid);
        let mut is_apart = false;
        // Relaxed: nothing else is shared, and the scope's end joins the thread.
        while !is_over.load(Ordering::Relaxed) && event.read().is_ok() {
            if !is_apart && !here.contains(sched_getcpu() as u32) {
                is_apart = true;
                let _ = send.send(tid);
            }
        }
    };
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("sordino-sends".to_owned()).spawn_scoped(scope, read);
        let tid = reader.ok().and_then(|_| receive.recv_timeout(READY).ok());
        let reader = tid.and_then(|tid| ThreadIdentity::find(tid).ok());
        let is_apart = reader.is_some_and(|reader| reader.set_affinity(&others).is_ok())
            && receive.recv_timeout(READY).is_ok();
        let measured = if is_apart && set_affinity(&here).is_ok() { measure() } else { Vec::new() };
        let _ = set_affinity(&before);
        let _ = reader.map(|reader| reader.set_affinity(&before));
        is_over.store(true, Ordering::Relaxed);
        measured
    })
}

/// The gaps of a loop.
struct Gaps {
    now: fn() -> Ticks,
    /// Longest wait for a gap, in ticks.
    patience: u64,
    /// Shortest gap that counts, in ticks.
    shortest: u64,
}

impl Gaps {
    /// Returns the next gaps until this time, at most [`GAPS`].
    fn until(&self, end: Instant) -> Vec<InterruptedTime> {
        let tries = iter::repeat_with(|| self.next()).take_while(|_| Instant::now() < end);
        tries.flatten().take(GAPS).collect()
    }

    /// Returns the next gap; `None` if none comes in time, or the thread has another CPU after it.
    fn next(&self) -> Option<InterruptedTime> {
        let (cpu, first) = (sched_getcpu(), (self.now)());
        let mut last = first;
        while last.0.wrapping_sub(first.0) < self.patience {
            let at = (self.now)();
            // A clock that steps back ends the attempt.
            let ticks = at.0.checked_sub(std::mem::replace(&mut last, at).0)?;
            if ticks >= self.shortest {
                return (sched_getcpu() == cpu).then_some(InterruptedTime {
                    at,
                    cpu: Cpu(cpu as u32),
                    ticks,
                });
            }
        }
        None
    }
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
    fn timers_and_messages_interrupt_the_loop() {
        let gaps = measure(|| Ticks(nanoseconds(Clock::Monotonic)), |time| time.as_nanos() as u64);
        assert!(!gaps.is_empty() && gaps.len() <= 2 * GAPS, "{gaps:?}");
        assert!(gaps.windows(2).all(|pair| pair[0].at.after(pair[1].ticks) <= pair[1].at), "{gaps:?}");
        assert!(gaps.iter().all(|gap| gap.ticks >= SHORTEST.as_nanos() as u64), "{gaps:?}");
    }
}
