//! Steps that the kernel's tracers make: what the hardware takes, who takes a CPU, how late a timer is.

use super::Run;
use super::loops::tell;
use super::tracing::{Knob, Tracing};
use crate::Failure;
use humantime::format_duration;
use sordino_check::tracers::Tracer;
use sordino_check::{Step, Verdict};
use std::time::Duration;

/// hwlatdetect's defaults: what it takes for a gap, and for how much of which time it looks.
const GAP: Duration = Duration::from_micros(10);
const WIDTH: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_secs(1);

/// What osnoise takes for noise unless told otherwise (`Documentation/trace/osnoise-tracer.rst`).
const NOISE: Duration = Duration::from_micros(5);
/// How often osnoise tells, without a pause in between. A tenth of its default: a percentile takes many periods.
const PERIOD: Duration = Duration::from_millis(100);
/// timerlat's default, and cyclictest's in this check.
const TIMER: Duration = Duration::from_millis(1);

fn us(time: Duration) -> String {
    time.as_micros().to_string()
}

/// The step `hardware`, by the kernel's tracer.
///
/// # Errors
/// Why that can't make it.
pub(super) fn hardware(run: &mut Run, mut step: Step) -> Result<Step, String> {
    let tracing = Tracing::find(Tracer::Hwlat).map_err(|(reason, _)| reason)?;
    let gap = shortest_gap(run.hardware_limit);
    let knobs = [
        ("tracing_thresh", us(gap)),
        ("hwlat_detector/width", "1".to_owned()),
        ("hwlat_detector/window", us(WINDOW)),
        ("hwlat_detector/width", us(WIDTH)),
    ];
    let cpus = run.cpus.clone();
    let loss = tracing.measure(run, &cpus, &knobs, &mut step).map_err(|failure| failure.text().to_owned())?;
    step.notes.push(format!(
        "the kernel's hwlat tracer: interrupts off for {} of each {}, on one CPU after the other; of each time the longest gap over {}",
        format_duration(WIDTH),
        format_duration(WINDOW),
        format_duration(gap)
    ));
    tell(&mut step, "longest gap");
    if step.measurements.is_empty() && !run.watch.is_interrupted() {
        (step.verdict, step.reason) = without_gaps(run.hardware_limit, gap);
    }
    Ok(unless_lost(step, loss))
}

/// What is looked for, so that what exceeds the limit is seen. The tracer knows whole microseconds.
fn shortest_gap(limit: Option<Duration>) -> Duration {
    let limit = limit.map_or(GAP, |limit| limit.clamp(Duration::from_micros(1), GAP));
    Duration::from_micros(limit.as_micros() as u64)
}

/// What follows from finding nothing, which tells nothing of shorter gaps.
fn without_gaps(limit: Option<Duration>, gap: Duration) -> (Verdict, String) {
    let reason = format!("no gap over {}", format_duration(gap));
    match limit {
        None => (Verdict::Info, reason),
        Some(limit) if limit < gap => (
            Verdict::NotMeasured,
            format!("{reason}; the kernel's tracer does not see those that the limit is for"),
        ),
        Some(_) => (Verdict::Pass, format!("{reason}; within the limit")),
    }
}

/// The step `osnoise`.
pub(super) fn osnoise(run: &mut Run) -> Result<Step, Failure> {
    let step =
        Step::new("osnoise", "What takes the CPU from a thread, and what it is (the kernel's osnoise)");
    let knobs = [
        ("tracing_thresh", us(NOISE)),
        ("osnoise/runtime_us", "1".to_owned()),
        ("osnoise/period_us", us(PERIOD)),
        ("osnoise/runtime_us", us(PERIOD)),
    ];
    let mut step = under_load(run, Tracer::Osnoise, &knobs, step, "longest noise")?;
    if !step.measurements.is_empty() {
        step.notes.push(format!(
            "a thread of ordinary priority that never sleeps; of each {} the longest noise over {}",
            format_duration(PERIOD),
            format_duration(NOISE)
        ));
    }
    Ok(step)
}

/// The step `timerlat`.
pub(super) fn timerlat(run: &mut Run) -> Result<Step, Failure> {
    let step =
        Step::new("timerlat", "How late the timer's interrupt and the thread are (the kernel's timerlat)");
    let knobs = [("osnoise/timerlat_period_us", us(TIMER))];
    let mut step = under_load(run, Tracer::Timerlat, &knobs, step, "latest")?;
    if !step.measurements.is_empty() {
        let timer = format_duration(TIMER);
        step.notes.push(format!("a timer each {timer} wakes a thread of the kernel's, SCHED_FIFO 95"));
    }
    Ok(step)
}

/// How long a step of the kernel's tracers measures.
pub(super) fn takes(run: &Run, tracer: Tracer) -> Duration {
    if Tracing::find(tracer).is_ok() { run.each_group() } else { Duration::ZERO }
}

/// A step of osnoise's or of timerlat's, which share their settings.
fn under_load(
    run: &mut Run,
    tracer: Tracer,
    knobs: &[Knob],
    mut step: Step,
    what: &str,
) -> Result<Step, Failure> {
    let tracing = match Tracing::find(tracer) {
        Ok(tracing) => tracing,
        Err((reason, next)) => return Ok(step.not_measured(reason, next)),
    };
    // Else it would stop by itself.
    let never =
        ["osnoise/stop_tracing_us", "osnoise/stop_tracing_total_us"].map(|file| (file, "0".to_owned()));
    let mut losses = None;
    for group in run.groups() {
        let cpus = [("osnoise/cpus", group.to_string())];
        let running = run.loads.start(&group, &mut run.watch)?;
        let loss = tracing.measure(run, &group, &[knobs, &never, &cpus].concat(), &mut step);
        run.loads.stop(running);
        losses = loss?.or(losses);
        if run.watch.is_interrupted() {
            break;
        }
    }
    tell(&mut step, what);
    Ok(unless_lost(step, losses))
}

/// With lines lost, nothing is within a limit.
fn unless_lost(step: Step, loss: Option<String>) -> Step {
    match loss {
        Some(reason) => step.not_measured(reason, Some("measure fewer CPUs at once (--cpus)".to_owned())),
        None => step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_limit_is_for_is_looked_for_as_far_as_the_tracer_can() {
        let gap = |limit| shortest_gap(Some(Duration::from_nanos(limit))).as_nanos();
        assert_eq!([gap(1), gap(7_500), gap(20_000)], [1_000, 7_000, 10_000]);
        assert_eq!(shortest_gap(None), GAP);
        let verdict = |limit| {
            let limit = Some(Duration::from_nanos(limit));
            without_gaps(limit, shortest_gap(limit)).0
        };
        assert_eq!(
            [verdict(999), verdict(1_000), verdict(20_000)],
            [Verdict::NotMeasured, Verdict::Pass, Verdict::Pass]
        );
        assert_eq!(without_gaps(None, GAP), (Verdict::Info, "no gap over 10us".to_owned()));
    }
}
