//! The steps that measure, one after the other.

mod held_settings;
mod load;
mod loops;
mod progress;
mod tool;
mod tracers;
mod tracing;
mod wakeup;

pub use load::is_source;
pub use progress::CheckObserver;

use crate::loads::Load;
use crate::tracers::Tracer;
use crate::{CheckStep, Error, Limits, Report, ReportDirectory, SCHEMA, Settings, Verdict, table};
use held_settings::HeldSettings;
use load::Loads;
use progress::MeasurementProgress;
use sordino_event::Nanos;
use sordino_event::text::{count, with_causes};
use sordino_proc::SystemFiles;
use sordino_sched::CpuList;
use sordino_shield::{Machine, Store, boot};
use sordino_tracefs::Tracefs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// All steps in the order in which they are made: the name, the function, and the duration of the measurement.
const STEPS: &[(&str, Make, Takes)] = &[
    ("system", system, |_| Duration::ZERO),
    ("hardware", loops::hardware, loops::hardware_takes),
    ("npt", loops::npt, |run| run.each_group()),
    ("osnoise", tracers::osnoise, |run| tracers::takes(run, Tracer::Osnoise)),
    ("wake-up", |run| wakeup::wake_up(run, false), wakeup::wake_up_takes),
    ("wake-up-traced", |run| wakeup::wake_up(run, true), wakeup::wake_up_takes),
    ("timerlat", tracers::timerlat, |run| tracers::takes(run, Tracer::Timerlat)),
    ("preemption", wakeup::preempt, wakeup::preempt_takes),
    ("priority-inheritance", wakeup::inherit, wakeup::inherit_takes),
    ("load", load_step, |_| Duration::ZERO),
];

type Make = fn(&mut Run<'_>) -> Result<CheckStep, Error>;
type Takes = fn(&Run<'_>) -> Duration;

/// Returns the names of all steps, in their order.
pub fn step_names() -> Vec<&'static str> {
    STEPS.iter().map(|(name, ..)| *name).collect()
}

/// The steps that measure times, for which limits can be set.
const TIMED: &[&str] = &["hardware", "npt", "osnoise", "wake-up", "wake-up-traced", "timerlat", "preemption"];

/// Reads limits from a file.
///
/// # Errors
/// The file can't be read, is malformed, or has a limit for a step that measures no times.
pub fn read_limits(file: &Path) -> Result<Limits, Error> {
    let bad = |error: String| Error::Unusable(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    let limits = Limits::parse(&text, &step_names()).map_err(|error| bad(error.to_string()))?;
    match limits.steps.keys().find(|step| !TIMED.contains(&step.as_str())) {
        Some(step) => Err(bad(format!("[{step}]: that step measures no times; {} do", TIMED.join(", ")))),
        None => Ok(limits),
    }
}

/// The state that the steps share.
pub(crate) struct Run<'a> {
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
    progress: MeasurementProgress<'a>,
}

impl Run<'_> {
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

/// The check that is requested.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    /// The CPUs to measure.
    pub cpus: CpuList,
    /// All CPUs that are online.
    pub online: CpuList,
    /// The duration of each measurement.
    pub duration: Duration,
    /// The load on the other CPUs.
    pub loads: Vec<Load>,
    /// The sources for [`Load::Compile`]; `None` for those of Debian's package.
    pub source: Option<PathBuf>,
    /// The user's limits for each step.
    pub limits: Limits,
    /// The names of the steps to make; empty for all.
    pub only: Vec<String>,
    /// True if the machine is measured as it is set.
    pub default_system: bool,
    /// The directory for reports and traces; `None` if no files are written.
    pub output: Option<PathBuf>,
    /// The command line, for the report.
    pub command: Vec<String>,
    /// The version of the program, for the report.
    pub version: String,
    /// The time of day at the start, for the report.
    pub began: String,
}

impl CheckRequest {
    fn has(&self, step: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == step)
    }

    fn steps(&self) -> impl Iterator<Item = &'static (&'static str, Make, Takes)> {
        STEPS.iter().filter(|(name, ..)| self.has(name))
    }
}

/// A check that is being made, step by step.
pub struct Check<'a> {
    request: CheckRequest,
    run: Run<'a>,
    report: Report,
    hold: Option<HeldSettings>,
    output: Option<ReportDirectory>,
    /// The number of requested steps that were made.
    made: usize,
}

impl<'a> Check<'a> {
    /// Prepares a check; measures nothing.
    ///
    /// # Errors
    /// The directory for results can't be used.
    pub fn new(request: CheckRequest, observer: &'a mut dyn CheckObserver) -> Result<Self, Error> {
        // An unwritable directory is reported before a measurement that may take a day.
        let output = request.output.as_deref().map(ReportDirectory::prepare).transpose()?;
        let run = Run {
            cpus: request.cpus.clone(),
            online: request.online.clone(),
            duration: request.duration,
            loads: Loads::find(&request.loads, request.source.as_deref()),
            hardware_limit: request.limits.longest("hardware"),
            traced_limit: request.limits.longest("wake-up-traced"),
            output: request.output.clone(),
            progress: MeasurementProgress::new(observer),
        };
        let report = begin(&request, &run);
        Ok(Self { request, run, report, hold: None, output, made: 0 })
    }

    /// Returns the number of steps and their duration as text.
    pub fn announcement(&self) -> String {
        announced(&self.request, &self.run)
    }

    /// Makes the next step, and keeps the results so far. `None` if all are made or the check was interrupted.
    pub fn next_step(&mut self) -> Option<&CheckStep> {
        if self.run.progress.is_interrupted() {
            return None;
        }
        let (name, make, _) = self.request.steps().nth(self.made)?;
        self.made += 1;
        // The step `system` reads the settings of the machine before any is changed.
        if *name != "system" && self.hold.is_none() {
            let takes_all = self.run.takes_all();
            let held = if self.request.default_system {
                HeldSettings::nothing()
            } else {
                HeldSettings::all(takes_all)
            };
            self.report.settings.held.clone_from(&held.held);
            self.report.settings.not_held.clone_from(&held.not_held);
            held.not_held.iter().for_each(|note| self.run.progress.remark(note));
            self.hold = Some(held);
        }
        let step = one(name, *make, &mut self.run, &self.request.limits);
        self.report.steps.push(step);
        self.report.interrupted = self.run.progress.is_interrupted();
        self.report.settings.load = self.run.loads.names();
        // Results are kept after each step. A full disk is reported at the end, when everything is printed.
        let _ = self.output.as_ref().map(|output| output.write(&self.report, &self.request.limits));
        self.report.steps.last()
    }

    /// Restores the settings that were held. Returns the report, and the directory to which it is still to be written.
    pub fn finish(self) -> (Report, Option<ReportDirectory>) {
        drop(self.hold);
        (self.report, self.output)
    }
}

/// Returns the number of steps and their duration as text.
fn announced(request: &CheckRequest, run: &Run<'_>) -> String {
    let steps: Vec<Duration> = request.steps().map(|(_, _, takes)| takes(run)).collect();
    let total = steps.iter().fold(Duration::ZERO, |total, step| total.saturating_add(*step));
    let total = Duration::from_secs(total.as_secs_f64().ceil() as u64);
    let steps = count(steps.len(), "step");
    if total.is_zero() {
        return format!("{steps}, a few seconds\n\n");
    }
    let total = sordino_quantity::typed(total);
    // The rest of the time goes to starting and ending programs and to converting traces.
    format!(
        "{steps}: {total} of measurements in all, and a second or two around each; Ctrl-C ends it and reports what was measured\n\n"
    )
}

/// Makes one step. A failure is its result, and the other steps are made all the same.
fn one(name: &str, make: Make, run: &mut Run<'_>, limits: &Limits) -> CheckStep {
    let begin = Instant::now();
    let mut step =
        make(run).unwrap_or_else(|error| CheckStep::new(name, name).not_measured(with_causes(&error), None));
    if run.progress.is_interrupted() && !step.measurements.is_empty() {
        step.notes
            .push(format!("interrupted after {}: it saw no more than that", Nanos::from(begin.elapsed())));
    }
    limits.judge(&mut step);
    step.blame();
    run.progress.clear();
    step
}

fn begin(request: &CheckRequest, run: &Run<'_>) -> Report {
    let limits = &request.limits;
    Report {
        schema: SCHEMA,
        version: request.version.clone(),
        began: request.began.clone(),
        interrupted: false,
        machine: table::machine_info(&SystemFiles::new("/"), &run.online.to_string()),
        settings: Settings {
            command: tool::line(&request.command),
            cpus: run.cpus.to_string(),
            duration_s: request.duration.as_secs_f64(),
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
fn system(run: &mut Run<'_>) -> Result<CheckStep, Error> {
    run.progress.begin("reading the machine's settings", Duration::ZERO);
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
fn load_step(run: &mut Run<'_>) -> Result<CheckStep, Error> {
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
    use crate::Explained;
    use sordino_event::Nanos;
    use std::path::Path;

    /// Nobody, who interrupts nothing.
    struct Nobody;

    impl CheckObserver for Nobody {
        fn doing(&mut self, _: String) {}
        fn clear(&mut self) {}
        fn is_interrupted(&self) -> bool {
            false
        }
        fn remark(&self, _: &str) {}
        fn longest_wake_up(&mut self, _: &Path) -> Result<Option<(Nanos, Explained)>, String> {
            Ok(None)
        }
    }

    fn request(only: &[&str], cpus: &str, online: &str) -> CheckRequest {
        CheckRequest {
            cpus: cpus.parse().unwrap(),
            online: online.parse().unwrap(),
            duration: Duration::from_secs(30),
            loads: Vec::new(),
            source: None,
            limits: Limits::default(),
            only: only.iter().map(|&name| name.to_owned()).collect(),
            default_system: false,
            output: None,
            command: Vec::new(),
            version: String::new(),
            began: String::new(),
        }
    }

    #[test]
    fn the_duration_is_that_of_the_steps_that_are_made() {
        let announced = |only: &[&str], cpus, online| {
            Check::new(request(only, cpus, online), &mut Nobody).unwrap().announcement()
        };
        let first = announced(&["system", "npt"], "0-3", "0-3");
        assert!(first.starts_with("2 steps: 1m of measurements in all,"), "{first}");
        let half = announced(&["npt", "load"], "2-4", "0-4");
        assert!(half.starts_with("2 steps: 30s of measurements in all,"), "{half}");
        assert_eq!(announced(&["system"], "0", "0"), "1 step, a few seconds\n\n");
    }

    #[test]
    fn one_cpu_is_always_left() {
        let groups = |cpus, online| {
            let mut nobody = Nobody;
            let check = Check::new(request(&[], cpus, online), &mut nobody).unwrap();
            check.run.groups().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(groups("2-3", "0-3"), ["2-3"]);
        assert_eq!(groups("0-3", "0-3"), ["1-3", "0"]);
        assert_eq!(groups("0", "0"), ["0"]);
        let takes_all = |cpus, online| {
            let mut nobody = Nobody;
            Check::new(request(&[], cpus, online), &mut nobody).unwrap().run.takes_all()
        };
        assert_eq!(
            [takes_all("0", "0"), takes_all("0-3", "0-3"), takes_all("0", "0-1")],
            [true, false, false]
        );
    }
}
