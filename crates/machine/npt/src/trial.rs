//! A measurement of several CPUs from start to report, while somebody watches.

use crate::marker::Marker;
use crate::report::{CpuReport, NptReport};
use crate::{
    Counts, Error, Frequency, GapStatistics, Measured, Monitor, Plan, Sink, hit, run_on,
    run_without_interrupts,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sordino_guard::{Scratch, THROTTLE, lift_and_report};
use sordino_peers::provider::{Built, Provider, ProviderKind};
use sordino_sched::{CpuList, MemoryLock, Policy, Right, affinity, set_policy};
use sordino_undo::Guardian;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The person behind a measurement, who sees its progress.
pub trait LoopObserver {
    /// Shows the progress of the loops.
    fn doing(&mut self, what: String);

    /// Removes the progress from the terminal, for other output.
    fn clear(&mut self);

    /// Shows a remark, a line without a newline.
    fn remark(&self, text: &str);
}

/// A measurement that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The CPUs to measure, all at once.
    pub cpus: &'a CpuList,
    /// The plan that each CPU follows.
    pub plan: &'a Plan,
    /// The tracer whose tracepoint the loop hits.
    pub sink: &'a Sink,
    /// True if the kernel module measures, with interrupts disabled.
    pub interrupts_off: bool,
}

impl Trial<'_> {
    /// Measures until the plan's end, or until `stop` becomes readable.
    ///
    /// # Errors
    /// If the loops can't run, or the sink can't be opened.
    pub fn run(&self, stop: BorrowedFd<'_>, observer: &mut dyn LoopObserver) -> Result<NptReport, Error> {
        let (cpus, plan) = (self.cpus, self.plan);
        let before = Counts::now();
        let measured = if self.interrupts_off {
            watched(cpus, plan, stop, observer, |monitors| run_without_interrupts(cpus, plan, monitors))?
        } else {
            with_sink(self.sink, cpus, plan, stop, observer)?
        };
        let after = Counts::now();
        let counts = before.and_then(|before| Ok((before, after?)));
        if let Err(error) = &counts {
            observer.remark(&format!("interruptions are not counted: {error}"));
        }
        let of_cpu = |(&cpu, measured): (&u32, Measured)| {
            let counts = counts.as_ref().ok();
            CpuReport {
                cpu,
                statistics: GapStatistics::of(&measured),
                measured,
                interrupters: counts.map(|(before, after)| after.since(before, cpu)),
                stolen: counts.and_then(|(before, after)| after.stolen_since(before, cpu)),
                frequency: Frequency::of(cpu),
            }
        };
        let cpus = cpus.as_slice().iter().zip(measured).map(of_cpu).collect();
        Ok(NptReport { plan: plan.clone(), interrupts_off: self.interrupts_off, cpus })
    }

    /// Returns the settings of the measurement, line by line.
    pub fn settings(&self, is_lifted: bool) -> Vec<String> {
        let (cpus, plan, mut lines) = (self.cpus, self.plan, Vec::new());
        for &cpu in cpus.as_slice() {
            lines.push(Plan { cpu: Some(cpu), ..plan.clone() }.to_string());
            let frequency = Frequency::of(cpu);
            let mhz = frequency.cpuinfo_mhz.map_or("nothing".to_owned(), |mhz| format!("{mhz:.3} MHz"));
            lines.push(format!("CPU {cpu}: /proc/cpuinfo says {mhz}; turbo: {}", frequency.turbo_text()));
        }
        let memory = if plan.lock_memory { "locked" } else { "not locked" };
        let throttle = if is_lifted { "lifted" } else { "left as it was" };
        lines.push(format!("memory {memory}; the limit on real-time threads {throttle}"));
        lines
    }
}

fn with_sink(
    sink: &Sink,
    cpus: &CpuList,
    plan: &Plan,
    stop: BorrowedFd<'_>,
    observer: &mut dyn LoopObserver,
) -> Result<Vec<Measured>, Error> {
    match sink {
        Sink::Sordino => watched(cpus, plan, stop, observer, |monitors| run_on(cpus, plan, monitors, hit)),
        Sink::TraceMarker(file) => {
            let marker = Marker::open(file.as_deref())?;
            let hit = |number, duration| marker.hit(number, duration);
            let measured = watched(cpus, plan, stop, observer, |monitors| run_on(cpus, plan, monitors, hit));
            marker.tell_failures(&|text| observer.remark(text));
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
                observer.remark(&format!("the tracepoint is usdt:{}:npt:loop", file.display()));
            }
            let provider = Provider::load(file.as_deref().or(built).unwrap_or(Path::new("")))?;
            let hit = |number, duration| provider.hit(number, duration);
            watched(cpus, plan, stop, observer, |monitors| run_on(cpus, plan, monitors, hit))
        }
    }
}

/// Interval at which the loops' progress is checked.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Duration of a measurement before progress is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// Raises this thread's priority above that of the loops if they run on all of its CPUs: it could not receive a Ctrl-C
/// otherwise. Returns true if it did; the thread should then sleep until it is needed.
fn come_before(cpus: &CpuList, plan: &Plan, observer: &dyn LoopObserver) -> Result<bool, Error> {
    let Policy::Fifo(priority) = plan.policy else { return Ok(false) };
    if !affinity()?.without(cpus).is_empty() {
        return Ok(false);
    }
    if priority == 99 {
        observer.remark("no priority is above 99, so Ctrl-C may be handled late; -p 98 leaves room for it");
    }
    // Without the right to a higher priority, this thread keeps its own.
    Ok(set_policy(Policy::Fifo(99.min(priority + 1))).is_ok())
}

/// Runs `measure` on a thread of its own, and watches its progress.
fn watched(
    cpus: &CpuList,
    plan: &Plan,
    stop: BorrowedFd<'_>,
    observer: &mut dyn LoopObserver,
    measure: impl FnOnce(&[Monitor]) -> Result<Vec<Measured>, Error> + Send,
) -> Result<Vec<Measured>, Error> {
    let monitors: Vec<Monitor> = cpus.as_slice().iter().map(|_| Monitor::default()).collect();
    let comes_before = come_before(cpus, plan, observer)?;
    let measured: Result<_, Error> = thread::scope(|scope| {
        // Becomes readable when the loops have ended.
        let (over, loops_over) = std::io::pipe().map_err(Error::Thread)?;
        let monitors = &monitors;
        let loops = scope.spawn(move || {
            let measured = measure(monitors);
            drop(loops_over);
            measured
        });
        let begin = Instant::now();
        loop {
            let mut ready = [PollFd::new(&stop, PollFlags::IN), PollFd::new(&over, PollFlags::IN)];
            let _ = poll(&mut ready, if comes_before { None } else { Some(&LOOK) });
            if !ready[1].revents().is_empty() {
                break;
            }
            if !ready[0].revents().is_empty() {
                monitors.iter().for_each(Monitor::stop);
                break;
            }
            if begin.elapsed() > PATIENCE && !comes_before {
                observer.doing(how_far(cpus, plan, monitors, begin.elapsed()));
            }
        }
        loops.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    observer.clear();
    if comes_before {
        set_policy(Policy::Other)?;
    }
    measured
}

fn how_far(cpus: &CpuList, plan: &Plan, monitors: &[Monitor], elapsed: Duration) -> String {
    let longest = cpus.as_slice().iter().zip(monitors).map(|(cpu, monitor)| {
        let longest = crate::Unit::Fitting.time(monitor.longest().as_nanos() as f64);
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
///
/// # Errors
/// If the CPUs that are online are not known.
pub fn lift_throttle_for(cpus: &CpuList, remark: &dyn Fn(&str)) -> Result<Option<Guardian>, Error> {
    if CpuList::online()?.without(cpus).is_empty() {
        remark(&format!(
            "all CPUs are measured, so the kernel reserves 5 % of each for other threads ({THROTTLE}): gaps of up to 50 ms"
        ));
        return Ok(None);
    }
    Ok(lift_and_report(remark))
}

/// Returns the real-time policy of this priority, or the ordinary one if this process has no right to it, which is
/// reported, or if the priority is 0.
pub fn permitted_policy(priority: u8, remark: &dyn Fn(&str)) -> Policy {
    if priority == 0 {
        return Policy::Other;
    }
    // A thread of its own tries it, so that this one keeps its policy.
    let try_it = thread::spawn(move || set_policy(Policy::Fifo(priority)).is_ok());
    if try_it.join().unwrap_or(false) {
        return Policy::Fifo(priority);
    }
    remark(&format!(
        "no right to real-time priority: measuring an ordinary thread ({}, or raise ulimit -r)",
        Right::Schedule.remedy()
    ));
    Policy::Other
}

/// Locks this process's memory. Returns true if that is permitted; if not, it is reported.
pub fn may_lock_memory(remark: &dyn Fn(&str)) -> bool {
    let result = sordino_sched::lock_memory(MemoryLock::All);
    if let Err(error) = &result {
        remark(&format!(
            "memory stays unlocked, page faults may show: {error} ({}, or raise ulimit -l)",
            Right::LockMemory.remedy()
        ));
    }
    result.is_ok()
}
