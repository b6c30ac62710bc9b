//! Steps that read the clock in a loop: npt under load, and the time that the hardware takes without load.

use super::tracing::Tracing;
use super::{Run, tracers};
use crate::Error;
use crate::tracers::Tracer;
use crate::{CheckStep, InterruptionSource, Measurement, Samples};
use sordino_npt::{Counts, Measured, Monitor, Plan, Switches, hit, run_on};
use sordino_sched::{CpuList, Policy, Right, is_root, set_policy};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// SCHED_FIFO priority of the loops: above everything except the kernel's own threads of higher priority, on which it
/// relies.
const PRIORITY: u8 = 90;
/// Interval at which the loops are checked for progress.
const LOOK: Duration = Duration::from_millis(100);

/// Makes the step `npt`, a loop under load.
pub(crate) fn npt(run: &mut Run<'_>) -> Result<CheckStep, Error> {
    let mut step = CheckStep::new("npt", "Longest interruption of a busy thread (npt)");
    let policy = policy();
    if policy == Policy::Other {
        step.notes.push(format!("no right to real-time priority: an ordinary thread was measured, which waits for all others ({}, or raise ulimit -r)", Right::Schedule.remedy()));
    }
    for group in run.groups() {
        let running = run.loads.start(&group, &mut run.progress)?;
        let measured = measure(run, &group, policy, &mut step);
        run.loads.stop(running);
        measured?;
        if run.progress.is_interrupted() {
            break;
        }
    }
    step.notes.push(format!("a loop that reads the cycle counter, {policy}"));
    step.tell_worst("longest gap");
    step.next = step.worst().map(|worst| {
        let cpu = worst.what.trim_start_matches("CPU ");
        let us = (worst.times.maximum_ns / 2e3).max(1.0);
        format!("sudo sordino npt --cpu {cpu} --duration 1min --trigger {us:.0}us explains the next long gap")
    });
    Ok(step)
}

/// Makes the step `hardware`, by the kernel's hwlat tracer if it can be used, or else by a loop of our own.
pub(crate) fn hardware(run: &mut Run<'_>) -> Result<CheckStep, Error> {
    let mut step = CheckStep::new("hardware", "Time taken by the hardware or a hypervisor");
    match tracers::hardware(run, step.clone()) {
        Ok(step) => return Ok(step),
        Err(reason) => step.notes.push(format!("the kernel's hwlat tracer can't be used: {reason}")),
    }
    let policy = policy();
    for group in run.groups() {
        measure(run, &group, policy, &mut step)?;
        if run.progress.is_interrupted() {
            break;
        }
    }
    step.notes.push(format!(
        "instead, a loop in user space ({policy}, no load): it can't tell gaps of hardware or hypervisor from those of the kernel's \
         interrupts and threads; what is counted as interrupting is an upper bound for the latter"
    ));
    step.tell_worst("longest gap, of whatever cause,");
    Ok(step)
}

/// Returns the duration of the step `hardware`. The tracer moves from one CPU to the next within one duration.
pub(crate) fn hardware_takes(run: &Run<'_>) -> Duration {
    if Tracing::find(Tracer::Hwlat).is_ok() { run.duration } else { run.each_group() }
}

/// Measures with a loop on each CPU of the group at once, and records which threads and interrupts took the CPUs from
/// the loops.
fn measure(run: &mut Run<'_>, group: &CpuList, policy: Policy, step: &mut CheckStep) -> Result<(), Error> {
    run.progress.begin(format!("{}: CPU {group}", step.name), run.duration);
    let mut guardian = sordino_guard::start()?;
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
        // Threads come first: they are few, and one of them takes longer than any interrupt.
        let mut who = switches.remove(&cpu).unwrap_or_default();
        who.sort_by_key(|who| Reverse(who.count));
        who.extend(after.since(&before, cpu));
        step.measurements.push(Measurement {
            interrupters: who
                .into_iter()
                .map(|who| InterruptionSource { name: who.name, count: who.count })
                .collect(),
            stolen_ms: after.stolen_since(&before, cpu).map(|stolen| stolen.as_millis() as u64),
            ..Measurement::new(format!("CPU {cpu}"), samples)
        });
    }
    Ok(())
}

/// Runs the loops for the check's duration or until Ctrl-C, and returns each CPU's measurement.
fn loops(run: &mut Run<'_>, group: &CpuList, policy: Policy) -> Result<Vec<(u32, Measured)>, Error> {
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
            if run.progress.is_interrupted() {
                monitors.iter().for_each(Monitor::stop);
            }
            let longest = monitors.iter().map(Monitor::longest).max().unwrap_or_default();
            run.progress.longest(longest.as_nanos() as f64);
        }
        loops.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(group.as_slice().iter().copied().zip(measured).collect())
}

/// Returns the real-time policy, or the ordinary one if this user has no right to it.
fn policy() -> Policy {
    let realtime = Policy::Fifo(PRIORITY);
    let may = is_root() || thread::spawn(move || set_policy(realtime).is_ok()).join().unwrap_or(false);
    if may { realtime } else { Policy::Other }
}
