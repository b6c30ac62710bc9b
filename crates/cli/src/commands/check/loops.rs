//! Steps that read the clock in a loop: npt under load, and what the hardware takes without.

use super::tracing::Tracing;
use super::{Run, tracers};
use crate::Failure;
use crate::commands::guard;
use crate::commands::shield::Switches;
use crate::privilege::is_root;
use sordino_check::tracers::Tracer;
use sordino_check::{Interrupter, Measurement, Samples, Step, Verdict, time};
use sordino_npt::{Counts, Measured, Monitor, Plan, hit, run_on};
use sordino_sched::{CpuList, Policy, Right, set_policy};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// Above everything but what the kernel relies on.
const PRIORITY: u8 = 90;
/// How often somebody looks at the loops.
const LOOK: Duration = Duration::from_millis(100);

/// The step `npt`.
pub(super) fn npt(run: &mut Run) -> Result<Step, Failure> {
    let mut step = Step::new("npt", "For how long a thread is stopped that should never be (npt)");
    let policy = policy();
    if policy == Policy::Other {
        step.notes.push(format!("no right to real-time priority: an ordinary thread was measured, which waits for all others ({}, or raise ulimit -r)", Right::Schedule.remedy()));
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
    match tracers::hardware(run, step.clone()) {
        Ok(step) => return Ok(step),
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

/// How long that measures: the tracer goes from one CPU to the next.
pub(super) fn hardware_takes(run: &Run) -> Duration {
    if Tracing::find(Tracer::Hwlat).is_ok() { run.duration } else { run.each_group() }
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
