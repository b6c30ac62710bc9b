//! Slowdown of ordinary work, without tracepoints of its own, while the kernel's events are recorded.

use crate::Bench;
use crate::programs::output_of;
use crate::table::{FigureSamples, FigureTable};
use std::path::Path;
use std::process::Command;

/// Groups of kernel events; none runs without a recorder.
const KERNEL: [Option<&str>; 3] = [None, Some("sched"), Some("rt")];

/// Shell commands; `$0` is a C file without includes.
const WORK: [(&str, &str); 2] = [
    ("eight compilers, two at a time", "seq 8 | xargs -P 2 -I '{}' gcc -O2 -x c -c -o /dev/null \"$0\""),
    ("160 threads that do nothing but send each other messages", "hackbench -g 4 -l 2000 >/dev/null"),
];

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    table.heading("Other work while the kernel is recorded, without the recorder's start and end");
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let source = place.path().join("work.c");
    std::fs::write(&source, source_text()).map_err(|error| error.to_string())?;
    for (name, work) in WORK {
        let script = format!("date +%s%N; {work}; date +%s%N");
        let mut times: [FigureSamples; KERNEL.len()] = Default::default();
        for _ in 0..bench.rounds {
            for (kernel, times) in KERNEL.iter().zip(&mut times) {
                // Each recording is removed before the next one begins.
                let recording = tempfile::tempdir_in(place.path()).map_err(|error| error.to_string())?;
                let mut command = shell(bench, *kernel, &recording.path().join("recording"));
                times.push(seconds(command.args(["-c", &script]).arg(&source))?);
            }
        }
        table.figure(&format!("{name}: no recorder"), &times[0], "s");
        for (kernel, recorded) in KERNEL.iter().zip(&times).skip(1) {
            let events = kernel.unwrap_or_default();
            table.figure(&format!("the same, --kernel {events}"), recorded, "s");
            table.ratio("with / without", recorded.median() / times[0].median(), None);
        }
    }
    Ok(())
}

/// Returns a shell, recorded with these kernel events.
fn shell(bench: &Bench, kernel: Option<&str>, recording: &Path) -> Command {
    let Some(events) = kernel else { return Command::new("sh") };
    let mut command = Command::new(&bench.programs.sordino);
    command.args(["record", "--no-user", "--kernel", events, "--kernel-buffer", "64M", "-o"]);
    command.arg(recording).args(["--", "sh"]);
    command
}

/// Returns the time between the first and the last of the times that the command prints, nanoseconds since the epoch.
fn seconds(command: &mut Command) -> Result<f64, String> {
    let text = output_of(command)?;
    let moments: Vec<f64> =
        text.lines().filter_map(|line| line.parse().ok()).filter(|at| *at > 1e18).collect();
    match moments[..] {
        [begin, end] => Ok((end - begin) * 1e-9),
        _ => Err(format!("two moments are expected in: {text}")),
    }
}

/// Returns a C file that a compiler takes some tenths of a second for.
fn source_text() -> String {
    let function = |number: u32| {
        format!(
            "int f{number}(int *a, int n) {{ int s = {number}; for (int i = 0; i < n; i++) s += a[i] * (i ^ s); return s; }}\n"
        )
    };
    (0..400).map(function).collect()
}
