//! The command `sordino report`.

use crate::Failure;
use crate::commands::events::TimeStyle;
use crate::commands::explain::{ExplainScope, ExplainedRecording, Intervals};
use crate::output::OutputFile;
use crate::recording::Recording;
use crate::terminal::show;
use clap::Args;
use sordino_analyze::ExplainOptions;
use sordino_collect::{Directory, Summary};
use sordino_draw::{ReportPage, page};
use sordino_event::Nanos;
use sordino_event::text::printable;
use sordino_inspect::settings::SETTINGS;
use sordino_report::{FindingsFormat, FindingsText, TableFormat, write_statistics};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Rows of a table on the page.
const ROWS: usize = 15;
/// Columns of the page's preformatted text.
const COLUMNS: usize = 140;

/// Write a page with pictures of the longest intervals and their causes
///
/// The page has the explanations of 'sordino explain', the distribution of the intervals' lengths, their course over
/// time, and a timeline of each of the longest: CPUs, threads, interrupts, wake-ups, events. It is one HTML file that
/// loads nothing from elsewhere.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino report
  sordino report --event motor:period -o motor.html
  sordino report sordino-20260131-120000 --top 10")]
pub(crate) struct Options {
    #[command(flatten)]
    intervals: Intervals,
    /// Number of longest intervals to explain and draw, 1 to 20
    #[arg(short, long, value_name = "N", default_value_t = 5, conflicts_with = "deadline", value_parser = clap::value_parser!(u32).range(1..=20))]
    top: u32,
    /// File to write, replaced if it exists
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut recording = options.intervals.open()?;
    let output = OutputFile::of("--output", Some(&options.output))?;
    let top = options.top as usize;
    let chosen = ExplainOptions { longest: top, ..ExplainOptions::default() };
    let scope = ExplainScope { chosen, pictures: top, has_tables: true };
    let explained = options.intervals.explain(&mut recording, scope)?;
    let (html, summary) = written(&recording, &explained)?;
    output.into_iter().try_for_each(|mut output| output.write(html.as_bytes()))?;
    show(&format!("{}\n{}\n", summary.trim_end(), printable(&options.output.to_string_lossy())))?;
    recording.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the tables of the whole recording as text, with their titles.
fn tables(
    recording: &Recording,
    explained: &ExplainedRecording,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let time = TimeStyle::Clock.format(recording.span().0);
    let format = TableFormat { time, top: ROWS, brief: false, histogram: false, width: COLUMNS };
    let text = |(title, table): &(&'static str, _)| {
        let mut text = Vec::new();
        write_statistics(table, format, &mut text)?;
        Ok((*title, String::from_utf8_lossy(&text).into_owned()))
    };
    explained.tables.iter().map(text).collect()
}

/// Returns the page, and the summary of its findings.
pub(crate) fn written(
    recording: &Recording,
    explained: &ExplainedRecording,
) -> Result<(String, String), Failure> {
    let begin = recording.span().0;
    let format = FindingsFormat { time: TimeStyle::Clock.format(begin), color: false, width: COLUMNS };
    let text = FindingsText::of(&explained.findings, format);
    let summary = Directory::open(&recording.path).ok().and_then(|directory| Summary::read(&directory).ok());
    let html = page(&ReportPage {
        recording: &recording.title(),
        findings: &explained.findings,
        text: &text,
        distribution: &explained.distribution,
        lanes: &explained.lanes,
        begin,
        tables: &tables(recording, explained)?,
        facts: &facts(recording, summary.as_ref()),
        settings: &settings(summary.as_ref()),
    });
    Ok((html, text.summary))
}

/// Returns facts about the recording for its page.
fn facts(recording: &Recording, summary: Option<&Summary>) -> Vec<(String, String)> {
    let (begin, end) = recording.span();
    let mut facts = vec![
        ("directory", recording.title()),
        ("begin", TimeStyle::Date.format(begin).text(begin)),
        ("length", (end - begin).to_string()),
    ];
    if let Some(summary) = summary {
        let programs: Vec<String> =
            summary.programs.iter().map(|program| format!("{} ({})", program.name, program.pid)).collect();
        let clock = format!("{}, {:.0} Hz", summary.clock.name, summary.clock.hertz);
        let list = |texts: &[String]| if texts.is_empty() { "none".to_owned() } else { texts.join(", ") };
        facts.extend([
            ("host", summary.host.clone()),
            ("kernel", summary.kernel_release.clone()),
            ("clock", clock),
            ("programs", list(&programs)),
            ("tracepoints", list(&summary.user_patterns)),
            ("kernel events", list(&summary.kernel_events)),
            ("recorded with", repeated(&summary.command)),
            ("recorded for", Nanos::from(Duration::from_nanos(summary.duration_ns)).to_string()),
        ]);
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the command, for a shell, that makes such a recording again.
fn repeated(command: &[String]) -> String {
    match shlex::try_join(command.iter().map(String::as_str)) {
        Ok(line) if !line.is_empty() => line,
        _ => "not recorded".to_owned(),
    }
}

/// Returns all settings of a machine, with the values that the recording has.
fn settings(summary: Option<&Summary>) -> Vec<(&'static str, Option<&str>)> {
    let value = |name: &str| summary?.settings.get(name).map(String::as_str);
    SETTINGS.map(|name| (name, value(name))).to_vec()
}
