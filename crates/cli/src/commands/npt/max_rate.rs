//! The search of `sordino npt --find-max-rate` for the highest rate of hits without a lost event, as in Table 4 of the
//! papers.

use super::compare::is_stopped;
use super::tracers::{Stage, Tracer};
use super::{Options, arguments};
use crate::Failure;
use crate::failure::UNUSABLE;
use crate::output::Output;
use crate::progress::Progress;
use crate::signals;
use crate::terminal::answer;
use serde_json::{Value, json};
use sordino_event::text::count;
use sordino_peers::rate::{Outcome, Search, ceiling};
use sordino_peers::{Kernel, Polling};
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

/// Version of the JSON's schema.
const SCHEMA: u32 = 1;
/// Default duration of the measurement at each rate.
const LENGTH: Duration = Duration::from_secs(2);
/// Lowest rate, in hits per second, which every tracer can sustain.
const LOWEST: f64 = 1e4;
const PRECISION: f64 = 0.07;

const KERNELS: [(&str, Kernel); 3] = [
    ("user space alone", Kernel::Nothing),
    ("with system calls", Kernel::SystemCalls),
    ("with all kernel events", Kernel::Everything),
];
const TRACERS: [(&str, Tracer); 2] =
    [("sordino", Tracer::Sordino(Polling::Timer)), ("LTTng", Tracer::Lttng(Polling::Timer))];

/// A search and its result.
struct Found {
    tracer: &'static str,
    kernel: &'static str,
    /// Highest rate in hits per second, or the reason why there is none.
    highest: Result<f64, String>,
    points: Vec<Value>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut output = Output::of("--output", options.output.as_ref())?;
    let stop = signals::stop()?;
    let mut stage = Stage::new(options, &arguments::cpus(options)?)?;
    let mut progress = Progress::new(false);
    let mut all = Vec::new();
    for (kernel_name, kernel) in KERNELS {
        for (name, tracer) in TRACERS {
            let mut points = Vec::new();
            progress.doing(format!("preparing {name}, {kernel_name}"));
            let highest = stage.prepare(tracer, kernel).and_then(|()| {
                let mut show = |rate: f64| {
                    progress.doing(format!("{name}, {kernel_name}: {:.3} million a second", rate / 1e6));
                };
                search(options, &stop, |words, rate| {
                    show(rate);
                    point(&mut stage, tracer, kernel, words, rate, &mut points)
                })
            });
            all.push(Found { tracer: name, kernel: kernel_name, highest, points });
        }
    }
    progress.clear();
    let length = options.duration.unwrap_or(LENGTH);
    let about = format!("each rate kept for {length:?}; {}", stage.describe());
    let text = if options.json { as_json(&about, &all) } else { as_text(&about, &all) };
    answer(&text, options.json)?;
    if let Some(output) = &mut output {
        output.write(&text)?;
    }
    let is_any = all.iter().any(|found| found.highest.is_ok());
    Ok(if is_any { ExitCode::SUCCESS } else { ExitCode::from(UNUSABLE) })
}

fn search(
    options: &Options,
    stop: &OwnedFd,
    mut point: impl FnMut(&[String], f64) -> Result<Outcome, Failure>,
) -> Result<f64, String> {
    let length = options.duration.unwrap_or(LENGTH);
    let search = Search { low: LOWEST, high: ceiling(length.as_secs_f64()), precision: PRECISION };
    let highest = search.highest(|rate| {
        let words =
            ["-n0".to_owned(), "-d".to_owned(), format!("{}ns", length.as_nanos()), format!("-f{rate:.0}")];
        let outcome = if is_stopped(stop) { None } else { Some(point(&words, rate)) };
        match outcome {
            Some(outcome) if !is_stopped(stop) => outcome,
            _ => Err(Failure::new(UNUSABLE, "interrupted")),
        }
    });
    highest.map_err(|failure| failure.text().to_owned())
}

/// Measures one rate. Hits that a tracer does not report as lost must be in its trace.
fn point(
    stage: &mut Stage,
    tracer: Tracer,
    kernel: Kernel,
    words: &[String],
    rate: f64,
    points: &mut Vec<Value>,
) -> Result<Outcome, Failure> {
    let traced = stage.run(tracer, kernel, words)?;
    let (hits, lost, read) = (traced.hits, traced.lost, traced.read.unwrap_or(0));
    let outcome = Outcome { reached: hits as f64 / traced.seconds, lost };
    points
        .push(json!({ "asked": rate, "reached": outcome.reached, "hits": hits, "lost": lost, "read": read }));
    if lost == 0 && read != hits {
        let text = format!(
            "{}, none reported as lost, but {} in the trace",
            count(hits, "hit"),
            count(read, "event")
        );
        return Err(Failure::new(UNUSABLE, text));
    }
    Ok(outcome)
}

fn as_text(about: &str, all: &[Found]) -> String {
    let mut text = format!("npt: millions of hits a second without a lost event; {about}\n");
    for Found { tracer, kernel, highest, .. } in all {
        let value = match highest {
            Ok(rate) if *rate > 0.0 => format!("{:>10.3}", rate / 1e6),
            Ok(_) => format!("less than {}", LOWEST / 1e6),
            Err(reason) => format!("not measured here: {reason}"),
        };
        let _ = writeln!(text, "  {tracer:<10} {kernel:<24} {value}");
    }
    text
}

fn as_json(about: &str, all: &[Found]) -> String {
    let of_search = |found: &Found| {
        json!({
            "tracer": found.tracer,
            "kernel": found.kernel,
            "hits_per_second": found.highest.as_ref().ok(),
            "not_measured": found.highest.as_ref().err(),
            "points": found.points,
        })
    };
    let searches: Vec<Value> = all.iter().map(of_search).collect();
    json!({ "schema": SCHEMA, "about": about, "searches": searches }).to_string() + "\n"
}
