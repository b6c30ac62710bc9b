//! Cost of snapshots to the program that is recorded.

use crate::Bench;
use crate::knob::FileOverride;
use crate::peers::PROGRAM_CPU;
use crate::programs::{TargetTracer, numbers, output_of};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program runs for a minute without snapshots and a minute with one a second, alternating each second: a
/// hypervisor's effect on it changes from one minute to the next by more than the measured difference.
const SECONDS: u64 = 120;
const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// Total size of the rings is 24 MiB, with two CPUs and the shared ring.
const RINGS: [&str; 5] = ["--overwrite", "--subbuf-size", "1M", "--num-subbuf", "8"];
/// Index of p99.99 in the program's output.
const P99_99: usize = 3;

/// The name of sessions that are measured.
pub(crate) const NAME: &str = "box";

/// A session in a directory of its own, which ends with this value.
pub(crate) struct MeasuredSession<'a> {
    sordino: &'a Path,
    place: tempfile::TempDir,
}

impl<'a> MeasuredSession<'a> {
    pub(crate) fn start(sordino: &'a Path, options: &[&str]) -> Result<Self, String> {
        let place = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
        let session = Self { sordino, place };
        let output = session.place.path().join(NAME);
        session.run(&[&["start", NAME, "-o", &output.to_string_lossy()], options].concat())?;
        Ok(session)
    }

    /// Returns the variable by which programs find this session, with its value.
    pub(crate) fn variable(&self) -> (&'static str, PathBuf) {
        ("SORDINO_RUNTIME_DIR", self.place.path().join("sessions"))
    }

    /// Returns a command that finds this session.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.envs([self.variable()]);
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        Ok(output_of(self.command(self.sordino).args(arguments))?)
    }

    /// Returns the number of programs that the session records at present.
    pub(crate) fn programs(&self) -> Result<usize, String> {
        let status: Value = serde_json::from_str(&self.run(&["status", NAME, "--json"])?)
            .map_err(|error| error.to_string())?;
        Ok(status["sessions"][0]["status"]["programs"].as_array().map_or(0, Vec::len))
    }

    /// Takes a snapshot, and returns its directory.
    fn snapshot(&self) -> Result<PathBuf, String> {
        let text = self.run(&["snapshot", NAME])?;
        Ok(text.lines().next().unwrap_or_default().into())
    }
}

impl Drop for MeasuredSession<'_> {
    fn drop(&mut self) {
        let _ = self.run(&["destroy", NAME, "--no-snapshot"]);
    }
}

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let unthrottled = FileOverride::hold(bench, THROTTLE, "-1")?;
    let program = bench.programs.path("nonstop", TargetTracer::Sordino);
    let [mut without, mut with, mut more] = std::array::from_fn(|_| FigureSamples::default());
    let (mut taken, mut refused) = (0, Vec::new());
    for _ in 0..bench.rounds {
        let session = MeasuredSession::start(&bench.programs.sordino, &RINGS)?;
        let (tails, snapshots) = beside_snapshots(&session, &program)?;
        without.push(tails[0]);
        with.push(tails[1]);
        more.push(tails[1] - tails[0]);
        for snapshot in snapshots {
            taken += 1;
            refused.extend(refusal(&snapshot));
        }
    }
    unthrottled.restore()?;
    table.heading("A flight recorder of 24 MiB, a snapshot each second, of a program at full speed");
    table.figure("p99.99 of a loop without snapshots", &without, "ns");
    table.figure("p99.99 of a loop with them", &with, "ns");
    table.figure("what they add, round by round", &more, "ns");
    table.difference("their median", more.median(), "ns", Some((100.0, LimitSide::AtMost)));
    let share = (taken - refused.len()) as f64 / f64::from(taken.max(1) as u32);
    let name = format!("of {taken} snapshots babeltrace2 reads, without a complaint");
    table.ratio(&name, share, Some((1.0, LimitSide::AtLeast)));
    match refused.first() {
        Some(first) => Err(first.clone()),
        None => Ok(()),
    }
}

/// p99.99 of the program's loops without snapshots and with them, and the snapshots.
fn beside_snapshots(
    session: &MeasuredSession<'_>,
    program: &Path,
) -> Result<([f64; 2], Vec<PathBuf>), String> {
    let mut command = session.command(program);
    command.args([&PROGRAM_CPU.to_string(), &SECONDS.to_string(), "1"]).stdout(Stdio::piped());
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());
    let mut running = command.spawn().map_err(failed)?;
    let mut output = BufReader::new(running.stdout.take().ok_or("no output")?);
    output.read_line(&mut String::new()).map_err(failed)?;
    let snapshots = each_other_second(session, Instant::now());
    let mut text = String::new();
    output.read_to_string(&mut text).map_err(failed)?;
    let status = running.wait().map_err(failed)?;
    let tails: Result<Vec<_>, _> = text.lines().map(tail).collect();
    let tails = tails?.try_into().map_err(|_| format!("{}: {status}: '{text}'", program.display()))?;
    Ok((tails, snapshots?))
}

fn tail(line: &str) -> Result<f64, String> {
    numbers(line)?.get(P99_99).copied().ok_or_else(|| line.to_owned())
}

/// Takes a snapshot in every second of the program's second kind.
fn each_other_second(session: &MeasuredSession<'_>, begin: Instant) -> Result<Vec<PathBuf>, String> {
    let seconds = (1..SECONDS).step_by(2).map(Duration::from_secs);
    seconds
        .map(|second| {
            std::thread::sleep((begin + second).saturating_duration_since(Instant::now()));
            session.snapshot()
        })
        .collect()
}

/// Returns babeltrace2's complaint about a snapshot, if any.
fn refusal(snapshot: &Path) -> Option<String> {
    let output = Command::new("babeltrace2").args(["--output", "/dev/null"]).arg(snapshot).output();
    let errors = match output {
        Ok(output) if output.status.success() && output.stderr.is_empty() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    Some(format!("{}: {errors}", snapshot.display()))
}
