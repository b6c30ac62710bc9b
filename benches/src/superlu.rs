//! A compute load, SuperLU's factorization of a sparse matrix, with every function of it recorded.

use crate::Bench;
use crate::cost::no_loss;
use crate::peers::{self, CollectorPolling, PROGRAM_CPU};
use crate::programs::{numbers, output_of, root};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Points of each side of the cube.
const POINTS: &str = "22";
/// Overhead in percent that the paper's toolkit had with its solver.
const BAR: f64 = 4.6;
/// Files that are used by all precisions; those of double precision are found by their names.
const SHARED: &[&str] = &[
    "superlu_timer",
    "util",
    "memory",
    "get_perm_c",
    "mmd",
    "relax_snode",
    "heap_relax_snode",
    "colamd",
    "ilu_relax_snode",
    "ilu_heap_relax_snode",
    "mark_relax",
    "mc64ad",
    "qselect",
    "input_error",
];

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let [plain, instrumented] = programs(bench)?;
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let [mut without, mut idle, mut with, mut overhead, mut calls]: [FigureSamples; 5] = Default::default();
    let program = |path: &Path| path.to_string_lossy().into_owned();
    let cpu = PROGRAM_CPU.to_string();
    let alone = |path: &Path| seconds(&output_of(Command::new(path).args([&cpu, POINTS]))?);
    for round in 0..bench.rounds {
        let recorded = |name: &str, calls: &mut FigureSamples| {
            let directory = place.path().join(format!("{name}{round}"));
            let command = [&program(&instrumented), cpu.as_str(), POINTS];
            let (rule, polling) = ("sordino_function", CollectorPolling::Timer);
            let result = peers::record(&bench.programs.sordino, rule, polling, &directory, &command)?;
            no_loss(result.lost)?;
            if result.events == 0 {
                return Err("no call was recorded".to_owned());
            }
            calls.push(result.events as f64 / 2.0);
            seconds(&result.output)
        };
        // In this order, a machine that becomes slower during the round slows both alike.
        let first = alone(&plain)?;
        let second = recorded("first", &mut calls)?;
        idle.push(alone(&instrumented)?);
        let third = recorded("second", &mut calls)?;
        let fourth = alone(&plain)?;
        without.push((first + fourth) / 2.0);
        with.push((second + third) / 2.0);
        overhead.push(((second + third) / (first + fourth) - 1.0) * 100.0);
    }
    table.heading("SuperLU: factorization of a sparse matrix, CPU time, each function recorded");
    table.figure("not instrumented", &without, "s");
    table.figure("instrumented, not recorded", &idle, "s");
    table.figure("recorded", &with, "s");
    table.figure("calls of functions", &calls, "");
    table.figure("overhead of a round", &overhead, "%");
    table.difference("overhead (the paper's: 4.6 %)", overhead.median(), "%", Some((BAR, LimitSide::AtMost)));
    Ok(())
}

/// Returns the seconds that the program prints, before the error of its result.
fn seconds(output: &str) -> Result<f64, String> {
    numbers(output)?.first().copied().ok_or_else(|| format!("no time in: {output}"))
}

/// Compiles the program without and with instrumentation.
fn programs(bench: &Bench) -> Result<[PathBuf; 2], String> {
    let target = bench.programs.sordino.ancestors().nth(2).unwrap_or(Path::new("target"));
    let found = output_of(Command::new(root().join("benches/superlu-source")).arg(target.join("superlu")))?;
    let sources = Path::new(found.trim()).join("SRC");
    let files = files(&sources)?;
    let paths = ["superlu", "superlu-functions"].map(|name| bench.programs.other(name));
    for (path, libraries) in [(&paths[0], None), (&paths[1], Some(bench.programs.functions()?))] {
        let programs = root().join("benches/programs");
        let mut command = Command::new("gcc");
        // SuperLU calls the BLAS of the system, as Debian's package does.
        command.args(["-O2", "-g1", "-w", "-std=gnu11", "-DUSE_VENDOR_BLAS", "-DAdd_", "-I"]).arg(&sources);
        if libraries.is_some() {
            let excluded = "-finstrument-functions-exclude-file-list=/usr/,benches/programs";
            command.args(["-finstrument-functions", excluded]);
        }
        command.arg("-o").arg(path).arg(programs.join("superlu.c")).args(&files);
        command.args(libraries.into_iter().flatten()).args(blas()).arg("-lm");
        output_of(&mut command)?;
    }
    Ok(paths)
}

/// Words of a compiler's command that link a program with the reference BLAS, which has one thread.
fn blas() -> Vec<OsString> {
    let machine = output_of(Command::new("gcc").arg("-print-multiarch")).unwrap_or_default();
    let directory = format!("/usr/lib/{}/blas", machine.trim());
    if Path::new(&directory).join("libblas.so").exists() {
        vec![format!("-L{directory}").into(), format!("-Wl,-rpath,{directory}").into(), "-lblas".into()]
    } else {
        vec!["-lblas".into()]
    }
}

/// Returns the files of SuperLU for matrices of double precision.
fn files(sources: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", sources.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(sources).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_double = ["d", "sp_", "ilu_d"].iter().any(|prefix| name.starts_with(prefix));
        let is_needed =
            SHARED.contains(&name.as_str()) || is_double && name != "dcomplex" && name != "dzsum1";
        if is_needed && path.extension().is_some_and(|extension| extension == "c") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
