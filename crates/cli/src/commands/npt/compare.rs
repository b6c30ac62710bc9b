//! The comparison of `sordino npt --compare`: the loop under each tracer in turn, in rounds, as in the papers' tables.

use super::contender::{Contender, figures};
use super::plot;
use super::tracers::{Stage, Tracer};
use super::{Options, arguments, contradiction};
use crate::Failure;
use crate::failure::UNUSABLE;
use crate::output::Output;
use crate::progress::Progress;
use crate::signals;
use crate::terminal::{answer, layout_columns};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use sordino_event::text::count;
use sordino_npt::Unit;
use sordino_peers::Kernel;
use sordino_report::table as report_table;
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

/// Version of the JSON's schema.
const SCHEMA: u32 = 1;
/// Default number of rounds.
const ROUNDS: u32 = 5;

/// Returns the loop's options for each round. By default, a window's events fit into all rings, which are emptied while
/// the loop waits.
fn words(options: &Options) -> Vec<String> {
    let time = |time: Duration| humantime::format_duration(time).to_string().replace(" ", "");
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

pub(super) fn run(options: &Options, tracers: &[Tracer]) -> Result<ExitCode, Failure> {
    if let Some((first, _)) =
        tracers.iter().enumerate().find(|(place, tracer)| tracers[..*place].contains(tracer))
    {
        return Err(contradiction(&format!("--compare: {} is named twice", tracers[first])));
    }
    if options.plot.is_some() && options.plot == options.output {
        return Err(contradiction("--plot and --output name the same file"));
    }
    let outputs =
        [Output::of("--output", options.output.as_ref())?, Output::of("--plot", options.plot.as_ref())?];
    let stop = signals::stop()?;
    let mut stage = Stage::new(options, &arguments::cpus(options)?)?;
    let mut progress = Progress::new(false);
    let mut contenders: Vec<Contender> = Vec::new();
    for &tracer in tracers {
        progress.doing(format!("preparing {tracer}"));
        let missing = stage.prepare(tracer, Kernel::Nothing).err();
        contenders.push(Contender { tracer, rounds: Vec::new(), missing });
    }
    let (words, rounds) = (words(options), options.rounds.unwrap_or(ROUNDS));
    for round in 1..=rounds {
        for contender in contenders.iter_mut().filter(|contender| contender.missing.is_none()) {
            progress.doing(format!("round {round} of {}: {}", rounds, contender.tracer));
            let traced = stage.run(contender.tracer, Kernel::Nothing, &words);
            if is_stopped(&stop) {
                break;
            }
            match traced {
                Ok(traced) => contender.rounds.push(traced),
                Err(failure) => contender.missing = Some(failure.text().to_owned()),
            }
        }
        if is_stopped(&stop) {
            message!("sordino: interrupted in round {round}: results of the rounds before");
            break;
        }
    }
    progress.clear();
    let rounds = count(rounds, "round");
    let about = format!("{rounds}, interleaved, of {}; {}", words.join(" "), stage.describe());
    report(options, &about, &contenders, outputs)
}

/// Returns true after Ctrl-C; the loops and recorders received it, too.
pub(super) fn is_stopped(stop: &OwnedFd) -> bool {
    let mut stop = [PollFd::new(stop, PollFlags::IN)];
    poll(&mut stop, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

fn report(
    options: &Options,
    about: &str,
    contenders: &[Contender],
    [mut file, mut plot]: [Option<Output>; 2],
) -> Result<ExitCode, Failure> {
    let untraced = contenders.iter().find(|contender| contender.tracer == Tracer::Untraced);
    let text = if options.json {
        let all: Vec<Value> = contenders.iter().map(|contender| contender.json(untraced)).collect();
        json!({ "schema": SCHEMA, "about": about, "contenders": all }).to_string() + "\n"
    } else {
        format!("npt: {about}\n{}", table(contenders, untraced, options.unit()))
    };
    answer(&text, options.json)?;
    if let Some(file) = &mut file {
        file.write(&text)?;
    }
    if let Some(plot) = &mut plot {
        let measured: Vec<&Contender> = contenders.iter().filter(|one| !one.rounds.is_empty()).collect();
        plot.write(&plot::svg(about, &measured)?)?;
    }
    let is_any = contenders.iter().any(|contender| !contender.rounds.is_empty());
    Ok(if is_any { ExitCode::SUCCESS } else { ExitCode::from(UNUSABLE) })
}

/// Returns the table: for each figure the median of all rounds, least and greatest, and the ratio to the untraced loop.
fn table(contenders: &[Contender], untraced: Option<&Contender>, unit: Unit) -> String {
    let base = untraced.map(Contender::samples).unwrap_or_default();
    let names = contenders.iter().map(figures).find(|figures| !figures.is_empty()).unwrap_or_default();
    let mut head: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
    head.push("lost".to_owned());
    let (mut rows, mut remarks) = (Vec::new(), String::new());
    for contender in contenders {
        rows.extend(contender.rows(&base, unit));
        if let Some(reason) = &contender.missing {
            let _ = writeln!(remarks, "  {}: not measured here: {reason}", contender.tracer);
        }
        let unconfirmed = contender.unconfirmed();
        if unconfirmed > 0 {
            let rounds = count(unconfirmed, "round");
            let _ = writeln!(remarks, "  {}: in {rounds} the trace does not have all hits", contender.tracer);
        }
    }
    report_table(&head, &rows, layout_columns()) + &remarks
}
