//! The command `sordino check`.

mod culprit;
mod hold;
mod keep;
mod load;
mod loops;
mod options;
mod output;
mod tool;
mod tracers;
mod tracing;
mod wakeup;
mod watch;

pub(crate) use keep::{Options as KeepOptions, run as keep};
pub(crate) use options::Options;
pub(crate) use output::read as read_report;

use crate::Failure;
use crate::failure::NO;
use crate::privilege::target;
use crate::terminal::{print, show};
use hold::Hold;
use humantime::format_duration;
use load::Loads;
use options::cpus;
use output::Output;
use sordino_check::tracers::Tracer;
use sordino_check::write::{step_text, summary_text};
use sordino_check::{CheckStep, Limits, Report, SCHEMA, Settings, Sources, Verdict, table};
use sordino_event::text::count;
use sordino_sched::CpuList;
use sordino_shield::{Machine, Store, boot};
use sordino_tracefs::Tracefs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use watch::Watch;

/// All steps in the order in which they are made: the name, the function, and the duration of the measurement.
const STEPS: &[(&str, Make, Takes)] = &[
    ("system", system, |_| Duration::ZERO),
    ("hardware", loops::hardware, loops::hardware_takes),
    ("npt", loops::npt, Run::each_group),
    ("osnoise", tracers::osnoise, |run| tracers::takes(run, Tracer::Osnoise)),
    ("wake-up", |run| wakeup::wake_up(run, false), wakeup::wake_up_takes),
    ("wake-up-traced", |run| wakeup::wake_up(run, true), wakeup::wake_up_takes),
    ("timerlat", tracers::timerlat, |run| tracers::takes(run, Tracer::Timerlat)),
    ("preemption", wakeup::preempt, wakeup::preempt_takes),
    ("priority-inheritance", wakeup::inherit, wakeup::inherit_takes),
    ("load", load_step, |_| Duration::ZERO),
];

type Make = fn(&mut Run) -> Result<CheckStep, Failure>;
type Takes = fn(&Run) -> Duration;

fn names() -> Vec<&'static str> {
    STEPS.iter().map(|(name, ..)| *name).collect()
}

/// The state that the steps share.
pub(crate) struct Run {
    cpus: CpuList,
    online: CpuList,
    duration: Duration,
    loads: Loads,
    /// The limit of the step `hardware`.
    hardware_limit: Option<Duration>,
    /// The limit of the step `wake-up-traced`.
    traced_limit: Option<Duration>,
    /// The directory for results, if they are kept.
    output: Option<PathBuf>,
    watch: Watch,
}

impl Run {
    /// Returns the groups of CPUs that are measured at once. One CPU is always left for everything else, the load
    /// included: if all are to be measured, the first is measured by itself.
    fn groups(&self) -> Vec<CpuList> {
        let all = self.cpus.as_slice();
        match self.online.without(&self.cpus).is_empty() && all.len() > 1 {
            true => vec![CpuList::new(all[1..].iter().copied()), CpuList::new([all[0]])],
            false => vec![self.cpus.clone()],
        }
    }

    /// Returns the time that it takes to measure one group after the other.
    fn each_group(&self) -> Duration {
        self.duration.saturating_mul(self.groups().len() as u32)
    }

    /// Returns true if endless loops would leave no CPU to anything else.
    fn takes_all(&self) -> bool {
        self.groups().iter().any(|group| self.online.without(group).is_empty())
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let limits = options.limits()?;
    let (online, cpus) = cpus(options)?;
    // An unwritable directory is reported before a measurement that may take a day.
    let output = options.output.as_deref().map(Output::prepare).transpose()?;
    let watch = Watch::new()?;
    let loads = Loads::find(options.load.loads(), options.source.as_deref());
    let hardware_limit = limits.longest("hardware");
    let traced_limit = limits.longest("wake-up-traced");
    let mut run = Run {
        cpus,
        online,
        duration: options.duration,
        loads,
        hardware_limit,
        traced_limit,
        output: options.output.clone(),
        watch,
    };
    if !options.json {
        show(&announced(options, &run))?;
    }
    let mut report = begin(options, &run, &limits);
    let mut hold = None;
    for (name, make, _) in STEPS.iter().filter(|(name, ..)| options.has(name)) {
        if run.watch.is_interrupted() {
            break;
        }
        // The step `system` reads the settings of the machine before any is changed.
        if *name != "system" && hold.is_none() {
            let held = if options.default_system { Hold::nothing() } else { Hold::all(run.takes_all()) };
            report.settings.held.clone_from(&held.held);
            report.settings.not_held.clone_from(&held.not_held);
            held.not_held.iter().for_each(|note| message!("sordino: {note}"));
            hold = Some(held);
        }
        let step = one(name, *make, &mut run, &limits);
        let text = step_text(&step, options.verbose);
        report.steps.push(step);
        report.interrupted = run.watch.is_interrupted();
        report.settings.load = run.loads.names();
        // Results are kept after each step. A full disk is reported at the end, when everything is printed.
        let _ = output.as_ref().map(|output| output.write(&report, &limits));
        if !options.json {
            show(&text)?;
        }
    }
    drop(hold);
    finish(options, &report, &limits, output.as_ref())
}

/// Returns the number of steps and their duration as text.
fn announced(options: &Options, run: &Run) -> String {
    let steps = STEPS.iter().filter(|(name, ..)| options.has(name));
    let steps: Vec<Duration> = steps.map(|(_, _, takes)| takes(run)).collect();
    let total = steps.iter().fold(Duration::ZERO, |total, step| total.saturating_add(*step));
    let total = Duration::from_secs(total.as_secs_f64().ceil() as u64);
    let steps = count(steps.len(), "step");
    if total.is_zero() {
        return format!("{steps}, a few seconds\n\n");
    }
    let total = format_duration(total);
    // The rest of the time goes to starting and ending programs and to converting traces.
    format!(
        "{steps}: {total} of measurements in all, and a second or two around each; Ctrl-C ends it and reports what was measured\n\n"
    )
}

/// Makes one step. A failure is its result, and the other steps are made all the same.
fn one(name: &str, make: Make, run: &mut Run, limits: &Limits) -> CheckStep {
    let begin = Instant::now();
    let mut step =
        make(run).unwrap_or_else(|failure| CheckStep::new(name, name).not_measured(failure.text(), None));
    if run.watch.is_interrupted() && !step.measurements.is_empty() {
        step.notes
            .push(format!("interrupted after {} s: it saw no more than that", begin.elapsed().as_secs()));
    }
    limits.judge(&mut step);
    step.blame();
    run.watch.clear();
    step
}

fn finish(
    options: &Options,
    report: &Report,
    limits: &Limits,
    output: Option<&Output>,
) -> Result<ExitCode, Failure> {
    match options.json {
        true => print(serde_json::to_string(report)? + "\n")?,
        false => show(&format!("\n{}", summary_text(report)))?,
    }
    if let Some(output) = output {
        output.write(report, limits)?;
        if let Some(owner) = target(None)? {
            output.dir().give(owner.uid.as_raw(), owner.gid.as_raw());
        }
        message!("report: {}", output.path().join("report.html").display());
    }
    Ok(if report.has_failed() { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

fn begin(options: &Options, run: &Run, limits: &Limits) -> Report {
    let words: Vec<String> = std::env::args().collect();
    Report {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        began: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        interrupted: false,
        machine: table::machine_info(&Sources::new("/"), &run.online.to_string()),
        settings: Settings {
            command: tool::line(&words),
            cpus: run.cpus.to_string(),
            duration_s: options.duration.as_secs_f64(),
            load: run.loads.names(),
            limits: limits.texts(),
            required: limits.required.clone(),
            held: Vec::new(),
            not_held: Vec::new(),
        },
        steps: Vec::new(),
    }
}

/// Makes the step `system`, the table of settings.
fn system(run: &mut Run) -> Result<CheckStep, Failure> {
    run.watch.begin("reading the machine's settings", Duration::ZERO);
    let machine = Machine::read()?;
    let kernel = boot::KernelConfig::read(&machine);
    let status = Store::default().status();
    let tracers = Tracefs::open().and_then(|tracefs| tracefs.tracers());
    Ok(table::step(&table::Subject {
        machine: &machine,
        kernel: &kernel,
        shield: status.as_ref().map_err(ToString::to_string),
        cpus: &run.cpus,
        tracers: tracers.map_err(|error| error.to_string()),
    }))
}

/// Makes the step `load`, which reports the load during the other steps.
fn load_step(run: &mut Run) -> Result<CheckStep, Failure> {
    let loads = &run.loads;
    let mut step = CheckStep::new("load", "Load on the other CPUs during the measurements");
    step.commands.clone_from(&loads.commands);
    step.notes.clone_from(&loads.notes);
    step.reason = loads.names();
    if let Some((_, next)) = loads.missing.first() {
        let all: Vec<&str> = loads.missing.iter().map(|(reason, _)| reason.as_str()).collect();
        step = step.not_measured(format!("{}; without: {}", loads.names(), all.join("; ")), next.clone());
    } else if !loads.notes.is_empty() {
        step.verdict = Verdict::Warn;
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn run(cpus: &str, online: &str) -> Run {
        Run {
            cpus: cpus.parse().unwrap(),
            online: online.parse().unwrap(),
            duration: Duration::from_secs(30),
            loads: Loads::find(&[], None),
            hardware_limit: None,
            traced_limit: None,
            output: None,
            watch: Watch::new().unwrap(),
        }
    }

    #[test]
    fn how_long_it_takes_is_said_of_the_steps_that_are_made() {
        let announced = |words: &[&str], cpus, online| {
            let command = Options::augment_args(clap::Command::new("check"));
            let matches = command.get_matches_from([&["check"], words].concat());
            announced(&Options::from_arg_matches(&matches).unwrap(), &run(cpus, online))
        };
        let first = announced(&["--only", "system,npt"], "0-3", "0-3");
        assert!(first.starts_with("2 steps: 1m of measurements in all,"), "{first}");
        let half = announced(&["--only", "npt,load"], "2-4", "0-4");
        assert!(half.starts_with("2 steps: 30s of measurements in all,"), "{half}");
        assert_eq!(announced(&["--only", "system"], "0", "0"), "1 step, a few seconds\n\n");
    }

    #[test]
    fn one_cpu_is_always_left() {
        let groups =
            |cpus, online| run(cpus, online).groups().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(groups("2-3", "0-3"), ["2-3"]);
        assert_eq!(groups("0-3", "0-3"), ["1-3", "0"]);
        assert_eq!(groups("0", "0"), ["0"]);
        let takes_all = |cpus, online| run(cpus, online).takes_all();
        assert_eq!(
            [takes_all("0", "0"), takes_all("0-3", "0-3"), takes_all("0", "0-1")],
            [true, false, false]
        );
    }
}
