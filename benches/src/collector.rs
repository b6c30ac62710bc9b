//! CPU time of the collectors.

use crate::Bench;
use crate::peers::{self, CollectorPolling, Lttng, PROGRAM_CPU};
use crate::programs::TargetTracer;
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::path::Path;
use std::time::Duration;

/// Events a second, and seconds: both collectors keep up with that rate on any disk.
const RATE: &str = "2000000";
const SECONDS: &str = "5";
const MILLIONS: f64 = 10.0;

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let mut daemon = peers::lttng()?;
    // Recordings go to a disk, the current directory's.
    let place = tempfile::tempdir_in(".").map_err(|error| error.to_string())?;
    let mut ours = [FigureSamples::default(), FigureSamples::default()];
    let mut theirs = ours.clone();
    for round in 0..bench.rounds {
        for (index, polling) in [CollectorPolling::Timer, CollectorPolling::Default].into_iter().enumerate() {
            let path = |name: &str| place.path().join(format!("{name}{round}-{index}"));
            ours[index].push(with_sordino(bench, polling, &path("s"))?);
            theirs[index].push(with_lttng(bench, polling, &mut daemon, &path("l"))?);
        }
    }
    table.heading("CPU time of the collector for 10^6 events of two u64, 2 million a second, to a disk");
    table.figure("sordino, timer of 200 us", &ours[0], "ms");
    table.figure("lttng-consumerd, timer of 200 us", &theirs[0], "ms");
    table.ratio("sordino / lttng-consumerd", ours[0].median() / theirs[0].median(), None);
    table.figure("sordino, as it is by default", &ours[1], "ms");
    table.figure("lttng-consumerd, as it is by default", &theirs[1], "ms");
    let ratio = ours[1].median() / theirs[1].median();
    table.ratio("sordino / lttng-consumerd", ratio, Some((0.5, LimitSide::AtMost)));
    Ok(())
}

/// Returns the milliseconds of CPU time for a million events.
fn with_sordino(bench: &Bench, polling: CollectorPolling, directory: &Path) -> Result<f64, String> {
    let program = bench.programs.path("rate", TargetTracer::Sordino).to_string_lossy().into_owned();
    let cpu = PROGRAM_CPU.to_string();
    let arguments = [&program, cpu.as_str(), RATE, SECONDS];
    let recorded = peers::sordino(&bench.programs.sordino, polling, directory, &arguments)?;
    if recorded.lost > 0 {
        return Err(format!("sordino lost {} events", recorded.lost));
    }
    Ok(recorded.collector_seconds * 1e3 / MILLIONS)
}

fn with_lttng(
    bench: &Bench,
    polling: CollectorPolling,
    daemon: &mut Lttng,
    directory: &Path,
) -> Result<f64, String> {
    let program = bench.programs.path("rate", TargetTracer::Lttng).to_string_lossy().into_owned();
    let session = peers::session(daemon, polling, directory)?;
    let before = session.consumer_seconds();
    session.run(&[&program, PROGRAM_CPU.to_string().as_str(), RATE, SECONDS])?;
    // For what it writes last.
    std::thread::sleep(Duration::from_millis(300));
    let seconds = session.consumer_seconds() - before;
    match session.stop()? {
        0 => Ok(seconds * 1e3 / MILLIONS),
        lost => Err(format!("LTTng-UST lost {lost} events")),
    }
}
