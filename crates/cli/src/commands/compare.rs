//! The command `sordino compare`.

use crate::Failure;
use crate::commands::query;
use crate::failure::{NO, UNUSABLE};
use crate::picture::PictureFile;
use crate::terminal::{answer, layout_columns, print, show};
use clap::Args;
use sordino_check::{compare, read_report};
use sordino_draw::{comparison_chart, distributions};
use sordino_query::{StatisticsTable, TableComparison};
use sordino_report::{write_comparison, write_comparison_json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare results of 'sordino check', or two recordings, with a verdict on each difference
///
/// Compares results of different machines, kernels or dates, each with the first. A difference counts if it is larger
/// than between two runs on one machine: 15 % in percentiles, 50 % in the longest time, which is a single sample.
///
/// Two recordings are compared by measures of 'sordino query', which are about spans (times from a begin to an end,
/// such as the waits of threads for a CPU), all threads of a name together. A difference is more than noise if a span
/// of the second recording is longer than one of the first in more than 56 % of all pairs, or in less than 44 %, and a
/// Mann-Whitney test puts the probability that chance alone makes such a difference in any row below 1 %.
///
/// Exit status: 1 if any result is worse than the first, or any measure's spans are longer in the second recording.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino compare results-standard results-rt
  sordino compare before after
  sordino compare before after --measure period --event motor:period --plot period.png")]
pub(crate) struct Options {
    /// Directories that 'sordino check -o' wrote, or the report.json in them, 2 to 26; or two recordings
    #[arg(required = true, num_args = 2..=26, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Measures by which to compare recordings, separated by commas [default: latency, syscalls, irqs, softirqs, as far
    /// as both recordings have them]
    #[arg(short, long, value_name = "MEASURE,...", value_delimiter = ',', value_parser = query::measures())]
    measure: Vec<String>,
    #[command(flatten)]
    selection: query::SpanOptions,
    /// Number of lines to print of each measure of recordings, 1 to 10000
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    top: u32,
    /// Also draw the distributions of both recordings' spans by length into this file, replaced if it exists; its
    /// ending, .svg or .png, is its format
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let [before, after] = &options.results[..]
        && is_recording(before)
        && is_recording(after)
    {
        return recordings(before, after, options);
    }
    if options.plot.is_some() {
        let text = "--plot draws two recordings; results of 'sordino check' have their plots in report.html";
        return Err(Failure::new(UNUSABLE, text));
    }
    let named = |path: &PathBuf| Ok((path.display().to_string(), read_report(path)?));
    let reports = options.results.iter().map(named).collect::<Result<Vec<_>, Failure>>()?;
    let comparison = compare(&reports);
    let text = if options.json { serde_json::to_string(&comparison)? + "\n" } else { comparison.to_string() };
    answer(&text, options.json)?;
    Ok(if comparison.is_worse() { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

/// Returns true for a directory without the result of a check.
fn is_recording(path: &Path) -> bool {
    path.is_dir() && !path.join("report.json").exists()
}

/// Compares two recordings, measure by measure.
fn recordings(before_path: &Path, after_path: &Path, options: &Options) -> Result<ExitCode, Failure> {
    let mut plot = PictureFile::of("--plot", options.plot.as_ref())?;
    let mut tables = Vec::new();
    for path in [before_path, after_path] {
        tables.push(query::tables_of(path, &options.measure, &options.selection)?);
    }
    let (after, before) = (tables.pop().unwrap_or_default(), tables.pop().unwrap_or_default());
    if let Some(table) = before.iter().chain(&after).find(|table| !table.has_lengths) {
        let text = format!("{} has no lengths to compare: see 'sordino query'", table.measure);
        return Err(Failure::new(UNUSABLE, text));
    }
    let measures =
        |tables: &[StatisticsTable]| tables.iter().map(|table| table.measure).collect::<BTreeSet<_>>();
    for measure in measures(&before).symmetric_difference(&measures(&after)) {
        message!("sordino: {measure} is recorded in one of the two only, and is not compared");
    }
    let pairs = before.into_iter().filter_map(|first| {
        let second = after.iter().find(|second| second.measure == first.measure)?.clone();
        Some(TableComparison::of(first, second))
    });
    let all: Vec<TableComparison> = pairs.collect();
    if all.is_empty() {
        return Err(Failure::new(
            UNUSABLE,
            "the recordings have no measure in common: name one with --measure",
        ));
    }
    let mut text = Vec::new();
    if options.json {
        write_comparison_json(&all, &mut text)?;
        print(&text)?;
    } else {
        for (number, comparison) in all.iter().enumerate() {
            text.extend_from_slice(if number > 0 { b"\n" } else { b"" });
            write_comparison(comparison, (options.top as usize, layout_columns()), &mut text)?;
        }
        show(&String::from_utf8_lossy(&text))?;
    }
    if let Some(plot) = &mut plot {
        let charts: Vec<_> =
            all.iter().map(|comparison| comparison_chart(comparison, options.top as usize)).collect();
        let sides = [before_path, after_path].map(|path| path.to_string_lossy());
        let picture = distributions("Two recordings", &[&sides[0], &sides[1]], &charts);
        if picture.is_empty() {
            return Err(Failure::new(UNUSABLE, "--plot: nothing to draw: the measures have no spans"));
        }
        plot.write(&picture)?;
    }
    Ok(if all.iter().any(TableComparison::is_worse) { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}
