//! Cost of a switch of fibers, and of a function's entry and exit, beside that of other tracepoints of their size.

use crate::Bench;
use crate::cost::no_loss;
use crate::peers::{self, CollectorPolling, PROGRAM_CPU};
use crate::programs::{numbers, output_of, root};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::process::Command;

/// Bursts of each kind in a round.
const BURSTS: &str = "15";
const SWITCH_BAR: f64 = 1.3;
const PAIR_BAR: f64 = 2.2;

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let program = bench.programs.other("fibers");
    let sources = root().join("benches/programs");
    let mut command = Command::new("gcc");
    command.args([
        "-O2",
        "-std=gnu11",
        "-finstrument-functions",
        "-finstrument-functions-exclude-file-list=/usr/",
    ]);
    command.arg("-I").arg(root().join("crates/recording/probe-c/include"));
    // common.h has functions, too.
    command.arg(
        "-finstrument-functions-exclude-function-list=seconds,cpu_seconds,stay_on,sleep_ms,hertz,compare",
    );
    command.arg("-o").arg(&program).arg(sources.join("fibers.c")).args(bench.programs.functions()?);
    output_of(&mut command)?;

    let [mut eighteen, mut switch, mut sixteen, mut pair]: [FigureSamples; 4] = Default::default();
    let [mut of_switch, mut of_pair]: [FigureSamples; 2] = Default::default();
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (program, cpu) = (program.to_string_lossy(), PROGRAM_CPU.to_string());
    for round in 0..bench.rounds {
        let recorded = peers::record(
            &bench.programs.sordino,
            "bench, sordino_fiber, sordino_function",
            CollectorPolling::Timer,
            &place.path().join(round.to_string()),
            &[&program, &cpu, BURSTS],
        )?;
        no_loss(recorded.lost)?;
        let [empty, of_18, of_16, switched, called, recorded_call] = numbers(&recorded.output)?[..] else {
            return Err(recorded.output);
        };
        eighteen.push(of_18 - empty);
        sixteen.push(of_16 - empty);
        switch.push(switched - empty);
        pair.push(recorded_call - called);
        of_switch.push((switched - empty) / (of_18 - empty));
        of_pair.push((recorded_call - called) / (of_16 - empty));
    }
    table.heading("Events of fibers and functions, from C, rings never full, over the empty loop");
    table.figure("an ordinary event of 18 bytes", &eighteen, "ns");
    table.figure("a switch of fibers", &switch, "ns");
    table.figure("an ordinary event of 16 bytes", &sixteen, "ns");
    table.figure("a function's entry and exit, over a call", &pair, "ns");
    let bar = |limit| Some((limit, LimitSide::AtMost));
    table.ratio("a switch / an ordinary event", of_switch.median(), bar(SWITCH_BAR));
    table.ratio("entry and exit / an ordinary event", of_pair.median(), bar(PAIR_BAR));
    Ok(())
}
