//! The command `sordino compare`.

use crate::Failure;
use crate::failure::NO;
use crate::terminal::answer;
use clap::Args;
use sordino_check::{compare, read_report};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare results of 'sordino check', with a verdict on each difference
///
/// For results of different machines, kernels or dates. Each is compared with the first. A difference counts if it is
/// larger than between two runs on one machine: 15 % in percentiles, 50 % in the longest time, which is a single
/// sample. Exit status: 1 if any result is worse than the first.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino compare results-standard results-rt")]
pub(crate) struct Options {
    /// Directories that 'sordino check -o' wrote, or the report.json in them; 2 to 26
    #[arg(required = true, num_args = 2..=26, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let named = |path: &PathBuf| Ok((path.display().to_string(), read_report(path)?));
    let reports = options.results.iter().map(named).collect::<Result<Vec<_>, Failure>>()?;
    let comparison = compare(&reports);
    let text = if options.json { serde_json::to_string(&comparison)? + "\n" } else { comparison.to_string() };
    answer(&text, options.json)?;
    Ok(if comparison.is_worse() { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}
