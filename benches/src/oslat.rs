//! npt beside rt-tests' oslat: two loops that measure the same gaps have to agree.

use crate::Bench;
use crate::knob::FileOverride;
use crate::peers::PROGRAM_CPU;
use crate::programs::output_of;
use crate::table::{FigureSamples, FigureTable};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// Shortest gap that counts, in microseconds: most machines' timer tick takes longer, a pass of the loop is shorter.
const BOUND_US: u64 = 10;

/// Gaps of at least [`BOUND_US`] in a second, and the longest in microseconds.
type GapSummary = [f64; 2];

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let unthrottled = FileOverride::hold(bench, THROTTLE, "-1")?;
    let place = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let [mut npts, mut oslats]: [[FigureSamples; 2]; 2] = Default::default();
    for _ in 0..bench.rounds {
        push(&mut npts, npt(bench)?);
        push(&mut oslats, oslat(bench, &place.path().join("oslat.json"))?);
    }
    unthrottled.restore()?;
    table.heading("npt beside oslat, SCHED_FIFO 90 on one CPU, one after the other");
    for (who, [gaps, longest]) in [("npt", &npts), ("oslat", &oslats)] {
        table.figure(&format!("{who}, gaps of {BOUND_US} us and longer"), gaps, "/s");
        table.figure(&format!("{who}, longest"), longest, "us");
    }
    table.ratio("gaps: npt / oslat", npts[0].median() / oslats[0].median(), None);
    Ok(())
}

fn push(samples: &mut [FigureSamples; 2], figures: GapSummary) {
    samples.iter_mut().zip(figures).for_each(|(samples, figure)| samples.push(figure));
}

fn npt(bench: &Bench) -> Result<GapSummary, String> {
    let cpu = PROGRAM_CPU.to_string();
    let duration = format!("{}s", bench.seconds);
    let mut command = Command::new(&bench.programs.sordino);
    command.args([
        "npt",
        "--json",
        "--no-tracepoint",
        "--prio",
        "90",
        "--cpu",
        &cpu,
        "--duration",
        &duration,
    ]);
    let text = output_of(&mut command)?;
    npt_figures(&text).ok_or_else(|| format!("npt said: {text}"))
}

fn npt_figures(text: &str) -> Option<GapSummary> {
    let all: Value = serde_json::from_str(text).ok()?;
    let cpu = all["cpus"].get(0)?;
    let longer = cpu["statistics"]["longer"].as_array()?;
    let of_bound = longer.iter().find(|longer| longer["than_ns"].as_u64() == Some(BOUND_US * 1000));
    let gaps = of_bound.map_or(0.0, |longer| longer["count"].as_f64().unwrap_or(f64::NAN));
    Some([gaps / cpu["seconds"].as_f64()?, cpu["statistics"]["maximum_ns"].as_f64()? / 1e3])
}

fn oslat(bench: &Bench, file: &Path) -> Result<GapSummary, String> {
    let cpu = PROGRAM_CPU.to_string();
    let duration = (bench.seconds.ceil() as u64).to_string();
    let mut command = Command::new("oslat");
    command.args([
        "--cpu-list",
        &cpu,
        "--rtprio",
        "90",
        "--bucket-size",
        "1024",
        "--quiet",
        "--duration",
        &duration,
    ]);
    command.arg(format!("--json={}", file.display()));
    output_of(&mut command)?;
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    oslat_figures(&text).ok_or_else(|| format!("oslat wrote: {text}"))
}

/// Parses oslat's output, whose bucket "1" counts gaps of less than a microsecond, and "2" those from one to less than
/// two.
fn oslat_figures(text: &str) -> Option<GapSummary> {
    let all: Value = serde_json::from_str(text).ok()?;
    let thread = &all["thread"]["0"];
    let histogram = thread["histogram"].as_object()?.iter();
    let longer = histogram.filter(|(us, _)| us.parse().is_ok_and(|us: u64| us > BOUND_US));
    let gaps: f64 = longer.filter_map(|(_, count)| count.as_f64()).sum();
    Some([gaps / thread["duration"].as_f64()?, thread["max"].as_f64()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_count_what_took_ten_microseconds_and_longer() {
        let oslat = r#"{"thread": {"0": {"max": 64, "duration": 2.0, "histogram": {"1": 99, "10": 5, "11": 3, "64": 1}}}}"#;
        assert_eq!(oslat_figures(oslat), Some([2.0, 64.0]));
        let npt = r#"{"cpus": [{"seconds": 2.0, "statistics": {"maximum_ns": 64000.0,
            "longer": [{"count": 9, "than_ns": 1000}, {"count": 4, "than_ns": 10000}]}}]}"#;
        assert_eq!(npt_figures(npt), Some([2.0, 64.0]));
    }
}
