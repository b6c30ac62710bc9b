//! Many writers at once, on two CPUs.

use crate::Bench;
use crate::peers::{self, CollectorPolling};
use crate::programs::{TargetTracer, numbers};
use crate::table::{FigureSamples, FigureTable, LimitSide};

/// Bursts of two million hits in a round.
const BURSTS: &str = "7";
/// Numbers of writers that are measured.
const THREADS: [u32; 3] = [1, 2, 64];

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let place = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let program = bench.programs.path("scaling", TargetTracer::Sordino).to_string_lossy().into_owned();
    // Figures are rates of hits, relative to the clock readings of as many threads in the same run.
    let mut relative: [FigureSamples; THREADS.len()] = Default::default();
    let mut hits: [FigureSamples; THREADS.len()] = Default::default();
    let mut lost = 0;
    for round in 0..bench.rounds {
        for (number, threads) in THREADS.iter().enumerate() {
            let directory = place.path().join(format!("{round}-{threads}"));
            let command = [program.as_str(), &threads.to_string(), BURSTS];
            let recorded =
                peers::sordino(&bench.programs.sordino, CollectorPolling::Between, &directory, &command)?;
            lost += recorded.lost;
            let [clock, hit] = numbers(&recorded.output)?[..] else {
                return Err(format!("'{}'", recorded.output));
            };
            relative[number].push(hit / clock);
            hits[number].push(hit * 1e3);
            std::fs::remove_dir_all(&directory).map_err(|error| error.to_string())?;
        }
    }
    table.heading("Writers on two CPUs, each CPU with its ring, never full");
    for ((threads, hits), relative) in THREADS.iter().zip(&hits).zip(&relative) {
        table.figure(&format!("{threads} threads"), hits, "10^6/s");
        table.figure(&format!("{threads} threads, to as many reading the clock"), relative, "x");
    }
    for (number, name) in [(1, "two writers on two CPUs"), (2, "64 threads on two CPUs")] {
        let ratio = relative[number].median() / relative[0].median();
        table.ratio(&format!("{name}, to one writer"), ratio, Some((0.95, LimitSide::AtLeast)));
    }
    if lost > 0 {
        table.missing("writers whose rings are never full", &format!("lost {lost}"));
    }
    Ok(())
}
