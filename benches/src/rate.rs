//! Highest rate of events at which none is lost.

use crate::Bench;
use crate::knob::FileOverride;
use crate::peers::{self, CollectorPolling, Lttng, PROGRAM_CPU};
use crate::programs::{TargetTracer, numbers};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use sordino_peers::rate::{EVENT, RateResult, Search, ceiling};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Relative precision at which the search for the rate ends.
const PRECISION: f64 = 0.07;

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let kept = keep_memory(bench)?;
    let mut daemon = peers::lttng()?;
    let place = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let [mut sordino, mut lttng] = [FigureSamples::default(), FigureSamples::default()];
    let [here, there] =
        [TargetTracer::Sordino, TargetTracer::Lttng].map(|tracer| bench.programs.path("rate", tracer));
    warm(place.path(), ceiling(bench.seconds) * bench.seconds * EVENT)?;
    // Each round is a search of some six runs for each tracer.
    for _ in 0..bench.rounds {
        sordino.push(highest(bench.seconds, |rate| with_sordino(bench, &here, rate, place.path()))? / 1e6);
        lttng.push(
            highest(bench.seconds, |rate| with_lttng(bench, &mut daemon, &there, rate, place.path()))? / 1e6,
        );
    }
    kept.map_or(Ok(()), FileOverride::restore)?;
    table.heading(&format!("Highest rate without a lost event, {} s, to a tmpfs", bench.seconds));
    table.figure("sordino", &sordino, "10^6/s");
    table.figure("LTTng-UST", &lttng, "10^6/s");
    table.ratio("sordino / LTTng-UST", sordino.median() / lttng.median(), Some((3.0, LimitSide::AtLeast)));
    Ok(())
}

/// Smallest free block that the kernel returns to a hypervisor, as a power of two pages.
const REPORTED: &str = "/sys/module/page_reporting/parameters/page_reporting_order";
/// One more than the order of the largest block.
const NONE: &str = "11";

/// Keeps free memory in a virtual machine that would return it to its hypervisor. Otherwise each recording had to fetch
/// the memory of the removed one again, at a tenth of the speed of writing to it.
fn keep_memory(bench: &Bench) -> Result<Option<FileOverride>, String> {
    if Path::new(REPORTED).exists() { FileOverride::hold(bench, REPORTED, NONE).map(Some) } else { Ok(None) }
}

/// Writes and removes a file: a hypervisor provides memory when the machine first touches it, and that time would
/// distort the measurement.
fn warm(place: &Path, bytes: f64) -> Result<(), String> {
    let path = place.join("warm");
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = fs::File::create(&path).map_err(failed)?;
    let chunk = vec![1; 1 << 20];
    for _ in 0..(bytes / chunk.len() as f64) as u64 {
        file.write_all(&chunk).map_err(failed)?;
    }
    fs::remove_file(&path).map_err(failed)
}

/// Returns the highest rate at which `run` loses nothing.
fn highest(seconds: f64, run: impl FnMut(f64) -> Result<RateResult, String>) -> Result<f64, String> {
    Search { low: 0.5e6, high: ceiling(seconds), precision: PRECISION }.highest(run)
}

fn arguments(bench: &Bench, program: &Path, rate: f64) -> [String; 4] {
    let program = program.to_string_lossy().into_owned();
    [program, PROGRAM_CPU.to_string(), format!("{rate:.0}"), bench.seconds.to_string()]
}

fn with_sordino(bench: &Bench, program: &Path, rate: f64, place: &Path) -> Result<RateResult, String> {
    let directory = place.join("s");
    let arguments = arguments(bench, program, rate);
    let recorded = peers::sordino(
        &bench.programs.sordino,
        CollectorPolling::Timer,
        &directory,
        &arguments.each_ref().map(String::as_str),
    );
    let _ = fs::remove_dir_all(&directory);
    let recorded = recorded?;
    Ok(RateResult { reached: reached(&recorded.output)?, lost: recorded.lost })
}

fn with_lttng(
    bench: &Bench,
    daemon: &mut Lttng,
    program: &Path,
    rate: f64,
    place: &Path,
) -> Result<RateResult, String> {
    let directory = place.join("l");
    let arguments = arguments(bench, program, rate);
    let session = peers::session(daemon, CollectorPolling::Timer, &directory)?;
    let output = session.run(&arguments.each_ref().map(String::as_str));
    let lost = session.stop();
    let _ = fs::remove_dir_all(&directory);
    Ok(RateResult { reached: reached(&output?)?, lost: lost? })
}

fn reached(output: &str) -> Result<f64, String> {
    match numbers(output)?[..] {
        [events, seconds] => Ok(events / seconds),
        _ => Err(format!("'{output}'")),
    }
}
