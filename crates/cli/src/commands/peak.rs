//! The command `sordino peak`.

use crate::Failure;
use crate::commands::explain::{ExplainScope, Intervals};
use crate::failure::UNUSABLE;
use crate::picture::PictureFile;
use crate::terminal::show;
use clap::Args;
use sordino_analyze::ExplainOptions;
use sordino_draw::Peak;
use sordino_event::text::printable;
use std::path::PathBuf;
use std::process::ExitCode;

/// The maximum number of stretches in a picture.
const MOST_STRETCHES: usize = 3000;

/// Draw the timeline of one of the longest intervals, as an SVG or PNG file
///
/// The picture has a lane for each CPU (threads, interrupts, softirqs) and for each thread that is involved (running,
/// waiting for a CPU, asleep), the events of programs as marks, and wake-ups as arrows. Stretches that were not
/// recorded are hatched. The intervals are chosen as in 'sordino explain'.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino peak
  sordino peak --event motor:period --rank 2 -o second.svg
  sordino peak sordino-20260131-120000 --thread irq/36-eth0 -o irq.png")]
pub(crate) struct Options {
    #[command(flatten)]
    intervals: Intervals,
    /// Rank of the interval by length: 1 is the longest, at most 1000
    #[arg(short, long, visible_alias = "top", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rank: u32,
    /// File to write, replaced if it exists; its ending, .svg or .png, is its format
    #[arg(short, long, value_name = "FILE", default_value = "peak.svg")]
    output: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut recording = options.intervals.open()?;
    let output = PictureFile::of("--output", Some(&options.output))?;
    let rank = options.rank as usize;
    let chosen = ExplainOptions { longest: rank, ..ExplainOptions::default() };
    let scope = ExplainScope { chosen, pictures: rank, has_tables: false };
    let explained = options.intervals.explain(&mut recording, scope)?;
    let intervals = &explained.findings.intervals;
    let Some((explanation, lanes)) = intervals.iter().zip(&explained.lanes).nth(rank - 1) else {
        let text =
            format!("there is no interval #{rank}: 'sordino explain' lists them ({})", intervals.len());
        return Err(recording.failing(Failure::new(UNUSABLE, text)));
    };
    let peak = Peak { rank, explanation, lanes };
    output.into_iter().try_for_each(|mut output| output.write(&peak.picture(MOST_STRETCHES)))?;
    show(&format!("{}\n{}\n", printable(&peak.title()), printable(&options.output.to_string_lossy())))?;
    recording.close()?;
    Ok(ExitCode::SUCCESS)
}
