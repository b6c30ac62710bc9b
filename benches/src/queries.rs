//! Speed of queries of a large recording of the kernel and of programs: measures, filters, CPUs, a second of an hour.

use crate::Bench;
use crate::programs::{TargetTracer, output_of};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use sordino_ctf::write::{StreamClass, StreamWriter, event_class, preamble, stream_class};
use sordino_ctf::{ClockDescription, Environment, Uuid};
use sordino_event::{Cpu, Field, Level, Schema, Ticks};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The load: a program with tracepoints, and two whose work is system calls, as long as the first runs; `$0` is the
/// first, `$1` its seconds.
const LOAD: &str = "dd if=/dev/zero of=/dev/null bs=1 & a=$!; dd if=/dev/zero of=/dev/null bs=1 & b=$!; \
    hackbench -g 2 -l 500 >/dev/null & \"$0\" 0 500000 \"$1\"; kill $a $b; wait";

const MEASURES: [&str; 10] = [
    "count",
    "active",
    "slices",
    "latency",
    "preemption",
    "sleep",
    "syscalls",
    "irqs",
    "softirqs",
    "reactivity",
];

/// The number of events to which the bar of measures refers, the seconds, and the bytes of memory.
const EVENTS: f64 = 20e6;
const BAR_SECONDS: f64 = 5.0;
const BAR_KIBIBYTES: &str = "488281";

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let place = tempfile::tempdir_in(".").map_err(|error| error.to_string())?;
    let directory = place.path().join("recording");
    record(bench, &directory)?;
    let kernel = directory.join("kernel");
    let events = count(bench, &directory)?;
    table.heading(&format!(
        "Measures of a recording of {:.1} million events, each as of 20 million",
        events / 1e6
    ));
    for measure in MEASURES {
        let mut times = FigureSamples::default();
        for _ in 0..bench.rounds {
            times
                .push(time(on("0,1", &bench.sordino(&["query"], &directory, &[measure])))? * EVENTS / events);
        }
        table.figure(measure, &times, "s");
        table.difference(measure, times.median(), "s", Some((BAR_SECONDS, LimitSide::AtMost)));
    }
    let program = fs::read_dir(directory.join("user")).ok().and_then(|mut all| all.next()?.ok());
    let program = program.ok_or("the recording has no program's trace")?.path();
    for (trace, stream, condition) in [(&kernel, "cpu1", "next_tid > 0"), (&program, "cpu0", "a % 100 == 1")]
    {
        one_stream(bench, table, &[place.path(), trace.as_path()], stream, condition)?;
    }
    two_cpus(bench, table, &kernel)?;
    fs::remove_dir_all(&directory).map_err(|error| error.to_string())?;
    second_of_an_hour(bench, table, place.path())
}

pub(crate) fn record(bench: &Bench, directory: &Path) -> Result<(), String> {
    let mut record = Command::new(&bench.programs.sordino);
    record.args(["record", "--kernel", "sched,irq,syscalls", "--kernel-buffer", "256M", "-o"]).arg(directory);
    record.args(["--", "sh", "-c", LOAD]).arg(bench.programs.path("rate", TargetTracer::Sordino));
    output_of(record.arg(bench.seconds.to_string())).map(drop).map_err(|error| error.to_string())
}

/// Compares the reading of one stream on one CPU, with a condition that almost no event meets, with babeltrace2.
fn one_stream(
    bench: &Bench,
    table: &mut FigureTable,
    [place, trace]: &[&Path; 2],
    stream: &str,
    condition: &str,
) -> Result<(), String> {
    let one = place.join("one");
    fs::create_dir(&one).map_err(|error| error.to_string())?;
    for file in ["metadata", stream] {
        fs::hard_link(trace.join(file), one.join(file)).map_err(|error| error.to_string())?;
    }
    let events = count(bench, &one)?;
    let passed = listed(bench, &one, condition)?;
    let [mut ours, mut theirs] = [FigureSamples::default(), FigureSamples::default()];
    for _ in 0..bench.rounds {
        ours.push(events / 1e6 / time(on("1", &bench.sordino(&["events"], &one, &["--where", condition])))?);
        let dummy = [Path::new("babeltrace2"), &one, Path::new("-c"), Path::new("sink.utils.dummy")];
        theirs.push(events / 1e6 / time(on("1", &dummy.map(Path::to_owned)))?);
    }
    table.heading(&format!(
        "Reading one stream of {:.1} million events on one CPU; --where '{condition}' rejects {:.2} %",
        events / 1e6,
        100.0 * (1.0 - passed / events)
    ));
    table.figure("sordino events --where", &ours, "10^6/s");
    table.figure("babeltrace2 -c sink.utils.dummy", &theirs, "10^6/s");
    table.ratio("sordino / babeltrace2", ours.median() / theirs.median(), Some((10.0, LimitSide::AtLeast)));
    fs::remove_dir_all(&one).map_err(|error| error.to_string())
}

fn two_cpus(bench: &Bench, table: &mut FigureTable, kernel: &Path) -> Result<(), String> {
    table.heading("Two CPUs instead of one, for the kernel's two streams");
    let condition = ["--where", "next_tid > 0"];
    let questions: [(&str, &str, &[&str]); 3] = [
        ("events --where", "events", &condition),
        ("query latency", "query", &["latency"]),
        ("query syscalls", "query", &["syscalls"]),
    ];
    for (name, command, rest) in questions {
        let [mut one, mut two] = [FigureSamples::default(), FigureSamples::default()];
        for _ in 0..bench.rounds {
            one.push(time(on("1", &bench.sordino(&[command], kernel, rest)))?);
            two.push(time(on("0,1", &bench.sordino(&[command], kernel, rest)))?);
        }
        table.figure(&format!("{name}, one CPU"), &one, "s");
        table.figure(&format!("{name}, two CPUs"), &two, "s");
        table.ratio("one / two", one.median() / two.median(), Some((1.7, LimitSide::AtLeast)));
    }
    Ok(())
}

/// Measures the listing of a second of a trace of an hour, of 10 million events on two CPUs.
fn second_of_an_hour(bench: &Bench, table: &mut FigureTable, place: &Path) -> Result<(), String> {
    let hour = place.join("hour");
    write_hour(&hour).map_err(|error| error.to_string())?;
    let mut times = FigureSamples::default();
    for _ in 0..bench.rounds {
        let part = ["--from", "1800s", "--until", "1801s"];
        times.push(time(on("0,1", &bench.sordino(&["events"], &hour, &part)))?);
    }
    table.heading("A second of a trace of an hour with 10 million events");
    table.figure("sordino events --from 1800s --until 1801s", &times, "s");
    table.difference("", times.median(), "s", Some((0.3, LimitSide::AtMost)));
    Ok(())
}

fn write_hour(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    const CLASS: StreamClass = StreamClass::Cpu;
    let uuid = Uuid([1; 16]);
    let mut environment = Environment::default();
    environment.set("domain", "ust").set("vpid", 4711);
    let fields = ["a", "b"].map(|name| Field { name: name.into(), ty: "u64".parse().expect("a type") });
    let (provider, name) = ("bench".into(), "two".into());
    let schema = Schema { provider, name, level: Level::Info, location: None, fields: fields.into() };
    let mut metadata = preamble(uuid, &environment, &ClockDescription::new("tsc"))?;
    metadata += &stream_class(CLASS);
    metadata += &event_class(CLASS, 3, "bench:two", &schema)?;
    fs::create_dir(directory)?;
    fs::write(directory.join("metadata"), metadata)?;
    for cpu in 0..2 {
        let file = BufWriter::new(File::create(directory.join(format!("cpu{cpu}")))?);
        let mut writer = StreamWriter::new(file, uuid, CLASS, Some(Cpu(cpu)), 256 << 10)?;
        for event in 0..5_000_000_u64 {
            let payload = [event.to_ne_bytes(), event.to_ne_bytes()].concat();
            writer.append(Ticks(event * 720_000), [0, 0, 3, 0], &4711_i32.to_ne_bytes(), &payload)?;
        }
        writer.finish()?;
    }
    Ok(())
}

impl Bench {
    /// Returns a command of sordino's, with its directory and the words behind that.
    pub(crate) fn sordino(&self, command: &[&str], directory: &Path, rest: &[&str]) -> Vec<PathBuf> {
        let words = command.iter().map(PathBuf::from).chain([directory.to_owned()]);
        [self.programs.sordino.clone()]
            .into_iter()
            .chain(words)
            .chain(rest.iter().map(PathBuf::from))
            .collect()
    }
}

/// Returns the command limited to these CPUs and to the memory of the bar, without its output.
fn on(cpus: &str, words: &[PathBuf]) -> Command {
    let limited = ["sh", "-c", "ulimit -v $0 && exec \"$@\"", BAR_KIBIBYTES].map(PathBuf::from);
    let mut command = on_cpus(cpus, &[&limited, words].concat());
    command.stdout(Stdio::null());
    command
}

/// Returns the command limited to these CPUs.
pub(crate) fn on_cpus(cpus: &str, words: &[PathBuf]) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", cpus]).args(words);
    command
}

/// Returns the seconds that a command takes, start included.
pub(crate) fn time(mut command: Command) -> Result<f64, String> {
    command.stderr(Stdio::null());
    let begin = Instant::now();
    let status = command.status().map_err(|error| error.to_string())?;
    if status.success() { Ok(begin.elapsed().as_secs_f64()) } else { Err(format!("{command:?}: {status}")) }
}

/// Returns the number of events of a trace or a recording.
pub(crate) fn count(bench: &Bench, directory: &Path) -> Result<f64, String> {
    let words = bench.sordino(&["query"], directory, &["count", "--json"]);
    let printed = output_of(Command::new(&words[0]).args(&words[1..])).map_err(|error| error.to_string())?;
    let document: serde_json::Value = serde_json::from_str(&printed).map_err(|error| error.to_string())?;
    let all = &document["tables"][0]["all"]["count"];
    all.as_f64().ok_or_else(|| format!("no count of events in {printed}"))
}

/// Returns the number of events that meet a condition.
fn listed(bench: &Bench, directory: &Path, condition: &str) -> Result<f64, String> {
    let words = bench.sordino(&["events"], directory, &["--where", condition]);
    let printed = output_of(Command::new(&words[0]).args(&words[1..])).map_err(|error| error.to_string())?;
    Ok(printed.lines().filter(|line| !line.contains(" lost ")).count() as f64)
}
