//! Steps that read the clock in a loop: npt under load, and what the hardware takes without.

use super::Run;
use crate::Failure;
use crate::commands::guard;
use crate::failure::UNUSABLE;
use crate::privilege::is_root;
use sordino_check::peers::hwlat;
use sordino_check::{Interrupter, Measurement, Samples, Step, Verdict, time};
use sordino_clock::Rate;
use sordino_event::Cpu;
use sordino_npt::{Bucket, Counts, Error, Measured, Plan};
use sordino_sched::{CpuList, Policy, set_policy};
use sordino_tracefs::{Instance, Tracefs};
use sordino_undo::Step as Undo;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Above everything but what the kernel relies on.
const PRIORITY: u8 = 90;
/// A loop is ended and begun again so often, so that Ctrl-C is heard.
const SLICE: Duration = Duration::from_secs(2);

/// What one CPU's loops saw, of all slices.
#[derive(Default)]
struct Seen {
    counts: BTreeMap<(u64, u64), u64>,
    longest: u64,
    rate: Option<Rate>,
}

impl Seen {
    fn add(&mut self, measured: &Measured) {
        for bucket in measured.histogram.buckets() {
            *self.counts.entry((bucket.low, bucket.high)).or_default() += bucket.count;
        }
        let noted = measured.gaps.iter().map(|gap| gap.cycles).max().unwrap_or(0);
        let last = measured.histogram.buckets().next_back().map_or(0, |last| last.low);
        self.longest = self.longest.max(noted).max(last);
        // The one that is known best: they are of one counter.
        self.rate = Some(match self.rate.take() {
            Some(rate) if rate.uncertainty <= measured.rate.uncertainty => rate,
            _ => measured.rate,
        });
    }

    fn samples(&self) -> Option<Samples> {
        let buckets = self.counts.iter().map(|(&(low, high), &count)| Bucket { low, high, count });
        Some(Samples::of_cycles(buckets, self.longest, self.rate.as_ref()?))
    }
}

/// The step `npt`.
pub(super) fn npt(run: &mut Run) -> Result<Step, Failure> {
    let mut step = Step::new("npt", "For how long a thread is stopped that should never be (npt)");
    let policy = policy();
    if policy == Policy::Other {
        step.notes.push("no right to real-time priority: an ordinary thread was measured, which waits for all others (run as root, or raise ulimit -r)".to_owned());
    }
    for group in run.groups() {
        let running = run.loads.start(&group)?;
        let measured = measure(run, &group, policy, "npt");
        run.loads.stop(running);
        step.measurements.extend(measured?);
        if run.watch.is_interrupted() {
            break;
        }
    }
    step.notes.push(format!(
        "a loop that reads the cycle counter, {policy}, begun again each {} s",
        SLICE.as_secs()
    ));
    tell(&mut step, "longest gap");
    step.next = step.worst().map(|worst| {
        let cpu = worst.what.trim_start_matches("CPU ");
        let us = (worst.times.maximum_ns / 2e3).max(1.0);
        format!("sudo sordino npt --cpu {cpu} --duration 1min --trigger {us:.0}us explains the next long gap")
    });
    Ok(step)
}

/// The step `hardware`: the kernel's tracer where it is, else a loop of our own.
pub(super) fn hardware(run: &mut Run) -> Result<Step, Failure> {
    let mut step = Step::new("hardware", "What the hardware, or a hypervisor, takes");
    match kernels_tracer(run) {
        Ok(measurements) => {
            step.measurements = measurements;
            step.notes.push(
                "the kernel's hwlat tracer: interrupts off for half of each second, gaps of 10 us and more"
                    .to_owned(),
            );
            tell(&mut step, "longest gap");
            if step.measurements.is_empty() {
                step.reason = "no gap of 10 us or more".to_owned();
            }
            return Ok(step);
        }
        Err(reason) => step.notes.push(format!("the kernel's hwlat tracer can't be used: {reason}")),
    }
    let policy = policy();
    for group in run.groups() {
        step.measurements.extend(measure(run, &group, policy, "hardware")?);
        if run.watch.is_interrupted() {
            break;
        }
    }
    step.notes.push(format!(
        "instead, a loop in user space ({policy}, no load): it can't tell gaps of hardware or hypervisor from those of the kernel's \
         interrupts and threads; what is counted as interrupting is an upper bound for the latter"
    ));
    tell(&mut step, "longest gap, whoever made it,");
    Ok(step)
}

/// The gaps that `hwlat` saw on the measured CPUs; or why there is no such.
fn kernels_tracer(run: &mut Run) -> Result<Vec<Measurement>, String> {
    let text = |failure: Failure| failure.text().to_owned();
    let tracefs = Tracefs::open().map_err(|error| error.to_string())?;
    if !tracefs.tracers().map_err(|error| error.to_string())?.iter().any(|tracer| tracer == "hwlat") {
        return Err("this kernel is built without it (CONFIG_HWLAT_TRACER)".to_owned());
    }
    let gaps = (|| -> Result<Samples, Failure> {
        let name = format!("sordino-{}", std::process::id());
        let mut guardian = guard::start()?;
        guardian.add(Undo::RemoveInstance { name: name.clone() })?;
        let instance = Instance::create(&tracefs, &name)?;
        let cpus: Vec<Cpu> = run.cpus.as_slice().iter().copied().map(Cpu).collect();
        instance.set_cpus(&cpus)?;
        instance.set_tracer("hwlat")?;
        run.watch.begin("hardware: the kernel's hwlat", run.duration);
        let begin = Instant::now();
        while begin.elapsed() < run.duration && !run.watch.is_interrupted() {
            thread::sleep(Duration::from_millis(200));
            run.watch.tick();
        }
        let trace = instance.text()?;
        instance.set_tracer("nop")?;
        instance.remove()?;
        guardian.undo()?;
        Ok(hwlat::read(&trace))
    })()
    .map_err(text)?;
    let what = format!("CPU {}", run.cpus);
    let measurement = Measurement { what, times: gaps.into(), interrupters: Vec::new() };
    Ok(if measurement.times.count == 0 { Vec::new() } else { vec![measurement] })
}

/// A loop on each CPU of the group at once.
fn measure(run: &mut Run, group: &CpuList, policy: Policy, what: &str) -> Result<Vec<Measurement>, Failure> {
    run.watch.begin(format!("{what}: CPU {group}"), run.duration);
    let mut seen: BTreeMap<u32, Seen> = BTreeMap::new();
    let (before, begin) = (Counts::now()?, Instant::now());
    while begin.elapsed() < run.duration && !run.watch.is_interrupted() {
        let time = SLICE.min(run.duration.saturating_sub(begin.elapsed())).max(Duration::from_millis(10));
        for (cpu, measured) in slice(group, policy, time)? {
            let seen = seen.entry(cpu).or_default();
            seen.add(&measured);
            let longest = seen.rate.as_ref().map(|rate| rate.nanoseconds(seen.longest));
            longest.into_iter().for_each(|ns| run.watch.longest(ns));
        }
    }
    let after = Counts::now()?;
    let who = |cpu| {
        let interrupters = after.since(&before, cpu).into_iter();
        interrupters.map(|who| Interrupter { name: who.name, count: who.count }).collect()
    };
    let measurement = |(cpu, seen): (u32, Seen)| {
        let times = seen.samples()?.into();
        Some(Measurement { what: format!("CPU {cpu}"), times, interrupters: who(cpu) })
    };
    Ok(seen.into_iter().filter_map(measurement).collect())
}

fn slice(group: &CpuList, policy: Policy, time: Duration) -> Result<Vec<(u32, Measured)>, Failure> {
    let plan = |cpu| Plan {
        cpu: Some(cpu),
        policy,
        lock_memory: false,
        loops: u64::MAX,
        duration: Some(time),
        tracepoint: false,
        ..Plan::default()
    };
    let results: Vec<(u32, Result<Measured, Error>)> = thread::scope(|scope| {
        let start = |&cpu: &u32| (cpu, scope.spawn(move || sordino_npt::run(&plan(cpu))));
        let threads: Vec<_> = group.as_slice().iter().map(start).collect();
        let end = |(cpu, thread): (u32, thread::ScopedJoinHandle<'_, _>)| {
            (cpu, thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        };
        threads.into_iter().map(end).collect()
    });
    let what = |error: Error| Failure::new(UNUSABLE, error.to_string());
    results.into_iter().map(|(cpu, result)| Ok((cpu, result.map_err(what)?))).collect()
}

/// The best that this user may have.
fn policy() -> Policy {
    let wanted = Policy::Fifo(PRIORITY);
    let may = is_root() || thread::spawn(move || set_policy(wanted).is_ok()).join().unwrap_or(false);
    if may { wanted } else { Policy::Other }
}

/// The reason, from the figures.
pub(super) fn tell(step: &mut Step, what: &str) {
    let Some(worst) = step.worst() else {
        step.verdict = Verdict::NotMeasured;
        step.reason = "ended before anything was measured".to_owned();
        return;
    };
    step.reason = format!("{what} {}, on {}", time(worst.times.maximum_ns), worst.what);
}
