//! The command `sordino demo`.

mod load;

use crate::Failure;
use crate::commands::explain::{self, ExplainScope};
use crate::commands::{record, report};
use crate::failure::{NO, UNUSABLE};
use crate::output::OutputFile;
use crate::recording::Recording;
use crate::terminal::{remark, show};
use crate::words::quoted;
use clap::{Args, FromArgMatches};
use sordino_analyze::ExplainOptions;
use sordino_disturb::{DemoCpus, LENGTH, PlantedFinder, judge};
use sordino_intervals::IntervalRule;
use sordino_report::{tied, write_findings};
use sordino_sched::is_root;
use sordino_timeline::Item;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use load::{Options as LoadOptions, run as run_load};

/// Record a real-time loop, disturb it, and explain its longest gaps
///
/// Runs 'sordino npt', a loop that records how long it is interrupted (gaps), with SCHED_FIFO on one CPU, records it
/// together with the kernel, puts load on the machine (hackbench), and plants disturbances at known times: a thread of
/// higher priority, a burst of timers, page faults. Then explains the five longest gaps, and draws the twenty longest
/// on a page. Takes some ten seconds.
///
/// Needs root for kernel events and real-time priority; without root, it runs an ordinary thread and explains little.
///
/// Exit status: 1 if a planted disturbance is not found as the cause of its gap.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sudo sordino demo")]
pub(crate) struct Options {
    /// Directory for the recording, new or empty [default: sordino-YYYYMMDD-HHMMSS in the current directory]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// The groups of kernel events that the demo records.
pub(crate) const KERNEL: &str = "sched,irq,irq_vectors,timer,workqueue,exceptions,nmi";
/// The number of gaps that are shown.
const SHOWN: usize = 5;
/// The number of gaps on the page, and the page's name in the recording.
const DRAWN: usize = 20;
const PAGE: &str = "report.html";
/// The number of gaps that are searched for the planted disturbances.
const LOOKED_AT: usize = 2000;

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(shield) = sordino_shield::current() {
        let cpus = shield.request.cpus;
        return Err(Failure::new(
            UNUSABLE,
            format!(
                "CPU {cpus} is shielded: the demo disturbs a CPU on purpose; lower it first, with 'sordino shield down'"
            ),
        ));
    }
    let place = DemoCpus::choose(&remark)?;
    let output = options.output.clone().unwrap_or_else(record::default_output);
    show(&format!("recording {place} for {} s\n\n", LENGTH.as_secs()))?;
    let status = record::run(&record_options(&output, &place)?)?;
    if status != ExitCode::SUCCESS {
        return Ok(status);
    }
    let mut recording = Recording::open(Some(&output))?;
    let chosen = ExplainOptions { longest: LOOKED_AT, ..ExplainOptions::default() };
    let scope = ExplainScope { chosen, pictures: DRAWN, has_tables: true };
    let mut explained = explain::pass_twice(&mut recording, IntervalRule::between("npt:loop"), scope, None)?;
    let mut finder = PlantedFinder::new(&recording.classes);
    recording.pass(Some("looking for the planted disturbances"), |item| {
        if let Item::Event(moment) = item {
            finder.take(moment.event);
        }
        Ok(true)
    })?;
    let planted = finder.finish();
    let (verdicts, all_found) = judge(&planted, &explained.findings);
    explained.findings.intervals.truncate(DRAWN);
    let page = output.join(PAGE);
    if let Some(mut file) = OutputFile::of("--output", Some(&page))? {
        file.write(report::written(&recording, &explained)?.0.as_bytes())?;
    }
    let mut findings = explained.findings;
    findings.intervals.truncate(SHOWN);
    let mut text = b"\nThe longest gaps between two loops\n".to_vec();
    write_findings(&findings, explain::format(&recording), &mut text)?;
    show(&String::from_utf8_lossy(&text))?;
    if place.is_measured() {
        show(&verdicts)?;
    }
    let path = output.to_string_lossy();
    let path = quoted([&*path]);
    let commands = ["sordino explain", "sordino events", "babeltrace2"];
    let [explain, events, other] = commands.map(|command| tied(&format!("{command} {path}")));
    show(&format!("\nThe trace is in {path}. Look at it with:\n  {explain}\n  {events}\n  {other}\n"))?;
    let page = page.to_string_lossy();
    show(&format!("\nPictures of the longest gaps: {}\n", quoted([&*page])))?;
    recording.close()?;
    Ok(if all_found || !place.is_measured() { ExitCode::SUCCESS } else { ExitCode::from(NO) })
}

/// Returns the options of `sordino record` with the load as its command.
fn record_options(output: &Path, place: &DemoCpus) -> Result<record::Options, Failure> {
    let mut words: Vec<OsString> = ["record", "--as", "root", "-o"].map(OsString::from).to_vec();
    words.push(output.into());
    if is_root() {
        words.extend(["--kernel", KERNEL, "--kernel-buffer", "32M"].map(OsString::from));
    } else {
        words.drain(1..3);
    }
    words.extend(place.collector_options());
    words.push("--".into());
    words.push(std::env::current_exe()?.into());
    words.extend(place.load_options());
    let matches = record::Options::augment_args(clap::Command::new("record")).try_get_matches_from(words)?;
    Ok(record::Options::from_arg_matches(&matches)?)
}
