//! Steps that run programs of rt-tests, and the preempt-test.

use super::Run;
use super::progress::MeasurementProgress;
use super::tool::{self, Ended};
use crate::Error;
use crate::peers::{cyclictest, pi_stress};
use crate::{CheckStep, Explained, Measurement, Verdict, preemption, time};
use sordino_sched::{CpuList, Right, is_root};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// SCHED_FIFO priority of cyclictest, as rteval sets it.
const PRIORITY: &str = "95";
/// The longest time in cyclictest's histogram, in microseconds; longer times are only counted.
const BOUND: u64 = 100_000;
/// The kernel events that the traced run records, those that `explain` needs.
const KERNEL: &str = "sched,irq,irq_vectors,timer";

/// The size of the kernel's trace buffer for each CPU.
const BUFFER: &str = "8M";

/// Returns the reason why no real-time thread could be measured.
fn no_priority() -> String {
    format!("no right to real-time priority: {}", Right::Schedule.remedy())
}

/// Makes the step `wake-up` or, while the kernel is traced, `wake-up-traced`.
pub(crate) fn wake_up(run: &mut Run<'_>, is_traced: bool) -> Result<CheckStep, Error> {
    let mut step = match is_traced {
        false => CheckStep::new("wake-up", "Wake-up latency under load (cyclictest)"),
        true => {
            CheckStep::new("wake-up-traced", "Wake-up latency while sordino traces the kernel (cyclictest)")
        }
    };
    if let Some((reason, next)) = tool::missing("cyclictest", "rt-tests") {
        return Ok(step.not_measured(reason, next));
    }
    if !is_root() {
        return Ok(step.not_measured(no_priority(), None));
    }
    for group in run.groups() {
        if !one_group(run, &group, is_traced, &mut step)? || run.progress.is_interrupted() {
            break;
        }
    }
    if step.verdict != Verdict::NotMeasured {
        step.tell_worst("latest wake-up");
        if step.worst().is_some_and(|worst| worst.times.maximum_ns > BOUND as f64 * 1e3) {
            let bound = time(BOUND as f64 * 1e3);
            step.notes.push(format!(
                "cyclictest only counts times over {bound}: their percentiles are that of the longest"
            ));
        }
    }
    if is_traced {
        step.notes.push(format!("traced: {KERNEL}, overwriting, as 'sordino record --overwrite' does"));
        if run.traced_limit.is_some() {
            step.notes.push(
                "it ends with the first wake-up over the limit, if there is one, so that the trace covers it"
                    .to_owned(),
            );
        } else if step.explained.is_some() {
            step.notes.push(
                "the explanation is for the longest wake-up in the last part of the run, which the trace covers"
                    .to_owned(),
            );
        }
    } else {
        step.next = step
            .worst()
            .map(|_| format!("sudo sordino record --kernel {KERNEL} -- YOUR-PROGRAM, then sordino explain"));
    }
    Ok(step)
}

/// Returns the duration of each of the two steps.
pub(crate) fn wake_up_takes(run: &Run<'_>) -> Duration {
    let groups = run.groups().len() as u32;
    if can_run("cyclictest") { whole_seconds(run.duration).saturating_mul(groups) } else { Duration::ZERO }
}

/// Rounds up to whole seconds, for which rt-tests measure.
fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs_f64().ceil().max(1.0) as u64)
}

/// Returns true if a program of rt-tests can be run.
fn can_run(program: &str) -> bool {
    is_root() && tool::missing(program, "rt-tests").is_none()
}

/// Measures one group of CPUs. Returns false if measuring another one makes no sense.
fn one_group(
    run: &mut Run<'_>,
    group: &CpuList,
    is_traced: bool,
    step: &mut CheckStep,
) -> Result<bool, Error> {
    let directory = tool::scratch()?;
    let json = directory.path().join("cyclictest.json");
    let name = format!("{}-cpu{group}", step.name);
    // A trace that is not kept is removed with the other files.
    let trace = run.output.as_deref().unwrap_or(directory.path()).join(&name);
    let (mut words, limit) = match is_traced {
        true => (recorder(&trace)?, run.traced_limit),
        false => (Vec::new(), None),
    };
    words.extend(cyclictest_command(group, run.duration, limit, &json));
    run.progress.begin(format!("{}: CPU {group}", step.name), run.duration);
    let running = run.loads.start(group, &mut run.progress)?;
    let ended = tool::run(&words, Some(&directory), run.duration, &mut run.progress, |line, progress| {
        if let Some(us) = cyclictest::running_maximum(line) {
            progress.longest(us as f64 * 1e3);
        }
    });
    run.loads.stop(running);
    let ended = ended?;
    let read = std::fs::read_to_string(&json)
        .map_err(|error| format!("it left no result ({error}): {}", ended.last_words));
    let read = read.and_then(|text| cyclictest::read(&text, BOUND).map_err(|error| error.to_string()));
    step.commands.push(ended.command.clone());
    match read {
        Ok(measurements) => {
            if is_traced {
                let kept = run.output.is_some().then_some(name);
                explain(&mut run.progress, &trace, kept, limit, &measurements, step);
            }
            step.measurements.extend(measurements);
            Ok(true)
        }
        Err(reason) => {
            *step = fail(std::mem::replace(step, CheckStep::new("", "")), &ended, reason);
            Ok(false)
        }
    }
}

/// Explains the longest of `measurements` from the trace, if it is the longest of the step so far.
fn explain(
    progress: &mut MeasurementProgress<'_>,
    trace: &Path,
    kept: Option<String>,
    limit: Option<Duration>,
    measurements: &[Measurement],
    step: &mut CheckStep,
) {
    let maximum = |all: &[Measurement]| all.iter().map(|one| one.times.maximum_ns).fold(0.0, f64::max);
    let is_longest = maximum(measurements) >= maximum(&step.measurements);
    match progress.longest_wake_up(trace) {
        Ok(Some((woken, explained))) if is_longest => {
            let (longest, woken) = (maximum(measurements), woken.0 as f64);
            let (passed, headline) = (time(woken), &explained.headline);
            // Only a wake-up over the limit is certain to be in the trace.
            let is_over = limit.is_some_and(|limit| longest > limit.as_nanos() as f64);
            let headline = if is_over && longest > 2.0 * woken {
                format!(
                    "at most {passed} passed between the timer's interrupt and the thread ({headline}); the rest came before the interrupt, by \
                     disabled interrupts, hardware or a hypervisor, or after the thread had the CPU"
                )
            } else {
                format!("{passed} from the timer's interrupt to the thread: {headline}")
            };
            step.explained = Some(Explained { headline, trace: kept, ..explained });
        }
        Ok(Some(_)) => {}
        Ok(None) => step.notes.push("not explained: the trace has no wake-up of cyclictest".to_owned()),
        Err(reason) => step.notes.push(format!("not explained: {reason}")),
    }
}

fn recorder(trace: &Path) -> Result<Vec<String>, Error> {
    let sordino = std::env::current_exe()?;
    let words =
        ["record", "--as", "root", "--overwrite", "--kernel-buffer", BUFFER, "--kernel", KERNEL, "-o"];
    let words = words.map(str::to_owned);
    Ok([&[sordino.display().to_string()], &words[..], &[trace.display().to_string(), "--".to_owned()]]
        .concat())
}

/// Returns cyclictest's command line. Settings that it would change by default are held and reported by the check.
fn cyclictest_command(
    group: &CpuList,
    duration: Duration,
    limit: Option<Duration>,
    json: &Path,
) -> Vec<String> {
    let end = limit.map_or(String::new(), |limit| format!("-b {} ", limit.as_micros().max(1)));
    let (count, cpus) = (group.as_slice().len(), group.to_string());
    let line = format!(
        "cyclictest -m -p {PRIORITY} -i 1000 -D {} -t {count} -a {cpus} -h {BOUND} {end}--default-system --json={}",
        whole_seconds(duration).as_secs(),
        json.display()
    );
    line.split(' ').map(str::to_owned).collect()
}

/// Returns a step as not measured because its program failed.
fn fail(step: CheckStep, ended: &Ended, reason: String) -> CheckStep {
    let reason = if ended.was_stuck { format!("it did not end by itself; {reason}") } else { reason };
    step.not_measured(reason, None)
}

/// Returns the duration of the step `preemption`, which measures each CPU by itself.
pub(crate) fn preempt_takes(run: &Run<'_>) -> Duration {
    if is_root() { run.duration.saturating_mul(run.cpus.as_slice().len() as u32) } else { Duration::ZERO }
}

/// Makes the step `preemption`, the preempt-test on each CPU.
pub(crate) fn preempt(run: &mut Run<'_>) -> Result<CheckStep, Error> {
    let mut step =
        CheckStep::new("preemption", "Preemption of lower priorities by higher ones (preempt-test)");
    let (mut rounds, mut out_of_order) = (0, 0);
    let duration = run.duration;
    for cpu in run.cpus.as_slice().to_vec() {
        run.progress.begin(format!("preemption: CPU {cpu}"), duration);
        let running = run.loads.start(&CpuList::new([cpu]), &mut run.progress)?;
        let stop = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let test = scope.spawn(|| preemption::run(cpu, duration, &stop));
            while !test.is_finished() {
                thread::sleep(Duration::from_millis(100));
                stop.store(run.progress.is_interrupted(), Relaxed);
                run.progress.tick();
            }
            test.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        run.loads.stop(running);
        match result {
            Err(preemption::Error::Policy(_)) => return Ok(step.not_measured(no_priority(), None)),
            Err(error) => return Ok(step.not_measured(error.to_string(), None)),
            Ok(measured) => {
                rounds += measured.rounds;
                out_of_order += measured.out_of_order;
                step.measurements.push(Measurement::new(format!("CPU {cpu}"), measured.times));
            }
        }
        if run.progress.is_interrupted() {
            break;
        }
    }
    step.notes.push("8 threads of rising SCHED_FIFO priorities on one CPU, each wakes the next".to_owned());
    step.tell_worst("latest preemption");
    if out_of_order > 0 {
        step.verdict = Verdict::Fail;
        step.reason = format!(
            "in {out_of_order} of {rounds} rounds a lower priority ran before a higher one that was awake"
        );
        step.next = Some("the scheduler does not keep priorities: look for throttling (sched_rt_runtime_us) and other classes (SCHED_DEADLINE, stop)".to_owned());
    }
    Ok(step)
}

/// Longest duration of the step `priority-inheritance`: pi_stress has no figures and takes all CPUs; it either succeeds
/// or hangs.
const INHERITING: Duration = Duration::from_secs(10);

/// Returns the duration of the step `priority-inheritance`.
pub(crate) fn inherit_takes(run: &Run<'_>) -> Duration {
    if can_run("pi_stress") { whole_seconds(run.duration.min(INHERITING)) } else { Duration::ZERO }
}

/// Makes the step `priority-inheritance` by pi_stress.
pub(crate) fn inherit(run: &mut Run<'_>) -> Result<CheckStep, Error> {
    let mut step =
        CheckStep::new("priority-inheritance", "Priority inheritance of a mutex's holder (pi_stress)");
    if let Some((reason, next)) = tool::missing("pi_stress", "rt-tests") {
        return Ok(step.not_measured(reason, next));
    }
    if !is_root() {
        return Ok(step.not_measured(no_priority(), None));
    }
    let directory = tool::scratch()?;
    let json = directory.path().join("pi_stress.json");
    let duration = run.duration.min(INHERITING);
    let seconds = whole_seconds(duration).as_secs();
    let line = format!("pi_stress -q -m -D {seconds} --json={}", json.display());
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    run.progress.begin("priority inheritance", duration);
    let ended = tool::run(&words, Some(&directory), duration, &mut run.progress, |_, _| {})?;
    step.commands.push(ended.command.clone());
    let is_interrupted = run.progress.is_interrupted();
    match pi_stress::read(&std::fs::read_to_string(&json).unwrap_or_default()) {
        Ok(0) => Ok(step.not_measured("no inversion happened", None)),
        Ok(inversions) => {
            step.verdict = Verdict::Pass;
            step.reason = format!("{inversions} inversions, each resolved");
            Ok(step)
        }
        Err(error) if is_interrupted => Ok(step.not_measured(format!("interrupted: {error}"), None)),
        Err(error) if ended.was_stuck || ended.status.code() == Some(1) => {
            step.verdict = Verdict::Fail;
            step.reason = format!("a group of threads was stuck: {error}: {}", ended.last_words);
            Ok(step)
        }
        Err(error) => Ok(step.not_measured(format!("{error}: {}", ended.last_words), None)),
    }
}
