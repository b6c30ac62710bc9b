//! Steps that drive rt-tests, and the preempt-test.

use super::Run;
use super::culprit;
use super::loops::tell;
use super::tool::{self, Ended};
use crate::Failure;
use crate::privilege::is_root;
use sordino_check::peers::{cyclictest, pi_stress};
use sordino_check::{Explained, Measurement, Step, Verdict, preemption, time};
use sordino_sched::{CpuList, Right};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// rteval's.
const PRIORITY: &str = "95";
/// The longest time in cyclictest's histogram, in microseconds; longer ones are kept as what is over it.
const BOUND: u64 = 100_000;
/// What the traced run records: what `explain` needs.
const KERNEL: &str = "sched,irq,irq_vectors,timer";

/// How much of it is kept for each CPU.
const BUFFER: &str = "8M";

/// Why no real-time thread could be measured.
fn no_priority() -> String {
    format!("no right to real-time priority: {}", Right::Schedule.remedy())
}

/// The steps `wake-up` and, with the kernel traced meanwhile, `wake-up-traced`.
pub(super) fn wake_up(run: &mut Run, is_traced: bool) -> Result<Step, Failure> {
    let mut step = match is_traced {
        false => Step::new("wake-up", "How late a thread wakes under load (cyclictest)"),
        true => Step::new("wake-up-traced", "The same while sordino traces the kernel"),
    };
    if let Some((reason, next)) = tool::missing("cyclictest", "rt-tests") {
        return Ok(step.not_measured(reason, next));
    }
    if !is_root() {
        return Ok(step.not_measured(no_priority(), None));
    }
    for group in run.groups() {
        if !one_group(run, &group, is_traced, &mut step)? || run.watch.is_interrupted() {
            break;
        }
    }
    if step.verdict != Verdict::NotMeasured {
        tell(&mut step, "latest wake-up");
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
                "it ends with the first wake-up over the limit, if there is one, so that the trace has that"
                    .to_owned(),
            );
        } else if step.explained.is_some() {
            step.notes.push(
                "explained is the longest in the last part of the run, which is what the trace has"
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

/// How long each of the two measures.
pub(super) fn wake_up_takes(run: &Run) -> Duration {
    let groups = run.groups().len() as u32;
    if can_run("cyclictest") { whole_seconds(run.duration).saturating_mul(groups) } else { Duration::ZERO }
}

/// rt-tests measure for whole seconds.
fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs_f64().ceil().max(1.0) as u64)
}

/// Whether a program of rt-tests can be run.
fn can_run(program: &str) -> bool {
    is_root() && tool::missing(program, "rt-tests").is_none()
}

/// Whether there may be more.
fn one_group(run: &mut Run, group: &CpuList, is_traced: bool, step: &mut Step) -> Result<bool, Failure> {
    let directory = tool::scratch()?;
    let json = directory.path().join("cyclictest.json");
    let name = format!("{}-cpu{group}", step.name);
    // A trace that nobody keeps goes with the files.
    let trace = run.output.as_deref().unwrap_or(directory.path()).join(&name);
    let (mut words, limit) = match is_traced {
        true => (recorder(&trace)?, run.traced_limit),
        false => (Vec::new(), None),
    };
    words.extend(cyclictest_command(group, run.duration, limit, &json));
    run.watch.begin(format!("{}: CPU {group}", step.name), run.duration);
    let running = run.loads.start(group, &mut run.watch)?;
    let ended = tool::run(&words, Some(&directory), run.duration, &mut run.watch, |line, watch| {
        if let Some(us) = cyclictest::running_maximum(line) {
            watch.longest(us as f64 * 1e3);
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
                explain(&trace, kept, limit, &measurements, step);
            }
            step.measurements.extend(measurements);
            Ok(true)
        }
        Err(reason) => {
            *step = fail(std::mem::replace(step, Step::new("", "")), &ended, reason);
            Ok(false)
        }
    }
}

/// Says what made the longest of `measurements` so long, if the trace tells, and if it is the longest of the step so far.
fn explain(
    trace: &Path,
    kept: Option<String>,
    limit: Option<Duration>,
    measurements: &[Measurement],
    step: &mut Step,
) {
    let maximum = |all: &[Measurement]| all.iter().map(|one| one.times.maximum_ns).fold(0.0, f64::max);
    let is_longest = maximum(measurements) >= maximum(&step.measurements);
    match culprit::longest(trace) {
        Ok(Some((woken, explained))) if is_longest => {
            let (longest, woken) = (maximum(measurements), woken.0 as f64);
            let (passed, headline) = (time(woken), &explained.headline);
            // Only then the trace has it for certain.
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
        Err(failure) => step.notes.push(format!("not explained: {}", failure.text())),
    }
}

fn recorder(trace: &Path) -> Result<Vec<String>, Failure> {
    let sordino = std::env::current_exe()?;
    let words =
        ["record", "--as", "root", "--overwrite", "--kernel-buffer", BUFFER, "--kernel", KERNEL, "-o"];
    let words = words.map(str::to_owned);
    Ok([&[sordino.display().to_string()], &words[..], &[trace.display().to_string(), "--".to_owned()]]
        .concat())
}

/// What it would tune itself, the check holds and reports.
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

/// A step whose program did not do what it should.
fn fail(step: Step, ended: &Ended, reason: String) -> Step {
    let reason = if ended.was_stuck { format!("it did not end by itself; {reason}") } else { reason };
    step.not_measured(reason, None)
}

/// How long the step `preemption` measures: each CPU by itself.
pub(super) fn preempt_takes(run: &Run) -> Duration {
    if is_root() { run.duration.saturating_mul(run.cpus.as_slice().len() as u32) } else { Duration::ZERO }
}

/// The step `preemption`.
pub(super) fn preempt(run: &mut Run) -> Result<Step, Failure> {
    let mut step =
        Step::new("preemption", "Whether higher priorities preempt lower ones in time (preempt-test)");
    let (mut rounds, mut out_of_order) = (0, 0);
    let duration = run.duration;
    for cpu in run.cpus.as_slice().to_vec() {
        run.watch.begin(format!("preemption: CPU {cpu}"), duration);
        let running = run.loads.start(&CpuList::new([cpu]), &mut run.watch)?;
        let stop = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let test = scope.spawn(|| preemption::run(cpu, duration, &stop));
            while !test.is_finished() {
                thread::sleep(Duration::from_millis(100));
                stop.store(run.watch.is_interrupted(), Relaxed);
                run.watch.tick();
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
        if run.watch.is_interrupted() {
            break;
        }
    }
    step.notes.push("8 threads of rising SCHED_FIFO priorities on one CPU, each wakes the next".to_owned());
    tell(&mut step, "latest preemption");
    if out_of_order > 0 {
        step.verdict = Verdict::Fail;
        step.reason = format!(
            "in {out_of_order} of {rounds} rounds a lower priority ran before a higher one that was awake"
        );
        step.next = Some("the scheduler does not keep priorities: look for throttling (sched_rt_runtime_us) and other classes (SCHED_DEADLINE, stop)".to_owned());
    }
    Ok(step)
}

/// It has no figures, and takes all CPUs: it is either right or stuck.
const INHERITING: Duration = Duration::from_secs(10);

/// How long the step `priority-inheritance` takes.
pub(super) fn inherit_takes(run: &Run) -> Duration {
    if can_run("pi_stress") { whole_seconds(run.duration.min(INHERITING)) } else { Duration::ZERO }
}

/// The step `priority-inheritance`.
pub(super) fn inherit(run: &mut Run) -> Result<Step, Failure> {
    let mut step =
        Step::new("priority-inheritance", "Whether a mutex lends priority to its holder (pi_stress)");
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
    run.watch.begin("priority inheritance", duration);
    let ended = tool::run(&words, Some(&directory), duration, &mut run.watch, |_, _| {})?;
    step.commands.push(ended.command.clone());
    let is_interrupted = run.watch.is_interrupted();
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
