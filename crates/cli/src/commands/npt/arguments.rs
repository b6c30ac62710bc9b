//! The options of `sordino npt` as a plan.

use super::options::{Options, contradiction};
use crate::Failure;
use crate::failure::UNUSABLE;
use crate::terminal::remark;
use sordino_npt::{Body, LoopPart, Plan, Sink, may_lock_memory, permitted_policy};
use sordino_sched::CpuList;

/// Returns the CPUs to measure, and the plan that each of them follows.
pub(super) fn plan(options: &Options) -> Result<(CpuList, Plan), Failure> {
    let (body, tracepoint) = parts(options)?;
    let cpus = cpus(options)?;
    let unlimited = options.duration.is_some();
    let plan = Plan {
        cpu: None,
        policy: permitted_policy(options.prio, &remark),
        lock_memory: may_lock_memory(&remark),
        loops: options.loops.unwrap_or(if unlimited { u64::MAX } else { 10_000_000 }),
        duration: options.duration,
        warm_up: options.warm_up,
        tracepoint,
        most_hits: options.max_frequency,
        windows: options.trace_window.zip(options.wait_window),
        body,
        pace: options.pace,
        end_at: options.end_at,
        faults_at: options.faults_at.clone(),
        ..Plan::default()
    };
    Ok((cpus, plan))
}

/// Returns the work of each loop, and whether it hits the tracepoint.
fn parts(options: &Options) -> Result<(Body, bool), Failure> {
    let parts: &[LoopPart] =
        if options.no_tracepoint || options.interrupts_off { &[] } else { &options.body };
    let tracepoint = parts.contains(&LoopPart::Tracepoint);
    let mut others = parts.iter().filter_map(|part| match part {
        LoopPart::Other(body) => Some(*body),
        LoopPart::Tracepoint => None,
    });
    let body = others.next();
    if others.next().is_some() || (tracepoint && body == Some(Body::Empty)) {
        let text = "--body takes 'empty' alone, or 'tracepoint' and one of 'memory' and 'syscall', or either of them";
        return Err(contradiction(text));
    }
    let limits = options.max_frequency.is_some() || options.trace_window.is_some();
    if !tracepoint && (limits || options.sink != Sink::Sordino) {
        let text = "--max-frequency, --trace-window and --sink concern the tracepoint, which the loop does not hit: \
                    add it to --body";
        return Err(contradiction(text));
    }
    if options.trace_window.is_some_and(|window| window.is_zero()) {
        return Err(contradiction("--trace-window 0s: must be longer than 0s, or nothing is measured"));
    }
    if options.duration.is_some_and(|duration| options.pace > duration) {
        return Err(contradiction("--pace is longer than --duration: not one loop would end in time"));
    }
    Ok((body.unwrap_or_default(), tracepoint))
}

pub(super) fn cpus(options: &Options) -> Result<CpuList, Failure> {
    let online = CpuList::online()?;
    let cpus = match &options.cpu {
        Some(cpus) => cpus.clone(),
        None => CpuList::new(sordino_shield::measured_cpu()?),
    };
    let offline = cpus.without(&online);
    match offline.as_slice() {
        [] => Ok(cpus),
        [cpu] => Err(Failure::new(UNUSABLE, format!("CPU {cpu} is not online; online are {online}"))),
        _ => Err(Failure::new(UNUSABLE, format!("CPUs {offline} are not online; online are {online}"))),
    }
}
