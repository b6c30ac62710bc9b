//! Steps that the kernel's tracers make: time taken by the hardware, sources of interruptions, timer latency.

use super::Run;
use super::tracing::{TracefsSetting, Tracing};
use crate::Error;
use crate::tracers::Tracer;
use crate::{CheckStep, Verdict};
use sordino_event::text::with_causes;
use sordino_quantity::typed;
use std::time::Duration;

/// hwlatdetect's defaults: the shortest gap that counts, and the part of a window during which it looks.
const GAP: Duration = Duration::from_micros(10);
const WIDTH: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_secs(1);

/// osnoise's default for the shortest noise that counts (`Documentation/trace/osnoise-tracer.rst`).
const NOISE: Duration = Duration::from_micros(5);
/// osnoise's period, without a pause in between. A tenth of its default, because a percentile needs many periods.
const PERIOD: Duration = Duration::from_millis(100);
/// The timer's interval: timerlat's default, and cyclictest's in this check.
const TIMER: Duration = Duration::from_millis(1);

fn us(time: Duration) -> String {
    time.as_micros().to_string()
}

/// Makes the step `hardware` by the kernel's hwlat tracer.
///
/// # Errors
/// The reason why the tracer can't make it.
pub(crate) fn hardware(run: &mut Run<'_>, mut step: CheckStep) -> Result<CheckStep, String> {
    let tracing = Tracing::find(Tracer::Hwlat).map_err(|(reason, _)| reason)?;
    let gap = shortest_gap(run.hardware_limit);
    let knobs = [
        ("tracing_thresh", us(gap)),
        ("hwlat_detector/width", "1".to_owned()),
        ("hwlat_detector/window", us(WINDOW)),
        ("hwlat_detector/width", us(WIDTH)),
    ];
    let cpus = run.cpus.clone();
    let loss = tracing.measure(run, &cpus, &knobs, &mut step).map_err(|failure| with_causes(&failure))?;
    step.notes.push(format!(
        "the kernel's hwlat tracer: interrupts off for {} of each {}, on one CPU after the other; of each time the longest gap over {}",
        typed(WIDTH),
        typed(WINDOW),
        typed(gap)
    ));
    step.tell_worst("longest gap");
    if step.measurements.is_empty() && !run.progress.is_interrupted() {
        (step.verdict, step.reason) = without_gaps(run.hardware_limit, gap);
    }
    Ok(unless_lost(step, loss))
}

/// Returns the shortest gap to look for, so that one over the limit is seen. The tracer counts whole microseconds.
fn shortest_gap(limit: Option<Duration>) -> Duration {
    let limit = limit.map_or(GAP, |limit| limit.clamp(Duration::from_micros(1), GAP));
    Duration::from_micros(limit.as_micros() as u64)
}

/// Returns the verdict for no gap found, which proves nothing about shorter gaps.
fn without_gaps(limit: Option<Duration>, gap: Duration) -> (Verdict, String) {
    let reason = format!("no gap over {}", typed(gap));
    match limit {
        None => (Verdict::Info, reason),
        Some(limit) if limit < gap => (
            Verdict::NotMeasured,
            format!("{reason}; the kernel's tracer does not see those that the limit is for"),
        ),
        Some(_) => (Verdict::Pass, format!("{reason}; within the limit")),
    }
}

/// Makes the step `osnoise` by the kernel's tracer of that name.
pub(crate) fn osnoise(run: &mut Run<'_>) -> Result<CheckStep, Error> {
    let step =
        CheckStep::new("osnoise", "Interruptions of a busy thread and their sources (the kernel's osnoise)");
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
            typed(PERIOD),
            typed(NOISE)
        ));
    }
    Ok(step)
}

/// Makes the step `timerlat` by the kernel's tracer of that name.
pub(crate) fn timerlat(run: &mut Run<'_>) -> Result<CheckStep, Error> {
    let step = CheckStep::new(
        "timerlat",
        "Latency of a timer's interrupt and of the thread it wakes (the kernel's timerlat)",
    );
    let knobs = [("osnoise/timerlat_period_us", us(TIMER))];
    let mut step = under_load(run, Tracer::Timerlat, &knobs, step, "latest")?;
    if !step.measurements.is_empty() {
        let timer = typed(TIMER);
        step.notes.push(format!("a timer each {timer} wakes a thread of the kernel's, SCHED_FIFO 95"));
    }
    Ok(step)
}

/// Returns the duration of a step that a kernel tracer makes; zero if the tracer can't be used.
pub(crate) fn takes(run: &Run<'_>, tracer: Tracer) -> Duration {
    if Tracing::find(tracer).is_ok() { run.each_group() } else { Duration::ZERO }
}

/// Makes the step `osnoise` or `timerlat`, which share their settings, under load.
fn under_load(
    run: &mut Run<'_>,
    tracer: Tracer,
    knobs: &[TracefsSetting],
    mut step: CheckStep,
    what: &str,
) -> Result<CheckStep, Error> {
    let tracing = match Tracing::find(tracer) {
        Ok(tracing) => tracing,
        Err((reason, next)) => return Ok(step.not_measured(reason, next)),
    };
    // With a value other than 0, tracing would stop by itself.
    let never =
        ["osnoise/stop_tracing_us", "osnoise/stop_tracing_total_us"].map(|file| (file, "0".to_owned()));
    let mut losses = None;
    for group in run.groups() {
        let cpus = [("osnoise/cpus", group.to_string())];
        let running = run.loads.start(&group, &mut run.progress)?;
        let loss = tracing.measure(run, &group, &[knobs, &never, &cpus].concat(), &mut step);
        run.loads.stop(running);
        losses = loss?.or(losses);
        if run.progress.is_interrupted() {
            break;
        }
    }
    step.tell_worst(what);
    Ok(unless_lost(step, losses))
}

/// Returns the step as not measured if lines were lost: no limit can be judged then.
fn unless_lost(step: CheckStep, loss: Option<String>) -> CheckStep {
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
