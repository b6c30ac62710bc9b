//! The command `sordino disturb`.

mod packets;

use crate::Failure;
use crate::failure::UNUSABLE;
use crate::quantities::duration;
use clap::{Args, ValueEnum};
use packets::Network;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use sordino_sched::{CpuList, Policy, allow_prompt_sleep, set_affinity, set_policy};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Disturb a CPU at known times, to test whether your tools find the cause
///
/// Needs the right to real-time priority. The tracepoints disturb:begin and disturb:end mark the actual times.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sudo sordino disturb hog --cpu 1 --prio 95 --at 1s,2s --for 3ms")]
pub(crate) struct Options {
    /// Kind of the disturbance to plant
    #[arg(value_enum)]
    kind: Kind,
    /// CPU to disturb, by its number
    #[arg(short = 'a', long, value_name = "CPU")]
    cpu: u32,
    /// SCHED_FIFO priority of the disturbing thread, 1 to 99; must be above that of the thread to disturb
    #[arg(short, long, value_name = "PRIO", default_value_t = 95, value_parser = clap::value_parser!(u8).range(1..=99))]
    prio: u8,
    /// Times of the disturbances, from the start of this command: one disturbance at each
    #[arg(long, value_name = "TIME,...", default_value = "0s", value_delimiter = ',', value_parser = duration)]
    at: Vec<Duration>,
    /// Duration of a disturbance (kinds hog and packets), or the time within which all timers expire (kind timers)
    #[arg(long = "for", value_name = "TIME", default_value = "3ms", value_parser = duration)]
    length: Duration,
    /// Number of timers (kind timers), 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    timers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A thread that computes without a pause
    Hog,
    /// Timers that expire in a burst of interrupts
    Timers,
    /// Network packets that cause a flood of softirqs; sent from another CPU, in a network namespace of this process
    Packets,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let start = Instant::now();
    let everywhere = sordino_sched::affinity()?;
    let name = match options.kind {
        Kind::Hog => c"hog",
        Kind::Timers => c"timers",
        Kind::Packets => c"packets",
    };
    rustix::thread::set_name(name)?;
    let (there, elsewhere) = (CpuList::new([options.cpu]), everywhere.without(&CpuList::new([options.cpu])));
    let network = match options.kind {
        Kind::Packets if elsewhere.is_empty() => {
            return Err(Failure::new(UNUSABLE, "packets are sent from another CPU, and there is none"));
        }
        Kind::Packets => Some(Network::make(options.cpu)?),
        Kind::Hog | Kind::Timers => None,
    };
    // The policy is set first: on that CPU, an ordinary thread would wait behind the one that it is to disturb.
    set_policy(Policy::Fifo(options.prio))?;
    set_affinity(if network.is_some() { &elsewhere } else { &there })
        .map_err(|error| Failure::new(UNUSABLE, format!("can't run on CPU {}: {error}", options.cpu)))?;
    allow_prompt_sleep();
    let mut times = options.at.clone();
    times.sort_unstable();
    for at in times {
        std::thread::sleep(at.saturating_sub(start.elapsed()));
        match &network {
            Some(network) => packets(network, options.length)?,
            None if options.kind == Kind::Timers => timers(options)?,
            None => hog(options.length),
        }
    }
    // The end of this process must not disturb that CPU: it moves to another one, if there is one.
    set_affinity(if elsewhere.is_empty() { &everywhere } else { &elsewhere })?;
    set_policy(Policy::Other)?;
    Ok(ExitCode::SUCCESS)
}

fn hog(length: Duration) {
    sordino::tracepoint!(disturb:begin, kind: &str = "hog");
    let begin = Instant::now();
    while begin.elapsed() < length {
        std::hint::spin_loop();
    }
    sordino::tracepoint!(disturb:end, kind: &str = "hog");
}

fn packets(network: &Network, length: Duration) -> Result<(), Failure> {
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
fn set(timers: &[OwnedFd], first: Duration, step: Duration) -> Result<(), Failure> {
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
fn timers(options: &Options) -> Result<(), Failure> {
    let timers: Vec<OwnedFd> = (0..options.timers)
        .map(|_| timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::new(UNUSABLE, format!("can't make {} timers: {error}", options.timers)))?;
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
