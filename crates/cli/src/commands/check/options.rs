//! The options of `sordino check`, its limits and its CPUs.

use crate::Failure;
use crate::failure::UNUSABLE;
use crate::terminal::remark;
use clap::{Args, ValueEnum};
use sordino_check::loads::Load;
use sordino_check::{CheckRequest, Limits, TimeLimit, choose_cpus, is_source, read_limits, step_names};
use sordino_quantity::duration;
use sordino_sched::CpuList;
use std::path::PathBuf;
use std::time::Duration;

/// Check whether this machine is fit for real time, and find its disturbances
///
/// Reads the machine's settings, then measures: time that the hardware takes (hwlat), interruptions of a busy thread
/// (npt) and their sources (osnoise), wake-up latency under load (cyclictest, timerlat), untraced and traced, and
/// whether the scheduler keeps priorities. The result of each step is PASS, WARN, FAIL, INFO (no limit was given) or
/// NOT MEASURED, with the reason and the remedy. Missing programs are listed with their packages.
///
/// A minute for each measurement is a smoke test; measure a machine that you rely on for a day. Exit status: 1 if a
/// step failed, or was required and not measured.
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
    /// Duration of each measurement, such as 60s or 12h
    #[arg(short = 'd', long, value_name = "TIME", default_value = "60s", value_parser = some_time)]
    pub(super) duration: Duration,
    /// Measure these CPUs, such as 1-3 [default: those of 'sordino shield', or else all that this process may run on]
    #[arg(short = 'a', long, value_name = "LIST")]
    pub(super) cpus: Option<CpuList>,
    /// Load on all other CPUs during the measurements
    #[arg(long, value_enum, default_value = "hackbench")]
    pub(super) load: LoadName,
    /// Kernel sources for --load compile, a directory or an archive [default: the newest linux-source-* of Debian in
    /// /usr/src]
    #[arg(long, value_name = "PATH")]
    pub(super) source: Option<PathBuf>,
    /// Fail if a thread wakes later than this, such as 100us, in the steps wake-up, wake-up-traced, timerlat (see
    /// --only) [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_wakeup: Option<Duration>,
    /// Fail if a thread is interrupted for longer than this, such as 20us, in the steps hardware, npt, osnoise (see
    /// --only) [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_gap: Option<Duration>,
    /// Read limits from a TOML file: for each step (see --only) a table [STEP] with max = "100us" or a percentile,
    /// "p99.99" = "50us"; require = ["STEP"] for steps that must be measured
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,
    /// Exit with status 1 if this step (see --only), such as wake-up, can't be measured; may be repeated
    #[arg(long, value_name = "STEP", value_parser = step_name)]
    require: Vec<String>,
    /// Run only these steps: system, hardware, npt, osnoise, wake-up, wake-up-traced, timerlat, preemption,
    /// priority-inheritance, load [default: all]
    ///
    /// 'system' checks the settings; 'hardware' measures time that hardware takes; 'npt' and 'osnoise' measure
    /// interruptions of a busy thread; 'wake-up', 'wake-up-traced' (while sordino traces) and 'timerlat' measure
    /// wake-up latencies; 'preemption' checks that a thread preempts one of lower priority, 'priority-inheritance' that
    /// a mutex lends priority to its holder, and 'load' that the load ran.
    #[arg(long, value_name = "STEP,...", value_delimiter = ',', value_parser = step_name)]
    pub(super) only: Vec<String>,
    /// Leave the machine's settings as they are; otherwise throttling of real-time threads and deep idle states of CPUs
    /// are disabled during the measurements
    #[arg(long)]
    pub(super) default_system: bool,
    /// Directory for report.html, report.json and junit.xml, new or empty [default: write no files]
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Show every setting that was checked, and all commands that were run
    #[arg(short, long)]
    pub(super) verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LoadName {
    /// No load on other CPUs
    None,
    /// Groups of threads that send messages to each other
    Hackbench,
    /// Repeated builds of a kernel
    Compile,
    /// Stressors of the program stress-ng
    StressNg,
    /// All of these loads at once
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
    let names = step_names();
    if names.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("no such step; expected one of {}", names.join(", ")))
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    duration(text)
        .and_then(|time| if time.is_zero() { Err("must be longer than 0s".to_owned()) } else { Ok(time) })
}

impl Options {
    /// Returns true if this step is selected.
    pub(super) fn has(&self, step: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == step)
    }

    /// Returns the requested check. Moves this process into the shield if it measures shielded CPUs.
    pub(super) fn request(&self) -> Result<CheckRequest, Failure> {
        let limits = self.limits()?;
        let (online, cpus) = choose_cpus(self.cpus.as_ref(), &remark)?;
        Ok(CheckRequest {
            cpus,
            online,
            duration: self.duration,
            loads: self.load.loads().to_vec(),
            source: self.source.clone(),
            limits,
            only: self.only.clone(),
            default_system: self.default_system,
            output: self.output.clone(),
            command: std::env::args().collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            began: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        })
    }

    /// Rejects options that would have no effect.
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

    /// Returns the limits of the measurements. Rejects a limit that no step could check.
    fn limits(&self) -> Result<Limits, Failure> {
        self.refuse_contradictions()?;
        let mut limits = self.thresholds.as_deref().map(read_limits).transpose()?.unwrap_or_default();
        for (_, time, steps) in self.given_limits() {
            for step in steps.iter().filter(|step| self.has(step)) {
                time.into_iter().for_each(|time| limits.add(step, TimeLimit { percent: 100.0, time }));
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
