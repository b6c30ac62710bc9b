//! Sumtime, a torture test for a library of fibers: the time that recording adds to a tree of short fibers.
//!
//! FxT's FUT records the same calls of the same adapter, into a buffer for the whole run, and has its calls for
//! functions in the program. uftrace has no events of fibers, so it records the functions alone.

use crate::Bench;
use crate::cost::no_loss;
use crate::peers::{self, COLLECTOR_CPU, CollectorPolling, PROGRAM_CPU};
use crate::programs::{numbers, output_of, root};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bursts of a round, each of 40,920 fibers.
const BURSTS: &str = "7";
/// Overheads in percent that the paper's toolkit had, with switches and with all functions.
const BARS: [f64; 2] = [23.0, 80.0];
const SWITCHES: &str = "sordino_fiber";
const ALL: &str = "sordino_fiber, sordino_function";
/// Options of the compiler for a program whose own functions are recorded. Those of headers are several hundred calls
/// for each fiber, most of them inlined.
const FUNCTIONS: [&str; 2] =
    ["-finstrument-functions", "-finstrument-functions-exclude-file-list=/usr/,/sordino/,common.h"];
/// Depth of uftrace's call stack: all fibers of a tree are in the same one.
const MAX_STACK: &str = "--max-stack=60000";

/// Programs to measure; one that cannot be compiled has the reason instead.
struct SumtimePrograms {
    plain: PathBuf,
    switches: PathBuf,
    all: PathBuf,
    fut: Result<[PathBuf; 2], String>,
    uftrace: Result<PathBuf, String>,
}

/// CPU time for each fiber in nanoseconds, by round, and its increase over the untraced program in percent.
#[derive(Default)]
struct SumtimeFigures {
    time: FigureSamples,
    added: FigureSamples,
}

impl SumtimeFigures {
    /// Adds the result of a program that took `plain` in the same round untraced.
    fn push(&mut self, output: &str, plain: f64) -> Result<(), String> {
        let [time] = numbers(output)?[..] else { return Err(format!("no time in: {output}")) };
        self.time.push(time);
        self.added.push((time / plain - 1.0) * 100.0);
        Ok(())
    }
}

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let programs = SumtimePrograms::compile(bench)?;
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut untraced = FigureSamples::default();
    let [mut adapter, mut switches, mut idle, mut all, mut fut_switches, mut fut_all, mut uftrace] =
        <[SumtimeFigures; 7]>::default();
    let mut events = FigureSamples::default();
    for _ in 0..bench.rounds {
        let directory = place.path().join("recording");
        let record = |program: &Path, rule: &str| {
            let (path, cpu) = (program.to_string_lossy(), PROGRAM_CPU.to_string());
            let command = [&path, cpu.as_str(), BURSTS];
            let (sordino, polling) = (&bench.programs.sordino, CollectorPolling::Timer);
            let result = peers::record(sordino, rule, polling, &directory, &command);
            let _ = std::fs::remove_dir_all(&directory);
            let result = result?;
            no_loss(result.lost)?;
            Ok::<_, String>(result)
        };
        let output = alone(&programs.plain, &directory)?;
        let [plain] = numbers(&output)?[..] else { return Err(output) };
        untraced.push(plain);
        adapter.push(&alone(&programs.switches, &directory)?, plain)?;
        switches.push(&record(&programs.switches, SWITCHES)?.output, plain)?;
        idle.push(&alone(&programs.all, &directory)?, plain)?;
        let recorded = record(&programs.all, ALL)?;
        all.push(&recorded.output, plain)?;
        // The first burst is not measured, but recorded.
        let bursts = BURSTS.parse().unwrap_or(0.0) + 1.0;
        events.push(recorded.events as f64 / (bursts * 40_920.0));
        if let Ok([of_switches, of_all]) = &programs.fut {
            fut_switches.push(&alone(of_switches, &directory)?, plain)?;
            fut_all.push(&alone(of_all, &directory)?, plain)?;
        }
        if let Ok(program) = &programs.uftrace {
            uftrace.push(&under_uftrace(program, &directory)?, plain)?;
        }
    }
    table.heading("Sumtime: CPU time of a fiber of Boost.Fiber in a tree that is made, summed up and ended");
    table.figure("untraced", &untraced, "ns");
    show(table, "sordino's adapter, not recorded", &adapter);
    show(table, "sordino, switches", &switches);
    show(table, "sordino's adapter and functions, not recorded", &idle);
    show(table, "sordino, switches and functions", &all);
    table.figure("events of a fiber, with its functions", &events, "");
    match &programs.fut {
        Ok(_) => {
            show(table, "FUT, switches", &fut_switches);
            show(table, "FUT, switches and functions", &fut_all);
        }
        Err(reason) => table.missing("FUT", reason),
    }
    match &programs.uftrace {
        Ok(_) => show(table, "uftrace, functions alone", &uftrace),
        Err(reason) => table.missing("uftrace", reason),
    }
    table.missing("uftrace, switches", "it has no events of fibers");
    let names = ["switches, added (the paper: 23 %)", "with functions, added (the paper: 80 %)"];
    for ((name, figures), limit) in names.iter().zip([&switches, &all]).zip(BARS) {
        table.difference(name, figures.added.median(), "%", Some((limit, LimitSide::AtMost)));
    }
    if programs.fut.is_ok() {
        let ratio = |fut: &SumtimeFigures, own: &SumtimeFigures| fut.added.median() / own.added.median();
        table.ratio("FUT's added time / sordino's, switches", ratio(&fut_switches, &switches), None);
        table.ratio("FUT's added time / sordino's, with functions", ratio(&fut_all, &all), None);
    }
    Ok(())
}

fn show(table: &mut FigureTable, name: &str, figures: &SumtimeFigures) {
    table.figure(name, &figures.time, "ns");
    table.figure(&format!("{name}: added"), &figures.added, "%");
}

/// Runs a program without a recorder. FUT writes its trace to this path.
fn alone(program: &Path, trace: &Path) -> Result<String, String> {
    let cpu = PROGRAM_CPU.to_string();
    let output = output_of(Command::new(program).args([&cpu, BURSTS]).env("FUT_FILE", trace))?;
    let _ = std::fs::remove_file(trace);
    Ok(output)
}

/// Runs a program under uftrace, whose own threads have the collectors' CPU.
fn under_uftrace(program: &Path, directory: &Path) -> Result<String, String> {
    let (cpu, collector) = (PROGRAM_CPU.to_string(), COLLECTOR_CPU.to_string());
    let mut command = Command::new("taskset");
    command
        .args(["--cpu-list", &collector, "uftrace", "record", "--no-libcall", MAX_STACK, "-d"])
        .arg(directory);
    let output = output_of(command.arg(program).args([&cpu, BURSTS]));
    let _ = std::fs::remove_dir_all(directory);
    Ok(output?)
}

impl SumtimePrograms {
    fn compile(bench: &Bench) -> Result<Self, String> {
        let own = ["-DTRACER_SORDINO", "-I"].map(Into::into);
        let own = own.into_iter().chain([root().join("crates/recording/probe-c/include").into_os_string()]);
        let own: Vec<_> = own.chain(bench.programs.functions()?).collect();
        let fut = ["-DTRACER_FUT", "-I"].map(Into::into);
        let fut =
            fut.into_iter().chain([root().join("benches/programs/fut").into_os_string(), "-lfxt".into()]);
        let fut: Vec<_> = fut.collect();
        let functions = FUNCTIONS.map(Into::into);
        let with = |words: &[std::ffi::OsString]| [words, &functions].concat();
        let compiled = |name: &str, words: &[std::ffi::OsString]| compile(bench, name, words);
        let of_fut = || {
            let all = [with(&fut), vec!["-DTRACER_FUNCTIONS".into()]].concat();
            Ok([compiled("sumtime-fut", &fut)?, compiled("sumtime-fut-functions", &all)?])
        };
        Ok(Self {
            plain: compiled("sumtime", &[])?,
            switches: compiled("sumtime-switches", &own)?,
            all: compiled("sumtime-functions", &with(&own))?,
            fut: of_fut().map_err(|reason: String| remedy(&reason, "libfxt-dev")),
            uftrace: match output_of(Command::new("uftrace").arg("--version")) {
                Ok(_) => Ok(compiled("sumtime-uftrace", &functions)?),
                Err(error) => Err(remedy(&error.to_string(), "uftrace")),
            },
        })
    }
}

/// Appends the command that installs what is missing to the first line of a reason.
fn remedy(reason: &str, package: &str) -> String {
    format!("{}; as root: apt-get install {package}", reason.lines().next().unwrap_or_default())
}

/// Compiles the program with these words of the compiler's command.
fn compile(bench: &Bench, name: &str, words: &[std::ffi::OsString]) -> Result<PathBuf, String> {
    let (path, sources) = (bench.programs.other(name), root().join("benches/programs"));
    let mut command = Command::new("g++");
    command.args(["-O2", "-g1", "-std=c++17", "-pthread", "-I"]).arg(&sources).arg("-I");
    command.arg(root().join("adapters/boost-fiber")).arg(sources.join("sumtime.cpp")).args(words);
    output_of(command.args(["-lboost_fiber", "-lboost_context", "-o"]).arg(&path))?;
    Ok(path)
}
