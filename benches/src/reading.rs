//! Speed of reading a recording.

use crate::Bench;
use crate::peers::{self, CollectorPolling, PROGRAM_CPU};
use crate::programs::TargetTracer;
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::process::{Command, Stdio};
use std::time::Instant;

const RATE: &str = "4000000";
const SECONDS: &str = "5";

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let place = tempfile::tempdir_in(".").map_err(|error| error.to_string())?;
    let directory = place.path().join("recording");
    let program = bench.programs.path("rate", TargetTracer::Sordino).to_string_lossy().into_owned();
    let cpu = PROGRAM_CPU.to_string();
    let recorded = peers::sordino(
        &bench.programs.sordino,
        CollectorPolling::Timer,
        &directory,
        &[&program, &cpu, RATE, SECONDS],
    )?;
    let [mut ours, mut theirs] = [FigureSamples::default(), FigureSamples::default()];
    let time = |command: &mut Command| {
        let begin = Instant::now();
        let status = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| error.to_string())?;
        let rate = recorded.events as f64 / begin.elapsed().as_secs_f64() / 1e6;
        if status.success() { Ok(rate) } else { Err(format!("{command:?}: {status}")) }
    };
    for _ in 0..bench.rounds {
        ours.push(time(Command::new(&bench.programs.sordino).arg("events").arg(&directory))?);
        theirs.push(time(Command::new("babeltrace2").arg(&directory))?);
    }
    table.heading(&format!(
        "Listing a recording of {:.1} million events as text",
        recorded.events as f64 / 1e6
    ));
    table.figure("sordino events", &ours, "10^6/s");
    table.figure("babeltrace2", &theirs, "10^6/s");
    table.ratio(
        "sordino events / babeltrace2",
        ours.median() / theirs.median(),
        Some((10.0, LimitSide::AtLeast)),
    );
    Ok(())
}
