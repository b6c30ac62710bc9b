//! Attaching to a program: the time that a session adds until `main` begins, and to the run.
//!
//! A program that starts with a session waits for the recorder's answer before `main`. That wait, from the registration
//! to the answer, is the most that the session adds until `main`. At the end, the recorder detaches from the program,
//! which is part of the run.

use crate::Bench;
use crate::programs::{TargetTracer, numbers, output_of};
use crate::sessions::MeasuredSession;
use crate::table::{FigureSamples, FigureTable, LimitSide};
use sordino_clock::{Clock, nanoseconds};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts in a round, of each kind.
const STARTS: usize = 20;
/// Pause between two starts, as between the starts of programs in everyday use.
const PAUSE: Duration = Duration::from_millis(50);
/// The number of programs that the session has in the second measurement.
const OTHERS: usize = 99;
/// Longest time until all of them are attached.
const TAKEN_UP: Duration = Duration::from_secs(30);
const BAR_MS: f64 = 3.0;

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    table.heading("Taking up a program that hits one event and ends, one after another");
    let [mut alone, mut first, mut last] = std::array::from_fn(|_| TakeUpTimes::default());
    for _ in 0..bench.rounds {
        let session = MeasuredSession::start(&bench.programs.sordino, &["--user", "bench:two"])?;
        let few = runs(bench, &session)?;
        let others = Others::start(bench, &session)?;
        let many = runs(bench, &session)?;
        drop(others);
        alone.push(few.unrecorded.medians());
        first.push(few.added());
        last.push(many.added());
    }
    alone.show(table, "not recorded");
    first.show(table, "added by a session of one program");
    last.show(table, &format!("added by a session of {OTHERS} others"));
    for (name, added) in [("the first, until main", first), ("the hundredth, until main", last)] {
        table.difference(name, added.until_main.median(), "ms", Some((BAR_MS, LimitSide::AtMost)));
    }
    Ok(())
}

/// Times from a program's start, in milliseconds.
#[derive(Debug, Default)]
struct TakeUpTimes {
    until_main: FigureSamples,
    run: FigureSamples,
}

impl TakeUpTimes {
    fn push(&mut self, (until_main, run): (f64, f64)) {
        self.until_main.push(until_main);
        self.run.push(run);
    }

    fn medians(&self) -> (f64, f64) {
        (self.until_main.median(), self.run.median())
    }

    fn show(&self, table: &mut FigureTable, name: &str) {
        table.figure(&format!("{name}, until main"), &self.until_main, "ms");
        table.figure(&format!("{name}, until its end"), &self.run, "ms");
    }
}

#[derive(Debug, Default)]
struct Runs {
    unrecorded: TakeUpTimes,
    recorded: TakeUpTimes,
}

impl Runs {
    fn added(&self) -> (f64, f64) {
        let (without, with) = (self.unrecorded.medians(), self.recorded.medians());
        (with.0 - without.0, with.1 - without.1)
    }
}

/// Runs the program with and without the session, alternating.
fn runs(bench: &Bench, session: &MeasuredSession<'_>) -> Result<Runs, String> {
    let program = bench.programs.path("start", TargetTracer::Sordino);
    let mut runs = Runs::default();
    for _ in 0..STARTS {
        runs.unrecorded.push(run(&mut Command::new(&program))?);
        runs.recorded.push(run(&mut session.command(&program))?);
    }
    Ok(runs)
}

/// Returns the times until `main` and until the end.
fn run(command: &mut Command) -> Result<(f64, f64), String> {
    std::thread::sleep(PAUSE);
    let begin = nanoseconds(Clock::Monotonic);
    let text = output_of(command.args(["1", "main"]))?;
    let run = nanoseconds(Clock::Monotonic) - begin;
    let [main] = numbers(&text)?[..] else { return Err(format!("no time in: {text}")) };
    Ok(((main - begin as f64) / 1e6, run as f64 / 1e6))
}

/// Programs that are attached to the session and idle.
struct Others(Vec<Child>);

impl Others {
    fn start(bench: &Bench, session: &MeasuredSession<'_>) -> Result<Self, String> {
        let program = bench.programs.path("start", TargetTracer::Sordino);
        let mut others = Self(Vec::new());
        for _ in 0..OTHERS {
            let child = session.command(&program).args(["1", "stay"]).stdin(Stdio::piped()).spawn();
            others.0.push(child.map_err(|error| error.to_string())?);
        }
        let end = Instant::now() + TAKEN_UP;
        while session.programs()? < OTHERS {
            if Instant::now() > end {
                return Err(format!("{OTHERS} programs were not taken up in {TAKEN_UP:?}"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(others)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
