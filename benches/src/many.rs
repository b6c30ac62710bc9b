//! Many short programs: the events that are recorded or counted as lost, and the time that takes.

use crate::Bench;
use crate::programs::{TargetTracer, output_of};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Programs that start together or in a row.
struct Crowd {
    name: &'static str,
    programs: u64,
    /// The number of events that each program records.
    events: u64,
    /// Shell script that starts the programs; `$0` is the program.
    script: &'static str,
}

const CROWDS: [Crowd; 3] = [
    Crowd {
        name: "100 programs, 20 at a time, 3 events each",
        programs: 100,
        events: 3,
        script: "seq 100 | xargs -P 20 -I '{}' \"$0\" 3",
    },
    Crowd {
        name: "200 programs at once, 300 events each",
        programs: 200,
        events: 300,
        script: "for i in $(seq 200); do \"$0\" 300 & done; wait",
    },
    Crowd {
        name: "1,000 programs in a row, 3 events each",
        programs: 1000,
        events: 3,
        script: "for i in $(seq 1000); do \"$0\" 3; done",
    },
];

/// Numbers of a crowd's events that were recorded and that were not.
#[derive(Debug, Default)]
struct Fate {
    recorded: u64,
    lost: u64,
    /// Number of programs whose hits are not counted.
    uncounted: u64,
}

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    table.heading("Many short programs, default sizes, the recorder's start and end in the time");
    CROWDS.iter().try_for_each(|crowd| measure_one(bench, table, crowd))
}

fn measure_one(bench: &Bench, table: &mut FigureTable, crowd: &Crowd) -> Result<(), String> {
    let program = bench.programs.path("start", TargetTracer::Sordino);
    let [mut alone, mut recorded, mut missing, mut silent] =
        std::array::from_fn(|_| FigureSamples::default());
    for _ in 0..bench.rounds {
        let begin = Instant::now();
        output_of(Command::new("sh").args(["-c", crowd.script]).arg(&program))?;
        alone.push(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        let fate = record(bench, crowd, &program)?;
        recorded.push(begin.elapsed().as_secs_f64());
        let expected = crowd.programs * crowd.events;
        missing.push((expected - fate.recorded) as f64);
        // All events of an uncounted program may be missing.
        let accounted = fate.recorded + fate.lost + fate.uncounted * crowd.events;
        silent.push(expected.saturating_sub(accounted) as f64);
    }
    table.figure(&format!("{}: not recorded", crowd.name), &alone, "s");
    table.figure("the same, recorded", &recorded, "s");
    table.ratio(
        "recorded / not recorded",
        recorded.median() / alone.median(),
        Some((3.0, LimitSide::AtMost)),
    );
    table.figure("events that are missing", &missing, "");
    table.difference(
        "events that are missing and not told of",
        silent.greatest(),
        "",
        Some((0.0, LimitSide::AtMost)),
    );
    Ok(())
}

fn record(bench: &Bench, crowd: &Crowd, program: &Path) -> Result<Fate, String> {
    // In memory: ext4 without a journal searches long for inodes where many files were removed a moment before.
    let place = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let mut command = Command::new(&bench.programs.sordino);
    command.args(["record", "--json", "--user", "bench:two", "-o"]).arg(place.path().join("recording"));
    command.args(["--", "sh", "-c", crowd.script]).arg(program);
    let text = output_of(&mut command)?;
    fate(&text).ok_or_else(|| format!("no summary in: {text}"))
}

/// Reads the numbers from the recorder's summary, the last line of its output.
fn fate(text: &str) -> Option<Fate> {
    let summary: Value = serde_json::from_str(text.lines().last()?).ok()?;
    let streams = summary["programs"].as_array()?.iter().filter_map(|program| program["streams"].as_array());
    Some(Fate {
        recorded: streams.flatten().filter_map(|stream| stream["events"].as_u64()).sum(),
        lost: summary["lost"].as_u64()?,
        uncounted: summary["unrecorded"]["uncounted"].as_u64().unwrap_or(0),
    })
}
