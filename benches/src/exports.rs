//! Speed of exports of a large recording, of SQL on it and on its tables, and of its listing as JSON.

use crate::Bench;
use crate::queries::{count, on_cpus, record, time};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// The number of events to which the bars of SQL refer.
const EVENTS: f64 = 20e6;
const QUERY: &str = "SELECT name, count(*) FROM events GROUP BY name";

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let place = tempfile::tempdir_in(".").map_err(|error| error.to_string())?;
    let recording = place.path().join("recording");
    record(bench, &recording)?;
    let events = count(bench, &recording)?;
    table.heading(&format!("Exports of a recording of {:.1} million events, on two CPUs", events / 1e6));
    let tables = place.path().join("parquet");
    for format in ["perfetto", "parquet"] {
        let out = place.path().join(format);
        let rest = ["--to", format, "-o", out.to_str().ok_or("a directory whose name is no text")?];
        let mut rates = FigureSamples::default();
        for _ in 0..bench.rounds {
            // The last round's; a file or a directory.
            let _ = fs::remove_file(&out).or_else(|_| fs::remove_dir_all(&out));
            rates.push(events / 1e6 / run(bench, &["export"], &recording, &rest)?);
        }
        table.figure(format, &rates, "10^6/s");
        table.difference("", rates.median(), "10^6/s", Some((3.0, LimitSide::AtLeast)));
    }
    table.heading("Events by name, in SQL, each as of 20 million");
    for (name, directory, bar) in [("a recording", &recording, 4.0), ("its Parquet files", &tables, 0.3)] {
        let mut times = FigureSamples::default();
        for _ in 0..bench.rounds {
            times.push(run(bench, &["sql"], directory, &[QUERY])? * EVENTS / events);
        }
        table.figure(name, &times, "s");
        table.difference("", times.median(), "s", Some((bar, LimitSide::AtMost)));
    }
    listings(bench, table, &recording)
}

/// Compares the listings as JSON and as text, by bytes.
fn listings(bench: &Bench, table: &mut FigureTable, recording: &Path) -> Result<(), String> {
    let [mut text, mut json] = [FigureSamples::default(), FigureSamples::default()];
    let out = recording.with_file_name("listing");
    for _ in 0..bench.rounds {
        for (rates, option) in [(&mut text, &[][..]), (&mut json, &["--json"])] {
            let mut command = on_cpus("0,1", &bench.sordino(&["events"], recording, option));
            command.stdout(fs::File::create(&out).map_err(|error| error.to_string())?);
            let seconds = time(command)?;
            let bytes = fs::metadata(&out).map_err(|error| error.to_string())?.len();
            rates.push(bytes as f64 / 1e6 / seconds);
        }
    }
    table.heading("Its listing to a file");
    table.figure("sordino events", &text, "MB/s");
    table.figure("sordino events --json", &json, "MB/s");
    table.ratio("JSON / text", json.median() / text.median(), Some((1.0, LimitSide::AtLeast)));
    Ok(())
}

/// Returns the seconds that a command of sordino's takes.
fn run(bench: &Bench, words: &[&str], directory: &Path, rest: &[&str]) -> Result<f64, String> {
    let mut command = on_cpus("0,1", &bench.sordino(words, directory, rest));
    command.stdout(Stdio::null());
    time(command)
}
