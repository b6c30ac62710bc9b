//! The search for the highest rate of hits without a lost event, as in Table 4 of the papers.

use crate::Error;
use crate::tracers::{ComparedTracer, LoopStage};
use serde_json::{Value, json};
use sordino_event::text::{count, with_causes};
use sordino_peers::rate::{RateResult, Search, ceiling};
use sordino_peers::{CollectorPolling, KernelEvents};
use std::fmt::Write;
use std::time::Duration;

/// Version of the JSON's schema.
const SCHEMA: u32 = 1;
/// Default duration of the measurement at each rate.
pub const DEFAULT_LENGTH: Duration = Duration::from_secs(2);
/// Lowest rate, in hits per second, which every tracer can sustain.
const LOWEST: f64 = 1e4;
const PRECISION: f64 = 0.07;

const KERNELS: [(&str, KernelEvents); 3] = [
    ("user space alone", KernelEvents::Nothing),
    ("with system calls", KernelEvents::SystemCalls),
    ("with all kernel events", KernelEvents::Everything),
];
const TRACERS: [(&str, ComparedTracer); 2] = [
    ("sordino", ComparedTracer::Sordino(CollectorPolling::Timer)),
    ("LTTng", ComparedTracer::Lttng(CollectorPolling::Timer)),
];

/// A search and its result.
pub struct HighestRate {
    /// The name of the tracer.
    tracer: &'static str,
    /// The kernel's events that were recorded, too.
    kernel: &'static str,
    /// Highest rate in hits per second, or the reason why there is none.
    pub highest: Result<f64, String>,
    /// The rates that were tried, as JSON.
    points: Vec<Value>,
}

/// Searches with each tracer and each choice of the kernel's events, keeping each rate for `length`. `doing` gets the
/// progress as text; the search ends once `is_stopped` returns true.
pub fn highest_rates(
    stage: &mut LoopStage,
    length: Duration,
    mut doing: impl FnMut(String),
    is_stopped: impl Fn() -> bool,
) -> Vec<HighestRate> {
    let mut all = Vec::new();
    for (kernel_name, kernel) in KERNELS {
        for (name, tracer) in TRACERS {
            let mut points = Vec::new();
            doing(format!("preparing {name}, {kernel_name}"));
            let highest = stage.prepare(tracer, kernel).and_then(|()| {
                search(length, &is_stopped, |words, rate| {
                    doing(format!("{name}, {kernel_name}: {:.3} million a second", rate / 1e6));
                    point(stage, tracer, kernel, words, rate, &mut points)
                })
            });
            all.push(HighestRate { tracer: name, kernel: kernel_name, highest, points });
        }
    }
    all
}

fn search(
    length: Duration,
    is_stopped: impl Fn() -> bool,
    mut point: impl FnMut(&[String], f64) -> Result<RateResult, Error>,
) -> Result<f64, String> {
    let search = Search { low: LOWEST, high: ceiling(length.as_secs_f64()), precision: PRECISION };
    let highest = search.highest(|rate| {
        let words =
            ["-n0".to_owned(), "-d".to_owned(), format!("{}ns", length.as_nanos()), format!("-f{rate:.0}")];
        let outcome = if is_stopped() { None } else { Some(point(&words, rate)) };
        match outcome {
            Some(outcome) if !is_stopped() => outcome,
            _ => Err(Error::new("interrupted")),
        }
    });
    highest.map_err(|error| with_causes(&error))
}

/// Measures one rate. Hits that a tracer does not report as lost must be in its trace.
fn point(
    stage: &mut LoopStage,
    tracer: ComparedTracer,
    kernel: KernelEvents,
    words: &[String],
    rate: f64,
    points: &mut Vec<Value>,
) -> Result<RateResult, Error> {
    let traced = stage.run(tracer, kernel, words)?;
    let (hits, lost, read) = (traced.hits, traced.lost, traced.read.unwrap_or(0));
    let outcome = RateResult { reached: hits as f64 / traced.seconds, lost };
    points
        .push(json!({ "asked": rate, "reached": outcome.reached, "hits": hits, "lost": lost, "read": read }));
    if lost == 0 && read != hits {
        let text = format!(
            "{}, none reported as lost, but {} in the trace",
            count(hits, "hit"),
            count(read, "event")
        );
        return Err(Error::new(text));
    }
    Ok(outcome)
}

/// Returns the searches as text; `about` describes the machine and the measurement.
pub fn rates_text(about: &str, all: &[HighestRate]) -> String {
    let mut text = format!("npt: millions of hits a second without a lost event; {about}\n");
    for HighestRate { tracer, kernel, highest, .. } in all {
        let value = match highest {
            Ok(rate) if *rate > 0.0 => format!("{:>10.3}", rate / 1e6),
            Ok(_) => format!("less than {}", LOWEST / 1e6),
            Err(reason) => format!("not measured here: {reason}"),
        };
        let _ = writeln!(text, "  {tracer:<10} {kernel:<24} {value}");
    }
    text
}

/// Returns the searches as JSON; `about` describes the machine and the measurement.
pub fn rates_json(about: &str, all: &[HighestRate]) -> Value {
    let of_search = |found: &HighestRate| {
        json!({
            "tracer": found.tracer,
            "kernel": found.kernel,
            "hits_per_second": found.highest.as_ref().ok(),
            "not_measured": found.highest.as_ref().err(),
            "points": found.points,
        })
    };
    let searches: Vec<Value> = all.iter().map(of_search).collect();
    json!({ "schema": SCHEMA, "about": about, "searches": searches })
}
