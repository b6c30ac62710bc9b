//! Runs npt's loops, and watches their progress.

use super::Options;
use super::arguments::Sink;
use super::marker::Marker;
use super::report::{OfCpu, Report};
use crate::Failure;
use crate::commands::shield;
use crate::progress::Progress;
use crate::signals;
use crate::terminal::{has_terminal_for_errors, remark};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sordino_guard::{Scratch, THROTTLE, lift_and_report};
use sordino_npt::{
    Counts, Error, Frequency, GapStatistics, Measured, Monitor, Plan, hit, run_on, run_without_interrupts,
};
use sordino_peers::provider::{Built, Provider, ProviderKind};
use sordino_sched::{CpuList, Policy, affinity, set_policy};
use sordino_undo::Guardian;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Measures `cpus` as planned, until the end or Ctrl-C.
pub(super) fn measure(options: &Options, cpus: &CpuList, plan: &Plan) -> Result<Report, Failure> {
    let stop = signals::stop()?;
    let held = if plan.policy == Policy::Other { None } else { lift_throttle_for(cpus)? };
    for &cpu in cpus.as_slice() {
        shield::go_to(Some(cpu))?;
    }
    if options.verbose {
        tell(cpus, plan, held.is_some());
    }
    let before = Counts::now();
    let measured = if options.interrupts_off {
        watched(cpus, plan, &stop, |monitors| run_without_interrupts(cpus, plan, monitors))?
    } else {
        with_sink(&options.sink, cpus, plan, &stop)?
    };
    let after = Counts::now();
    drop(held);
    let counts = before.and_then(|before| Ok((before, after?)));
    if let Err(error) = &counts {
        message!("sordino: interruptions are not counted: {error}");
    }
    let of_cpu = |(&cpu, measured): (&u32, Measured)| {
        let counts = counts.as_ref().ok();
        OfCpu {
            cpu,
            statistics: GapStatistics::of(&measured),
            measured,
            interrupters: counts.map(|(before, after)| after.since(before, cpu)),
            stolen: counts.and_then(|(before, after)| after.stolen_since(before, cpu)),
            frequency: Frequency::of(cpu),
        }
    };
    let cpus = cpus.as_slice().iter().zip(measured).map(of_cpu).collect();
    Ok(Report { plan: plan.clone(), interrupts_off: options.interrupts_off, cpus })
}

/// Prints the settings of the measurement, for `--verbose`.
fn tell(cpus: &CpuList, plan: &Plan, lifted: bool) {
    for &cpu in cpus.as_slice() {
        message!("sordino: {}", Plan { cpu: Some(cpu), ..plan.clone() });
        let frequency = Frequency::of(cpu);
        let mhz = frequency.cpuinfo_mhz.map_or("nothing".to_owned(), |mhz| format!("{mhz:.3} MHz"));
        message!("sordino: CPU {cpu}: /proc/cpuinfo says {mhz}; turbo: {}", frequency.turbo_text());
    }
    let memory = if plan.lock_memory { "locked" } else { "not locked" };
    let throttle = if lifted { "lifted" } else { "left as it was" };
    message!("sordino: memory {memory}; the limit on real-time threads {throttle}");
}

fn with_sink(sink: &Sink, cpus: &CpuList, plan: &Plan, stop: &OwnedFd) -> Result<Vec<Measured>, Failure> {
    match sink {
        Sink::Sordino => watched(cpus, plan, stop, |monitors| run_on(cpus, plan, monitors, hit)),
        Sink::TraceMarker(file) => {
            let marker = Marker::open(file.as_deref())?;
            let hit = |number, duration| marker.hit(number, duration);
            let measured = watched(cpus, plan, stop, |monitors| run_on(cpus, plan, monitors, hit));
            marker.tell_failures();
            measured
        }
        Sink::Provider(kind, file) => {
            let mut scratch = Scratch::new()?;
            let built = match file {
                Some(_) => None,
                None => Some(Built::new(*kind, &scratch.directory(&std::env::temp_dir())?)?),
            };
            let built = built.as_ref().map(Built::file);
            if let Some(file) = built.filter(|_| *kind == ProviderKind::Usdt) {
                message!("sordino: the tracepoint is usdt:{}:npt:loop", file.display());
            }
            let provider = Provider::load(file.as_deref().or(built).unwrap_or(Path::new("")))?;
            let hit = |number, duration| provider.hit(number, duration);
            watched(cpus, plan, stop, |monitors| run_on(cpus, plan, monitors, hit))
        }
    }
}

/// Interval at which the loops' progress is checked.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Duration of a measurement before progress is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// Raises this thread's priority above that of the loops if they run on all of its CPUs: it could not receive a Ctrl-C
/// otherwise. Returns true if it did; the thread should then sleep until it is needed.
fn come_before(cpus: &CpuList, plan: &Plan) -> Result<bool, Failure> {
    let Policy::Fifo(priority) = plan.policy else { return Ok(false) };
    if !affinity()?.without(cpus).is_empty() {
        return Ok(false);
    }
    if priority == 99 {
        message!("sordino: no priority is above 99, so Ctrl-C may be handled late; -p 98 leaves room for it");
    }
    // Without the right to a higher priority, this thread keeps its own.
    Ok(set_policy(Policy::Fifo(99.min(priority + 1))).is_ok())
}

/// Runs `measure` on a thread of its own, and watches its progress.
fn watched(
    cpus: &CpuList,
    plan: &Plan,
    stop: &OwnedFd,
    measure: impl FnOnce(&[Monitor]) -> Result<Vec<Measured>, Error> + Send,
) -> Result<Vec<Measured>, Failure> {
    let monitors: Vec<Monitor> = cpus.as_slice().iter().map(|_| Monitor::default()).collect();
    let comes_before = come_before(cpus, plan)?;
    let measured: Result<_, Error> = thread::scope(|scope| {
        // Becomes readable when the loops have ended.
        let (over, loops_over) = std::io::pipe().map_err(Error::Thread)?;
        let monitors = &monitors;
        let loops = scope.spawn(move || {
            let measured = measure(monitors);
            drop(loops_over);
            measured
        });
        let (begin, mut progress) = (Instant::now(), Progress::new(!has_terminal_for_errors()));
        loop {
            let mut ready = [PollFd::new(stop, PollFlags::IN), PollFd::new(&over, PollFlags::IN)];
            let _ = poll(&mut ready, if comes_before { None } else { Some(&LOOK) });
            if !ready[1].revents().is_empty() {
                break;
            }
            if !ready[0].revents().is_empty() {
                monitors.iter().for_each(Monitor::stop);
                break;
            }
            if begin.elapsed() > PATIENCE && !comes_before {
                progress.doing(how_far(cpus, plan, monitors, begin.elapsed()));
            }
        }
        loops.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if comes_before {
        set_policy(Policy::Other)?;
    }
    Ok(measured?)
}

fn how_far(cpus: &CpuList, plan: &Plan, monitors: &[Monitor], elapsed: Duration) -> String {
    let longest = cpus.as_slice().iter().zip(monitors).map(|(cpu, monitor)| {
        let longest = sordino_npt::Unit::Fitting.time(monitor.longest().as_nanos() as f64);
        format!("CPU {cpu}: longest gap {longest}")
    });
    let done = match plan.duration {
        Some(duration) => format!("{} s of {} s", elapsed.as_secs(), duration.as_secs()),
        None => {
            let loops = monitors.iter().map(Monitor::loops).min().unwrap_or(0);
            format!("{loops} loops of {}", plan.loops)
        }
    };
    format!("{done}; {}; Ctrl-C ends it", longest.collect::<Vec<_>>().join(", "))
}

/// Lifts the kernel's limit on real-time threads, unless the loops take all CPUs and would leave none to other threads,
/// not even to the one that ends them.
fn lift_throttle_for(cpus: &CpuList) -> Result<Option<Guardian>, Failure> {
    if CpuList::online()?.without(cpus).is_empty() {
        message!(
            "sordino: all CPUs are measured, so the kernel reserves 5 % of each for other threads ({THROTTLE}): gaps of up to 50 ms"
        );
        return Ok(None);
    }
    Ok(lift_and_report(&remark))
}
