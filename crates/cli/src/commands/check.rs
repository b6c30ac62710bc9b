//! `sordino check`

mod hold;
mod keep;
mod load;
mod loops;
mod output;
mod tool;
mod wakeup;
mod watch;

pub(crate) use keep::{Options as KeepOptions, run as keep};
pub(crate) use output::read as read_report;

use crate::Failure;
use crate::arguments::duration;
use crate::commands::{print, shield};
use crate::failure::{NO, UNUSABLE};
use crate::privilege::target;
use clap::{Args, ValueEnum};
use hold::Hold;
use load::Loads;
use output::Output;
use sordino_check::loads::Load;
use sordino_check::write::{step_text, summary_text};
use sordino_check::{Limit, Limits, Report, SCHEMA, Settings, Sources, Step, Verdict, table};
use sordino_sched::{CpuList, affinity};
use sordino_shield::{Machine, Store, boot};
use sordino_tracefs::Tracefs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use watch::Watch;

/// Say whether this machine is fit for real time, and what disturbs it
///
/// Looks how the machine is set, then measures: what the hardware takes, for how long a thread is stopped (npt), how late a thread
/// wakes under load (cyclictest), untraced and traced, whether priorities are kept. Each step PASSes, WARNs, FAILs, is INFO where no
/// limit was given, or NOT MEASURED, with the reason and what to do next. What is missing is said, with the package that has it.
///
/// A minute is a smoke test; a machine that is to be relied on is measured for a day. Exit status: 1 if a step failed, or was not
/// measured and is required.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo sordino check
  sudo sordino check --duration 10s --cpus 1 --max-wakeup 100us --max-gap 20us -o results
  sudo sordino check --duration 12h --load all --thresholds limits.toml --require wake-up -o results
  sordino compare results-before results-after")]
pub(crate) struct Options {
    /// How long each measurement takes
    #[arg(short = 'd', long, value_name = "TIME", default_value = "60s", value_parser = some_time)]
    duration: Duration,
    /// The CPUs to measure [default: those that are shielded, or that this process may run on]
    #[arg(short = 'a', long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// What runs on all other CPUs meanwhile
    #[arg(long, value_enum, default_value = "hackbench")]
    load: LoadName,
    /// The kernel's sources for --load compile: a directory or an archive [default: Debian's linux-source in /usr/src]
    #[arg(long, value_name = "PATH")]
    source: Option<PathBuf>,
    /// No thread may wake later than this (wake-up, wake-up-traced, timerlat)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_wakeup: Option<Duration>,
    /// No thread may be stopped for longer than this (npt, hardware)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_gap: Option<Duration>,
    /// Limits from a TOML file: [STEP] with max = "100us", "p99.99" = "50us"; require = ["STEP"]
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,
    /// The answer is "no" if this step can't be measured; may be repeated
    #[arg(long, value_name = "STEP", value_parser = step_name)]
    require: Vec<String>,
    /// These steps alone
    #[arg(long, value_name = "STEP,...", value_delimiter = ',', value_parser = step_name)]
    only: Vec<String>,
    /// Hold nothing: measure the machine as it is, throttled and asleep
    #[arg(long)]
    default_system: bool,
    /// Where report.html, report.json and junit.xml go: a new or empty directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Every line of the table, and all commands
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadName {
    None,
    Hackbench,
    Compile,
    StressNg,
    All,
}

impl LoadName {
    fn loads(self) -> &'static [Load] {
        match self {
            Self::None => &[],
            Self::Hackbench => &[Load::Hackbench],
            Self::Compile => &[Load::Compile],
            Self::StressNg => &[Load::StressNg],
            Self::All => &[Load::Hackbench, Load::Compile, Load::StressNg],
        }
    }
}

/// All steps, in the order in which they are made.
const STEPS: &[(&str, Make)] = &[
    ("system", system),
    ("hardware", loops::hardware),
    ("npt", loops::npt),
    ("wake-up", |run| wakeup::wake_up(run, false)),
    ("wake-up-traced", |run| wakeup::wake_up(run, true)),
    ("timerlat", wakeup::timerlat),
    ("preemption", wakeup::preempt),
    ("priority-inheritance", wakeup::inherit),
    ("load", load_step),
];

type Make = fn(&mut Run) -> Result<Step, Failure>;

fn step_name(text: &str) -> Result<String, String> {
    let names = names();
    if names.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("there is no such step; there are {}", names.join(", ")))
    }
}

fn names() -> Vec<&'static str> {
    STEPS.iter().map(|(name, _)| *name).collect()
}

fn some_time(text: &str) -> Result<Duration, String> {
    duration(text)
        .and_then(|time| if time.is_zero() { Err("it takes some time".to_owned()) } else { Ok(time) })
}

/// What the steps share.
pub(crate) struct Run {
    cpus: CpuList,
    online: CpuList,
    duration: Duration,
    loads: Loads,
    watch: Watch,
}

impl Run {
    /// CPUs that are measured at once. One is always left for everything else, the load among it: of all of them, the first is measured
    /// by itself.
    fn groups(&self) -> Vec<CpuList> {
        let all = self.cpus.as_slice();
        match self.online.without(&self.cpus).is_empty() && all.len() > 1 {
            true => vec![CpuList::new(all[1..].iter().copied()), CpuList::new([all[0]])],
            false => vec![self.cpus.clone()],
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let limits = limits(options)?;
    let (online, cpus) = cpus(options)?;
    // A place that can't be written to is known before the day that the measurement takes.
    let output = options.output.as_deref().map(Output::prepare).transpose()?;
    let watch = Watch::new()?;
    let loads = Loads::find(options.load.loads(), options.source.as_deref());
    let mut run = Run { cpus, online, duration: options.duration, loads, watch };
    let mut report = begin(options, &run, &limits);
    let mut hold = None;
    for (name, make) in STEPS
        .iter()
        .filter(|(name, _)| options.only.is_empty() || options.only.iter().any(|only| only == name))
    {
        if run.watch.is_interrupted() {
            break;
        }
        // The table is of the machine as it is.
        if *name != "system" && hold.is_none() {
            let held = if options.default_system { Hold::nothing() } else { Hold::all()? };
            report.settings.held.clone_from(&held.held);
            held.notes.iter().for_each(|note| eprintln!("sordino: {note}"));
            hold = Some(held);
        }
        // A step that can't be made does not take the others with it.
        let mut step =
            make(&mut run).unwrap_or_else(|failure| Step::new(name, name).not_measured(failure.text(), None));
        limits.judge(&mut step);
        run.watch.clear();
        if !options.json {
            print(step_text(&step, options.verbose))?;
        }
        report.steps.push(step);
        report.interrupted = run.watch.is_interrupted();
        report.settings.load = run.loads.names();
        // What was measured is kept, whatever comes. A full disk is said at the end, when all is printed.
        let _ = output.as_ref().map(|output| output.write(&report, &limits));
    }
    drop(hold);
    finish(options, &report, &limits, output.as_ref())
}

fn finish(
    options: &Options,
    report: &Report,
    limits: &Limits,
    output: Option<&Output>,
) -> Result<ExitCode, Failure> {
    let text = match options.json {
        true => serde_json::to_string(report)? + "\n",
        false => format!("\n{}", summary_text(report)),
    };
    print(text)?;
    if let Some(output) = output {
        output.write(report, limits)?;
        if let Some(owner) = target(None)? {
            owner.give(output.path());
        }
        eprintln!("report: {}", output.path().join("report.html").display());
    }
    Ok(if report.has_failed() { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

fn limits(options: &Options) -> Result<Limits, Failure> {
    let mut limits = Limits::default();
    if let Some(file) = &options.thresholds {
        let place = |error: String| Failure::new(UNUSABLE, format!("{}: {error}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| place(error.to_string()))?;
        limits = Limits::parse(&text, &names()).map_err(|error| place(error.to_string()))?;
    }
    let given = [
        (options.max_wakeup, &["wake-up", "wake-up-traced", "timerlat"][..]),
        (options.max_gap, &["npt", "hardware"][..]),
    ];
    for (time, steps) in given {
        for (time, step) in time.into_iter().flat_map(|time| steps.iter().map(move |step| (time, step))) {
            limits.add(step, Limit { percent: 100.0, time });
        }
    }
    limits.required.extend(options.require.iter().cloned());
    limits.required.sort();
    limits.required.dedup();
    let left_out =
        limits.required.iter().find(|name| !options.only.is_empty() && !options.only.contains(name));
    match left_out {
        Some(name) => {
            Err(Failure::new(UNUSABLE, format!("step {name} is required, and --only leaves it out")))
        }
        None => Ok(limits),
    }
}

/// Those that are online, and those that are measured; takes this process to a shield that has the latter.
fn cpus(options: &Options) -> Result<(CpuList, CpuList), Failure> {
    let online = CpuList::online()?;
    let shielded =
        shield::current().map(|shield| shield.request.cpus).unwrap_or_default().intersection(&online);
    let cpus = match &options.cpus {
        Some(cpus) => cpus.clone(),
        None if !shielded.is_empty() => shielded.clone(),
        None => affinity()?.intersection(&online),
    };
    let missing = cpus.without(&online);
    if !missing.is_empty() {
        return Err(Failure::new(UNUSABLE, format!("CPU {missing} is not online; online are {online}")));
    }
    if cpus.overlaps(&shielded) && !cpus.without(&shielded).is_empty() {
        let text = format!(
            "CPU {shielded} is shielded and the others are not: check them one after the other, with --cpus"
        );
        return Err(Failure::new(UNUSABLE, text));
    }
    if cpus.overlaps(&shielded) {
        shield::go_to(cpus.as_slice().first().copied())?;
    }
    Ok((online, cpus))
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
        },
        steps: Vec::new(),
    }
}

/// The step `system`.
fn system(run: &mut Run) -> Result<Step, Failure> {
    run.watch.begin("looking how the machine is set", Duration::ZERO);
    let machine = Machine::read()?;
    let kernel = boot::Kernel::read(&machine);
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

/// The step `load`: what ran while the others were measured.
fn load_step(run: &mut Run) -> Result<Step, Failure> {
    let loads = &run.loads;
    let mut step = Step::new("load", "What ran meanwhile on the other CPUs");
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

    #[test]
    fn one_cpu_is_always_left() {
        let run = |cpus: &str, online: &str| Run {
            cpus: cpus.parse().unwrap(),
            online: online.parse().unwrap(),
            duration: Duration::ZERO,
            loads: Loads::find(&[], None),
            watch: Watch::new().unwrap(),
        };
        let groups =
            |cpus, online| run(cpus, online).groups().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(groups("2-3", "0-3"), ["2-3"]);
        assert_eq!(groups("0-3", "0-3"), ["1-3", "0"]);
        assert_eq!(groups("0", "0"), ["0"]);
    }
}
