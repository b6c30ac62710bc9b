//! `sordino npt --compare` and `--find-max-rate`: the loop under each tracer in turn.

use super::arguments;
use super::options::{Options, contradiction};
use crate::Failure;
use crate::failure::UNUSABLE;
use crate::output::OutputFile;
use crate::picture::PictureFile;
use crate::progress::Progress;
use crate::signals::Stop;
use crate::terminal::{answer, layout_columns};
use sordino_contest::{
    ComparedTracer, DEFAULT_LENGTH, LoopStage, Rounds, TracerComparison, compare, highest_rates, rates_json,
    rates_text,
};
use sordino_event::text::count;
use sordino_guard::Scratch;
use sordino_report::table as report_table;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Default number of rounds.
const ROUNDS: u32 = 5;

/// Returns the loop's options for each round. By default, a window's events fit into all rings, which are emptied while
/// the loop waits.
fn words(options: &Options) -> Vec<String> {
    let time = |time: Duration| sordino_quantity::typed(time).replace(" ", "");
    let mut words = vec!["-d".to_owned(), options.duration.map_or("2s".to_owned(), time)];
    let windows =
        [("--trace-window", options.trace_window, "5ms"), ("--wait-window", options.wait_window, "45ms")];
    for (name, window, default) in windows {
        words.extend([name.to_owned(), window.map_or(default.to_owned(), time)]);
    }
    words.extend(options.max_frequency.map(|frequency| format!("-f{frequency}")));
    words.extend([format!("-n{}", options.warm_up), format!("--pace={}", time(options.pace))]);
    words
}

pub(super) fn run(options: &Options, tracers: &[ComparedTracer]) -> Result<ExitCode, Failure> {
    if let Some((first, _)) =
        tracers.iter().enumerate().find(|(place, tracer)| tracers[..*place].contains(tracer))
    {
        return Err(contradiction(&format!("--compare: {} is named twice", tracers[first])));
    }
    let output = OutputFile::of("--output", options.output.as_ref())?;
    let plot = PictureFile::of("--plot", options.plot.as_ref())?;
    // The loops and recorders receive Ctrl-C, too.
    let stop = Stop::new()?;
    let mut scratch = Scratch::new()?;
    let mut stage = stage(options, &mut scratch)?;
    let mut progress = Progress::new(false);
    let (words, number) = (words(options), options.rounds.unwrap_or(ROUNDS));
    let about =
        format!("{}, interleaved, of {}; {}", count(number, "round"), words.join(" "), stage.describe());
    let rounds = Rounds { tracers, number, words };
    let comparison = compare(&mut stage, &rounds, |what| progress.doing(what), || stop.is_requested());
    if let Some(round) = comparison.interrupted {
        message!("sordino: interrupted in round {round}: results of the rounds before");
    }
    progress.clear();
    report(options, &about, &comparison, output, plot)
}

pub(super) fn find_max_rate(options: &Options) -> Result<ExitCode, Failure> {
    let mut output = OutputFile::of("--output", options.output.as_ref())?;
    // The loops and recorders receive Ctrl-C, too.
    let stop = Stop::new()?;
    let mut scratch = Scratch::new()?;
    let mut stage = stage(options, &mut scratch)?;
    let mut progress = Progress::new(false);
    let length = options.duration.unwrap_or(DEFAULT_LENGTH);
    let all = highest_rates(&mut stage, length, |what| progress.doing(what), || stop.is_requested());
    progress.clear();
    let about = format!("each rate kept for {}; {}", sordino_quantity::typed(length), stage.describe());
    let text =
        if options.json { rates_json(&about, &all).to_string() + "\n" } else { rates_text(&about, &all) };
    answer(&text, options.json)?;
    if let Some(output) = &mut output {
        output.write_copy(&text)?;
    }
    let is_any = all.iter().any(|found| found.highest.is_ok());
    Ok(if is_any { ExitCode::SUCCESS } else { ExitCode::from(UNUSABLE) })
}

/// Makes the directories, which have to outlive the stage: traces are written to memory, so that the speed of a disk
/// has no influence; programs are built elsewhere, as a directory in memory may be mounted noexec.
fn stage(options: &Options, scratch: &mut Scratch) -> Result<LoopStage, Failure> {
    let cpus = arguments::cpus(options)?;
    let traces = scratch.directory("/dev/shm".as_ref())?;
    let builds = scratch.directory(&std::env::temp_dir())?;
    let count = |recording: &Path| count_ours(recording).map_err(|failure| failure.text().to_owned());
    Ok(LoopStage::new(&cpus, options.prio, traces, builds, count)?)
}

/// Counts the loop's events in a recording; the recorder counts the lost ones.
fn count_ours(directory: &Path) -> Result<u64, Failure> {
    use sordino_timeline::Item;
    let mut recording = crate::recording::Recording::open(Some(directory))?;
    let loops = recording.classes.iter().filter(|(_, class)| class.name == "npt:loop");
    let classes: Vec<_> = loops.map(|(id, _)| id).collect();
    let mut count = 0;
    recording.pass(None, |item| {
        if let Item::Event(moment) = item {
            count += u64::from(classes.contains(&moment.event.class));
        }
        Ok(true)
    })?;
    recording.close()?;
    Ok(count)
}

fn report(
    options: &Options,
    about: &str,
    comparison: &TracerComparison,
    file: Option<OutputFile>,
    plot: Option<PictureFile>,
) -> Result<ExitCode, Failure> {
    let text = if options.json {
        comparison.json(about).to_string() + "\n"
    } else {
        let table = comparison.table(options.unit());
        let rows = report_table(&table.head, &table.rows, layout_columns());
        format!("npt: {about}\n{rows}{}", table.remarks)
    };
    answer(&text, options.json)?;
    file.into_iter().try_for_each(|mut file| file.write_copy(&text))?;
    let picture = comparison.svg(about);
    plot.into_iter().filter(|_| !picture.is_empty()).try_for_each(|mut plot| plot.write(&picture))?;
    Ok(if comparison.has_any() { ExitCode::SUCCESS } else { ExitCode::from(UNUSABLE) })
}
