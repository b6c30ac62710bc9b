//! The options of `sordino npt` as a plan.

use super::{Options, contradiction};
use crate::Failure;
use crate::failure::UNUSABLE;
use crate::quantities::size;
use crate::terminal::remark;
use sordino_npt::{Body, Plan, Sink, may_lock_memory, permitted_policy};
use sordino_sched::CpuList;

/// A part of the work of each loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Tracepoint,
    Other(Body),
}

/// Default size that `memory` writes to: more than a first-level cache holds, less than a second-level one. Bytes.
const SWEEP: usize = 128 << 10;
/// Largest size that `memory` may write to: larger ones would leave no memory for others, or take too long for one
/// loop. Bytes.
const LARGEST_SWEEP: u64 = 1 << 30;

pub(super) fn body(text: &str) -> Result<Part, String> {
    match text.split_once('=') {
        None if text == "empty" => Ok(Part::Other(Body::Empty)),
        None if text == "memory" => Ok(Part::Other(Body::Memory(SWEEP))),
        None if text == "syscall" => Ok(Part::Other(Body::SystemCall)),
        None if text == "tracepoint" => Ok(Part::Tracepoint),
        Some(("memory", text)) => match size(text)? {
            size @ 1..=LARGEST_SWEEP => Ok(Part::Other(Body::Memory(size as usize))),
            _ => Err("expected a size of at least 1 byte and at most 1G".to_owned()),
        },
        _ => Err("expected empty, memory, memory=SIZE, syscall or tracepoint".to_owned()),
    }
}

pub(super) fn frequency(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(frequency) if frequency.is_finite() && frequency > 0.0 => Ok(frequency),
        _ => Err("expected a number of hits per second greater than 0, such as 1000 or 2.5e6".to_owned()),
    }
}

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
    let parts: &[Part] = if options.no_tracepoint || options.interrupts_off { &[] } else { &options.body };
    let tracepoint = parts.contains(&Part::Tracepoint);
    let mut others = parts.iter().filter_map(|part| match part {
        Part::Other(body) => Some(*body),
        Part::Tracepoint => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_or_refused_with_what_there_is() {
        assert_eq!(body("memory=64K"), Ok(Part::Other(Body::Memory(65_536))));
        assert_eq!(body("empty"), Ok(Part::Other(Body::Empty)));
        for bad in ["", "memory=", "memory=0", "memory=2G", "syscall=3", "memory=-1"] {
            assert!(body(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_frequency_is_more_than_nothing() {
        assert_eq!(frequency("2.5e6"), Ok(2.5e6));
        for bad in ["0", "-1", "inf", "nan", "5k", ""] {
            assert!(frequency(bad).is_err(), "{bad}");
        }
    }
}
