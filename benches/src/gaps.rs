//! Gaps that a tracer adds to a real-time loop.

use crate::Bench;
use crate::knob::FileOverride;
use crate::peers::{self, CollectorPolling, PROGRAM_CPU};
use crate::programs::{TargetTracer, numbers, output_of};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::fs;
use std::process::Command;

/// Bursts of 500,000 loops in a round.
const BURSTS: &str = "20";
const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

#[derive(Default)]
struct GapFigures([FigureSamples; 7]);

const NAMES: [&str; 7] = ["p50", "p99", "p99.9", "p99.99", "p99.999", "over 1 us", "longest"];

impl GapFigures {
    fn push(&mut self, output: &str) -> Result<(), String> {
        let numbers = numbers(output)?;
        if numbers.len() != self.0.len() {
            return Err(format!("'{output}'"));
        }
        self.0.iter_mut().zip(numbers).for_each(|(samples, number)| samples.push(number));
        Ok(())
    }

    fn median(&self, name: &str) -> f64 {
        NAMES
            .iter()
            .zip(&self.0)
            .find(|(known, _)| **known == name)
            .map_or(f64::NAN, |(_, samples)| samples.median())
    }
}

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let unthrottled = FileOverride::hold(bench, THROTTLE, "-1")?;
    let [mut untraced, mut sordino, mut lttng] =
        [GapFigures::default(), GapFigures::default(), GapFigures::default()];
    let mut daemon = peers::lttng()?;
    let place = tempfile::tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let cpu = PROGRAM_CPU.to_string();
    let program = |tracer| bench.programs.path("gaps", tracer).to_string_lossy().into_owned();
    let (mut lost_here, mut lost_there) = (0, 0);
    for round in 0..bench.rounds {
        let path = |name: &str| place.path().join(format!("{name}{round}"));
        let plain = program(TargetTracer::None);
        untraced.push(&output_of(Command::new(plain).args([&cpu, BURSTS]))?)?;
        let recorded = peers::sordino(
            &bench.programs.sordino,
            CollectorPolling::Timer,
            &path("s"),
            &[&program(TargetTracer::Sordino), &cpu, BURSTS],
        )?;
        sordino.push(&recorded.output)?;
        lost_here += recorded.lost;
        let session = peers::session(&mut daemon, CollectorPolling::Timer, &path("l"))?;
        lttng.push(&session.run(&[&program(TargetTracer::Lttng), &cpu, BURSTS])?)?;
        lost_there += session.stop()?;
        for name in ["s", "l"] {
            let _ = fs::remove_dir_all(path(name));
        }
    }
    unthrottled.restore()?;
    table.heading("Gaps between loops of a SCHED_FIFO thread with a tracepoint in each");
    for (figures, who) in [(&untraced, "untraced"), (&sordino, "sordino"), (&lttng, "LTTng-UST")] {
        for (name, samples) in NAMES.iter().zip(&figures.0) {
            let unit = if *name == "over 1 us" { "per 10^6" } else { "ns" };
            table.figure(&format!("{who}, {name}"), samples, unit);
        }
    }
    let added = |name: &str| {
        let base = untraced.median(name);
        (sordino.median(name) - base) / (lttng.median(name) - base)
    };
    table.ratio("added at p99.99: sordino / LTTng-UST", added("p99.99"), Some((0.25, LimitSide::AtMost)));
    table.ratio(
        "added gaps over 1 us: sordino / LTTng-UST",
        added("over 1 us"),
        Some((0.5, LimitSide::AtMost)),
    );
    if lost_here + lost_there > 0 {
        table.missing(
            "gaps of rings that are never full",
            &format!("lost: sordino {lost_here}, LTTng-UST {lost_there}"),
        );
    }
    Ok(())
}
