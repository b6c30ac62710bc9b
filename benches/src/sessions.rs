//! What snapshots cost the program that they are taken of.

use crate::Bench;
use crate::knob::Knob;
use crate::peers::PROGRAM_CPU;
use crate::programs::{Tracer, numbers, output_of};
use crate::table::{Bar, Samples, Table};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Bursts of 500,000 loops in a round: a minute at full speed, or more.
const BURSTS: &str = "1200";
const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// 24 MiB of rings with two CPUs and the shared one.
const RINGS: [&str; 5] = ["--overwrite", "--subbuf-size", "1M", "--num-subbuf", "8"];
/// The place of p99.99 in what the program prints.
const P99_99: usize = 3;

/// A flight recorder of its own.
struct Session<'a> {
    sordino: &'a Path,
    place: tempfile::TempDir,
}

impl<'a> Session<'a> {
    fn start(sordino: &'a Path) -> Result<Self, String> {
        let place = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
        let session = Self { sordino, place };
        let output = session.place.path().join("box");
        session.run(&[&["start", "box", "-o", &output.to_string_lossy()], &RINGS[..]].concat())?;
        Ok(session)
    }

    fn found(&self, command: &mut Command) -> Result<String, String> {
        Ok(output_of(command.env("SORDINO_RUNTIME_DIR", self.place.path().join("sessions")))?)
    }

    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.found(Command::new(self.sordino).args(arguments))
    }

    /// Takes one; where it lies.
    fn snapshot(&self) -> Result<PathBuf, String> {
        let text = self.run(&["snapshot", "box"])?;
        Ok(text.lines().next().unwrap_or_default().into())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let _ = self.run(&["destroy", "box", "--no-snapshot"]);
    }
}

pub(crate) fn measure(bench: &Bench, table: &mut Table) -> Result<(), String> {
    let unthrottled = Knob::hold(bench, THROTTLE, "-1")?;
    let program = bench.programs.path("gaps", Tracer::Sordino);
    let [mut without, mut with] = [Samples::default(), Samples::default()];
    let (mut taken, mut refused) = (0, Vec::new());
    for _ in 0..bench.rounds {
        let quiet = Session::start(&bench.programs.sordino)?;
        without.push(hits(&quiet, &program)?);
        drop(quiet);
        let busy = Session::start(&bench.programs.sordino)?;
        let (tail, snapshots) = with_snapshots(&busy, &program)?;
        with.push(tail);
        for snapshot in snapshots {
            taken += 1;
            refused.extend(refusal(&snapshot));
        }
    }
    unthrottled.restore()?;
    table.heading("A flight recorder of 24 MiB, a snapshot each second, of a program at full speed");
    table.figure("p99.99 of a loop without snapshots", &without, "ns");
    table.figure("p99.99 of a loop with them", &with, "ns");
    let more = with.median() - without.median();
    table.difference("what they add at p99.99", more, "ns", Some((100.0, Bar::AtMost)));
    let share = (taken - refused.len()) as f64 / f64::from(taken.max(1) as u32);
    let name = format!("of {taken} snapshots babeltrace2 reads, without a complaint");
    table.ratio(&name, share, Some((1.0, Bar::AtLeast)));
    match refused.first() {
        Some(first) => Err(first.clone()),
        None => Ok(()),
    }
}

fn hits(session: &Session<'_>, program: &Path) -> Result<f64, String> {
    let output = session.found(Command::new(program).args([&PROGRAM_CPU.to_string(), BURSTS]))?;
    numbers(&output)?.get(P99_99).copied().ok_or(output)
}

/// The same while a snapshot is taken each second.
fn with_snapshots(session: &Session<'_>, program: &Path) -> Result<(f64, Vec<PathBuf>), String> {
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        let taker = scope.spawn(move || {
            let mut taken = Vec::new();
            while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(Duration::from_secs(1)) {
                taken.push(session.snapshot()?);
            }
            Ok(taken)
        });
        let tail = hits(session, program);
        drop(done);
        let taken = taker.join().unwrap_or_else(|_| Err("the thread that takes snapshots".to_owned()));
        Ok((tail?, taken?))
    })
}

/// What babeltrace2 has against a snapshot.
fn refusal(snapshot: &Path) -> Option<String> {
    let output = Command::new("babeltrace2").args(["--output", "/dev/null"]).arg(snapshot).output();
    let errors = match output {
        Ok(output) if output.status.success() && output.stderr.is_empty() => return None,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    Some(format!("{}: {errors}", snapshot.display()))
}
