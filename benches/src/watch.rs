//! Views of a session: the CPU time of one at ten thousand events a second, and the gaps that it makes in an ordinary
//! loop.

use crate::Bench;
use crate::ordinary::{RoundResult, SECONDS, observed, round_of};
use crate::programs::{TargetTracer, output_of};
use crate::sessions::{MeasuredSession, NAME};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Events a second of the session whose view's CPU time is measured.
const RATE: &str = "10000";
/// Time until a view shows its session.
const BEGIN: Duration = Duration::from_secs(3);

/// A view of a session, in a terminal of 80 columns and 24 rows. Both end with this value.
struct TerminalView<'a> {
    session: &'a MeasuredSession<'a>,
    socket: String,
    pid: String,
}

impl<'a> TerminalView<'a> {
    /// Opens a view, and returns it once it shows the session.
    fn open(bench: &Bench, session: &'a MeasuredSession<'a>) -> Result<Self, String> {
        let place = session.variable().1.with_file_name("tmux");
        let mut view = Self { session, socket: place.display().to_string(), pid: String::new() };
        let command = format!("exec {} watch {NAME}", bench.programs.sordino.display());
        view.tell(&["new-session", "-d", "-x", "80", "-y", "24", &command])?;
        sleep(BEGIN);
        view.pid = view.tell(&["display", "-p", "#{pane_pid}"])?.trim().to_owned();
        Ok(view)
    }

    fn tell(&self, words: &[&str]) -> Result<String, String> {
        let mut tmux = self.session.command(Path::new("tmux"));
        Ok(output_of(tmux.args(["-S", &self.socket]).args(words))?)
    }

    /// Returns the nanoseconds of CPU time so far, the kernel's part included.
    fn cpu_time(&self) -> Result<f64, String> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).unwrap_or_default();
        let time = text.split_whitespace().next().and_then(|time| time.parse().ok());
        time.ok_or_else(|| "the view has ended".to_owned())
    }

    fn threads(&self) -> Result<HashSet<i64>, String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid));
        let tasks = tasks.map_err(|error| format!("the view has ended: {error}"))?;
        Ok(tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect())
    }
}

impl Drop for TerminalView<'_> {
    fn drop(&mut self) {
        let _ = self.tell(&["kill-server"]);
    }
}

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    table.heading("A view of a session with 10 000 events a second");
    table.difference("CPU of sordino watch", cpu_time(bench)?, "%", Some((2.0, LimitSide::AtMost)));
    gaps(bench, table)
}

/// Returns the share of a CPU that a view takes, in per cent.
fn cpu_time(bench: &Bench) -> Result<f64, String> {
    let session = MeasuredSession::start(&bench.programs.sordino, &[])?;
    let seconds = (bench.seconds + BEGIN.as_secs_f64() + 2.0).to_string();
    let mut program = session.command(&bench.programs.path("rate", TargetTracer::Sordino));
    program.args(["0", RATE, &seconds]).stdout(Stdio::null());
    let mut program = program.spawn().map_err(|error| error.to_string())?;
    let measured = TerminalView::open(bench, &session).and_then(|view| {
        let (begin, before) = (Instant::now(), view.cpu_time()?);
        sleep(Duration::from_secs_f64(bench.seconds));
        Ok((view.cpu_time()? - before) / 1e9 / begin.elapsed().as_secs_f64() * 100.0)
    });
    let _ = program.wait();
    measured
}

/// Measures the gaps of an ordinary loop whose session is watched or not, round by round.
fn gaps(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let place = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let [mut without, mut with, mut views, mut longest] = std::array::from_fn(|_| FigureSamples::default());
    for round in 0..bench.rounds {
        let path = |name: &str| place.path().join(format!("{name}{round}"));
        without.push(beside(bench, &path("without"), false)?.gaps);
        let watched = beside(bench, &path("with"), true)?;
        with.push(watched.gaps);
        views.push(watched.recorders);
        longest.push(watched.longest_us);
    }
    table.heading("Gaps of an ordinary loop in a session, by who had its CPU");
    table.figure("not watched, gaps over 500 us", &without, "/min");
    table.figure("watched, gaps over 500 us", &with, "/min");
    table.figure("watched, of these the view's", &views, "/min");
    table.figure("the view's longest time on the loop's CPU", &longest, "us");
    let worst = views.greatest();
    table.difference(
        "gaps over 500 us that are the view's, at worst",
        worst,
        "/min",
        Some((0.0, LimitSide::AtMost)),
    );
    Ok(())
}

/// Runs the loop in a session, beside a view of it or not.
fn beside(bench: &Bench, switches: &Path, is_watched: bool) -> Result<RoundResult, String> {
    let session = MeasuredSession::start(&bench.programs.sordino, &["--user", "bench:two"])?;
    let view = is_watched.then(|| TerminalView::open(bench, &session)).transpose()?;
    let (variable, value) = session.variable();
    let environment = format!("{variable}={}", value.display());
    let program = observed(bench, switches, bench.seconds.max(SECONDS), &["env", &environment])?;
    let threads = view.as_ref().map_or_else(|| Ok(HashSet::new()), TerminalView::threads)?;
    let round = round_of(bench, switches, program, threads);
    let _ = fs::remove_dir_all(switches);
    round
}
