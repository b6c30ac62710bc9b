//! Measures what the record of one event takes of its CPU's time, when a recording begins.

use rustix::thread::sched_getcpu;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use sordino_clock::{Clock, cycles, nanoseconds};
use sordino_event::{Cpu, Ticks};
use sordino_ring::area::control::CostTrial;
use sordino_ring::write::TimestampClock;
use sordino_sched::{CpuList, affinity, set_affinity};
use sordino_tracefs::{EventName, Instance};
use std::time::Instant;

/// The number of batches, and of events in each.
const BATCHES: usize = 128;
const BATCH: u32 = 32;

/// The event by which the kernel's are measured: this process makes it with one system call.
const TIMER: [&str; 2] = ["timer", "hrtimer_cancel"];

/// The time for which the timer is set: longer than the measurement.
const LATER: Timespec = Timespec { tv_sec: 3600, tv_nsec: 0 };

/// Returns the cost, in picoseconds, of a program's event with two fields of 64 bits, written by this process to rings
/// of its own. `None` where there is no memory for them, or no thread knows its CPU. Takes 0.2 ms.
pub fn of_programs(clock: TimestampClock) -> Option<u64> {
    let trial = CostTrial::new(clock).ok()?;
    let now: fn() -> Ticks = match clock {
        TimestampClock::Cycles => || Ticks(cycles()),
        TimestampClock::Monotonic => || Ticks(nanoseconds(Clock::Monotonic)),
    };
    Some(usual(|| trial.write(now, BATCH)))
}

/// Returns the cost, in picoseconds, of an event of the kernel in this instance, which traces nothing yet: the time of
/// a system call with the event, less the time without. The event is recorded on this thread's CPU alone. `None` where
/// it may not be recorded. The caller empties the instance and sets its CPUs afterwards. Takes some milliseconds.
pub fn of_kernel(instance: &Instance) -> Option<u64> {
    let (here, before) = (sched_getcpu() as u32, affinity().ok()?);
    instance.set_cpus(&[Cpu(here)]).ok()?;
    set_affinity(&CpuList::new([here])).ok()?;
    let cost = on_this_cpu(instance);
    set_affinity(&before).ok()?;
    cost
}

fn on_this_cpu(instance: &Instance) -> Option<u64> {
    let [system, name] = TIMER.map(str::to_owned);
    let event = EventName { system, name };
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).ok()?;
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let later = Itimerspec { it_interval: never, it_value: LATER };
    let set = || {
        for _ in 0..BATCH {
            let _ = timerfd_settime(&timer, TimerfdTimerFlags::empty(), &later);
        }
    };
    let without = usual(set);
    let with =
        instance.set_event(&event, true).and_then(|()| instance.set_tracing(true)).map(|()| usual(set));
    instance.set_tracing(false).and_then(|()| instance.set_event(&event, false)).ok()?;
    with.ok()?.checked_sub(without)
}

/// Returns the lower quartile of the time of one event in picoseconds, measured in batches: a virtual machine may be
/// much slower for some of them.
fn usual(batch: impl Fn()) -> u64 {
    let mut times = [(); BATCHES].map(|()| {
        let begin = Instant::now();
        batch();
        begin.elapsed().as_nanos() as u64 * 1000 / u64::from(BATCH)
    });
    *times.select_nth_unstable(BATCHES / 4).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_event_costs_something_with_each_clock() {
        for clock in [TimestampClock::Cycles, TimestampClock::Monotonic] {
            assert!(of_programs(clock).unwrap() > 0, "{clock:?}");
        }
    }
}
