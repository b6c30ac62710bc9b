//! What a check is asked for.

use super::load::is_source;
use super::names;
use crate::Failure;
use crate::arguments::duration;
use crate::commands::shield;
use crate::failure::UNUSABLE;
use clap::{Args, ValueEnum};
use sordino_check::loads::Load;
use sordino_check::{Limit, Limits};
use sordino_sched::{CpuList, affinity};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Say whether this machine is fit for real time, and what disturbs it
///
/// Looks how the machine is set, then measures: what the hardware takes (hwlat), for how long a thread is stopped (npt) and by what
/// (osnoise), how late a thread wakes under load (cyclictest, timerlat), untraced and traced, whether priorities are kept. Each step PASSes, WARNs, FAILs, is INFO where no
/// limit was given, or NOT MEASURED, with the reason and what to do next. What is missing is said, with the package that has it.
///
/// A minute is a smoke test; a machine that is to be relied on is measured for a day. Exit status: 1 if a step failed, or was not
/// measured and is required.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo sordino check
  sudo sordino check --duration 10s --cpus 1 \\
      --max-wakeup 100us --max-gap 20us -o results
  sudo sordino check --duration 12h --load all \\
      --thresholds limits.toml --require wake-up -o results
  sordino compare results-before results-after")]
pub(crate) struct Options {
    /// How long each measurement takes
    #[arg(short = 'd', long, value_name = "TIME", default_value = "60s", value_parser = some_time)]
    pub(super) duration: Duration,
    /// The CPUs to measure [default: those that are shielded, or that this process may run on]
    #[arg(short = 'a', long, value_name = "LIST")]
    pub(super) cpus: Option<CpuList>,
    /// What runs on all other CPUs meanwhile
    #[arg(long, value_enum, default_value = "hackbench")]
    pub(super) load: LoadName,
    /// The kernel's sources for --load compile: a directory or an archive [default: Debian's linux-source in /usr/src]
    #[arg(long, value_name = "PATH")]
    pub(super) source: Option<PathBuf>,
    /// No thread may wake later than this (wake-up, wake-up-traced, timerlat)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_wakeup: Option<Duration>,
    /// No thread may be stopped for longer than this (hardware, npt, osnoise)
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
    pub(super) only: Vec<String>,
    /// Hold nothing: measure the machine as it is, throttled and asleep
    #[arg(long)]
    pub(super) default_system: bool,
    /// Where report.html, report.json and junit.xml go: a new or empty directory
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Every line of the table, and all commands
    #[arg(short, long)]
    pub(super) verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadName {
    None,
    Hackbench,
    Compile,
    StressNg,
    All,
}

impl LoadName {
    pub(super) fn loads(self) -> &'static [Load] {
        match self {
            Self::None => &[],
            Self::Hackbench => &[Load::Hackbench],
            Self::Compile => &[Load::Compile],
            Self::StressNg => &[Load::StressNg],
            Self::All => &[Load::Hackbench, Load::Compile, Load::StressNg],
        }
    }
}

fn step_name(text: &str) -> Result<String, String> {
    let names = names();
    if names.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("there is no such step; there are {}", names.join(", ")))
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    duration(text)
        .and_then(|time| if time.is_zero() { Err("it takes some time".to_owned()) } else { Ok(time) })
}

/// Steps that measure times.
const TIMED: &[&str] = &["hardware", "npt", "osnoise", "wake-up", "wake-up-traced", "timerlat", "preemption"];

impl Options {
    /// Whether this step is to be made.
    pub(super) fn has(&self, step: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == step)
    }

    /// What would be ignored is refused.
    fn refuse_contradictions(&self) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::new(UNUSABLE, text));
        for (option, time, steps) in self.given_limits() {
            if time.is_some() && !steps.iter().any(|step| self.has(step)) {
                return refuse(format!(
                    "{option} is for {}, and --only leaves all of them out",
                    steps.join(", ")
                ));
            }
        }
        let Some(source) = &self.source else { return Ok(()) };
        match self.load.loads().contains(&Load::Compile) {
            false => refuse("--source is for --load compile".to_owned()),
            true if !is_source(source) => refuse(format!(
                "{}: neither a directory with the kernel's sources nor an archive",
                source.display()
            )),
            true => Ok(()),
        }
    }

    /// The limits that have options of their own, each with its steps.
    fn given_limits(&self) -> [(&'static str, Option<Duration>, &'static [&'static str]); 2] {
        [
            ("--max-wakeup", self.max_wakeup, &["wake-up", "wake-up-traced", "timerlat"]),
            ("--max-gap", self.max_gap, &["hardware", "npt", "osnoise"]),
        ]
    }

    /// What is asked of the machine; refused if no step could answer.
    pub(super) fn limits(&self) -> Result<Limits, Failure> {
        self.refuse_contradictions()?;
        let mut limits = self.thresholds.as_deref().map(thresholds).transpose()?.unwrap_or_default();
        for (_, time, steps) in self.given_limits() {
            for step in steps.iter().filter(|step| self.has(step)) {
                time.into_iter().for_each(|time| limits.add(step, Limit { percent: 100.0, time }));
            }
        }
        limits.required.extend(self.require.iter().cloned());
        limits.required.sort();
        limits.required.dedup();
        match limits.required.iter().find(|name| !self.has(name)) {
            Some(name) => {
                Err(Failure::new(UNUSABLE, format!("step {name} is required, and --only leaves it out")))
            }
            None => Ok(limits),
        }
    }
}

fn thresholds(file: &Path) -> Result<Limits, Failure> {
    let bad = |error: String| Failure::new(UNUSABLE, format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    let limits = Limits::parse(&text, &names()).map_err(|error| bad(error.to_string()))?;
    match limits.steps.keys().find(|step| !TIMED.contains(&step.as_str())) {
        Some(step) => Err(bad(format!("[{step}]: that step measures no times; {} do", TIMED.join(", ")))),
        None => Ok(limits),
    }
}

/// Those that are online, and those that are measured; takes this process to a shield that has the latter.
pub(super) fn cpus(options: &Options) -> Result<(CpuList, CpuList), Failure> {
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
