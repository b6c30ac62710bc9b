//! Steps that read the clock in a loop: npt under load, and what the hardware takes without.

use super::Run;
use crate::Failure;
use crate::commands::guard;
use crate::commands::shield::Switches;
use crate::privilege::is_root;
use sordino_check::peers::hwlat;
use sordino_check::{Interrupter, Measurement, Samples, Step, Verdict, time};
use sordino_event::Cpu;
use sordino_npt::{Counts, Measured, Monitor, Plan, hit, run_on};
use sordino_sched::{CpuList, Policy, set_policy};
use sordino_tracefs::{Instance, Tracefs};
use sordino_undo::Step as Undo;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Above everything but what the kernel relies on.
const PRIORITY: u8 = 90;
/// How often somebody looks at the loops.
const LOOK: Duration = Duration::from_millis(100);
/// What the kernel's tracer takes for a gap.
const HWLAT_THRESHOLD: Duration = Duration::from_micros(10);

/// The step `npt`.
pub(super) fn npt(run: &mut Run) -> Result<Step, Failure> {
    let mut step = Step::new("npt", "For how long a thread is stopped that should never be (npt)");
    let policy = policy();
    if policy == Policy::Other {
        step.notes.push("no right to real-time priority: an ordinary thread was measured, which waits for all others (run as root, or raise ulimit -r)".to_owned());
    }
    for group in run.groups() {
        let running = run.loads.start(&group, &mut run.watch)?;
        let measured = measure(run, &group, policy, &mut step);
        run.loads.stop(running);
        measured?;
        if run.watch.is_interrupted() {
            break;
        }
    }
    step.notes.push(format!("a loop that reads the cycle counter, {policy}"));
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
                (step.verdict, step.reason) = without_gaps(run.hardware_limit);
            }
            return Ok(step);
        }
        Err(reason) => step.notes.push(format!("the kernel's hwlat tracer can't be used: {reason}")),
    }
    let policy = policy();
    for group in run.groups() {
        measure(run, &group, policy, &mut step)?;
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
    let measurement = Measurement::new(format!("CPU {}", run.cpus), gaps);
    Ok(if measurement.times.count == 0 { Vec::new() } else { vec![measurement] })
}

/// What follows from the kernel's tracer finding nothing, which tells nothing of shorter gaps.
fn without_gaps(limit: Option<Duration>) -> (Verdict, String) {
    let reason = "no gap of 10 us or more".to_owned();
    match limit {
        None => (Verdict::Info, reason),
        Some(limit) if limit < HWLAT_THRESHOLD => (
            Verdict::NotMeasured,
            format!("{reason}; the kernel's tracer does not see those that the limit is for"),
        ),
        Some(_) => (Verdict::Pass, format!("{reason}; within the limit")),
    }
}

/// A loop on each CPU of the group at once, and who took the CPUs from them.
fn measure(run: &mut Run, group: &CpuList, policy: Policy, step: &mut Step) -> Result<(), Failure> {
    run.watch.begin(format!("{}: CPU {group}", step.name), run.duration);
    let mut guardian = guard::start()?;
    let switches = Switches::watch(group, &mut guardian);
    let before = Counts::now()?;
    let measured = loops(run, group, policy)?;
    let after = Counts::now()?;
    let switches = switches.and_then(|switches| switches.between(&measured));
    guardian.undo()?;
    let mut switches = switches.unwrap_or_else(|reason| {
        step.notes.push(format!("which threads took CPU {group} is not known: {reason}"));
        BTreeMap::new()
    });
    for (cpu, measured) in measured {
        let buckets = measured.histogram.buckets();
        let samples = Samples::of_cycles(buckets, measured.longest, &measured.rate);
        // Threads first: they are few, and one of them takes longer than any interrupt.
        let mut who = switches.remove(&cpu).unwrap_or_default();
        who.sort_by_key(|who| Reverse(who.count));
        who.extend(after.since(&before, cpu));
        step.measurements.push(Measurement {
            interrupters: who
                .into_iter()
                .map(|who| Interrupter { name: who.name, count: who.count })
                .collect(),
            stolen_ms: after.stolen_since(&before, cpu).map(|stolen| stolen.as_millis() as u64),
            ..Measurement::new(format!("CPU {cpu}"), samples)
        });
    }
    Ok(())
}

/// Each CPU with what its loop measured, as long as was asked for or until Ctrl-C.
fn loops(run: &mut Run, group: &CpuList, policy: Policy) -> Result<Vec<(u32, Measured)>, Failure> {
    let plan = Plan {
        policy,
        lock_memory: false,
        loops: u64::MAX,
        duration: Some(run.duration),
        tracepoint: false,
        ..Plan::default()
    };
    let monitors: Vec<Monitor> = group.as_slice().iter().map(|_| Monitor::default()).collect();
    let measured = thread::scope(|scope| {
        let loops = scope.spawn(|| run_on(group, &plan, &monitors, hit));
        while !loops.is_finished() {
            thread::sleep(LOOK);
            if run.watch.is_interrupted() {
                monitors.iter().for_each(Monitor::stop);
            }
            let longest = monitors.iter().map(Monitor::longest).max().unwrap_or_default();
            run.watch.longest(longest.as_nanos() as f64);
        }
        loops.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(group.as_slice().iter().copied().zip(measured).collect())
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
