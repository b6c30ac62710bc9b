//! A thread, timers or packets that disturb a CPU at known times.

use crate::Error;
use crate::packets::Network;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use sordino_sched::{CpuList, Policy, allow_prompt_sleep, set_affinity, set_policy};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The kind of a disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisturbanceKind {
    /// A thread that computes without a pause.
    Hog,
    /// Timers that expire in a burst of interrupts.
    Timers,
    /// Network packets that cause a flood of softirqs; sent from another CPU, in a network namespace of this process.
    Packets,
}

/// A disturbance of a CPU, at one or several times.
#[derive(Clone, Debug)]
pub struct Disturbance {
    /// The kind of the disturbance.
    pub kind: DisturbanceKind,
    /// The number of the CPU.
    pub cpu: u32,
    /// The `SCHED_FIFO` priority of the disturbing thread.
    pub priority: u8,
    /// The times from the start: one disturbance at each.
    pub at: Vec<Duration>,
    /// The duration of each, or the time within which all timers expire.
    pub length: Duration,
    /// The number of timers.
    pub timers: u32,
}

/// Disturbs the CPU at each of the times, counted from now.
///
/// # Errors
/// This process lacks the right to real-time priority or to that CPU, or something that the kind needs.
pub fn disturb(options: &Disturbance) -> Result<(), Error> {
    let start = Instant::now();
    let everywhere = sordino_sched::affinity()?;
    let name = match options.kind {
        DisturbanceKind::Hog => c"hog",
        DisturbanceKind::Timers => c"timers",
        DisturbanceKind::Packets => c"packets",
    };
    rustix::thread::set_name(name)?;
    let (there, elsewhere) = (CpuList::new([options.cpu]), everywhere.without(&CpuList::new([options.cpu])));
    let network = match options.kind {
        DisturbanceKind::Packets if elsewhere.is_empty() => {
            let text = "packets are sent from another CPU, and there is none";
            return Err(Error::Unusable(text.to_owned()));
        }
        DisturbanceKind::Packets => Some(Network::make(options.cpu)?),
        DisturbanceKind::Hog | DisturbanceKind::Timers => None,
    };
    // The policy is set first: on that CPU, an ordinary thread would wait behind the one that it is to disturb.
    set_policy(Policy::Fifo(options.priority))?;
    set_affinity(if network.is_some() { &elsewhere } else { &there })
        .map_err(|error| Error::Unusable(format!("can't run on CPU {}: {error}", options.cpu)))?;
    allow_prompt_sleep();
    let mut times = options.at.clone();
    times.sort_unstable();
    for at in times {
        std::thread::sleep(at.saturating_sub(start.elapsed()));
        match &network {
            Some(network) => packets(network, options.length)?,
            None if options.kind == DisturbanceKind::Timers => timers(options)?,
            None => hog(options.length),
        }
    }
    // The end of this process must not disturb that CPU: it moves to another one, if there is one.
    set_affinity(if elsewhere.is_empty() { &everywhere } else { &elsewhere })?;
    set_policy(Policy::Other)?;
    Ok(())
}

fn hog(length: Duration) {
    sordino::tracepoint!(disturb:begin, kind: &str = "hog");
    let begin = Instant::now();
    while begin.elapsed() < length {
        std::hint::spin_loop();
    }
    sordino::tracepoint!(disturb:end, kind: &str = "hog");
}

fn packets(network: &Network, length: Duration) -> Result<(), Error> {
    sordino::tracepoint!(disturb:begin, kind: &str = "packets");
    let flooded = network.flood(length);
    sordino::tracepoint!(disturb:end, kind: &str = "packets");
    flooded
}

/// Time from the setting of the timers to the first expiry: by then this thread has left the CPU.
const LEAD: Duration = Duration::from_micros(300);

/// Most attempts to set the timers early enough.
const SETTINGS: u32 = 5;

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Sets `timers` to expire one `step` after the other.
fn set(timers: &[OwnedFd], first: Duration, step: Duration) -> Result<(), Error> {
    for (number, timer) in (0..).zip(timers) {
        let at = first + step * number;
        let value = Timespec { tv_sec: at.as_secs() as i64, tv_nsec: at.subsec_nanos().into() };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: zero, it_value: value };
        timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec)?;
    }
    Ok(())
}

/// Sets timers on this CPU that expire in quick succession, and leaves the CPU to the disturbed thread.
fn timers(options: &Disturbance) -> Result<(), Error> {
    let timers: Vec<OwnedFd> = (0..options.timers)
        .map(|_| timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC))
        .collect::<Result<_, _>>()
        .map_err(|error| Error::Unusable(format!("can't make {} timers: {error}", options.timers)))?;
    // Setting a timer takes about a microsecond; the lead starts when all are set.
    let setting = Duration::from_micros(2) * options.timers;
    for _ in 0..SETTINGS {
        let first = now() + setting + LEAD;
        set(&timers, first, options.length / options.timers)?;
        // Otherwise this thread was delayed, and the timers would expire while it is still here.
        if now() + LEAD / 2 < first {
            break;
        }
    }
    sordino::tracepoint!(disturb:begin, kind: &str = "timers");
    std::thread::sleep(options.length + setting + 2 * LEAD);
    sordino::tracepoint!(disturb:end, kind: &str = "timers");
    Ok(())
}
