//! Start time of a linked program.

use crate::Bench;
use crate::programs::TargetTracer;
use crate::table::{FigureSamples, FigureTable};
use std::process::Command;
use std::time::Instant;

/// Starts in a round.
const STARTS: u32 = 50;

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let tracers = [TargetTracer::None, TargetTracer::Sordino, TargetTracer::Lttng];
    let mut samples: [FigureSamples; 3] = Default::default();
    let time = |tracer| {
        let begin = Instant::now();
        for _ in 0..STARTS {
            let mut command = Command::new(bench.programs.path("start", tracer));
            let status = command.status().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("{command:?}: {status}"));
            }
        }
        Ok(begin.elapsed().as_secs_f64() * 1e3 / f64::from(STARTS))
    };
    for _ in 0..bench.rounds {
        for (tracer, samples) in tracers.into_iter().zip(&mut samples) {
            samples.push(time(tracer)?);
        }
    }
    table.heading("Starting and ending a program that nobody records");
    for (samples, name) in samples.iter().zip(["unlinked", "linked with sordino", "linked with LTTng-UST"]) {
        table.figure(name, samples, "ms");
    }
    let mut added = FigureSamples::default();
    added.push(samples[1].median() - samples[0].median());
    table.figure("added by sordino (at most 1 ms)", &added, "ms");
    Ok(())
}
