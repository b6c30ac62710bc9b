//! Cost of a tracepoint, recorded and not recorded.

use crate::Bench;
use crate::peers::{self, CollectorPolling, PROGRAM_CPU};
use crate::programs::{TargetTracer, numbers};
use crate::table::{FigureSamples, FigureTable, LimitSide};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Bursts of 400,000 events in a round.
const BURSTS: &str = "15";

#[derive(Default)]
struct CostFigures {
    clock: FigureSamples,
    hit: FigureSamples,
    off: FigureSamples,
    ratio: FigureSamples,
}

impl CostFigures {
    /// Nanoseconds of the empty loop, of reading the clock, of a hit, and of an unrecorded hit.
    fn push(&mut self, output: &str) -> Result<(), String> {
        let [empty, clock, hit, off] = numbers(output)?[..] else { return Err(format!("'{output}'")) };
        self.clock.push(clock);
        self.hit.push(hit);
        self.off.push(off - empty);
        self.ratio.push(hit / clock);
        Ok(())
    }
}

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let [mut c, mut rust, mut lttng] =
        [CostFigures::default(), CostFigures::default(), CostFigures::default()];
    let mut daemon = peers::lttng()?;
    let place = tempfile::tempdir().map_err(|error| error.to_string())?;
    let cpu = PROGRAM_CPU.to_string();
    let myself = std::env::current_exe().map_err(|error| error.to_string())?;
    let (in_c, with_lttng) = (
        bench.programs.path("cost", TargetTracer::Sordino),
        bench.programs.path("cost", TargetTracer::Lttng),
    );
    for round in 0..bench.rounds {
        let path = |name: &str| place.path().join(format!("{name}{round}"));
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let recorded = peers::sordino(
            &bench.programs.sordino,
            CollectorPolling::Timer,
            &path("c"),
            &[&text(&in_c), &cpu, BURSTS],
        )?;
        c.push(&recorded.output)?;
        no_loss(recorded.lost)?;
        let recorded = peers::sordino(
            &bench.programs.sordino,
            CollectorPolling::Timer,
            &path("rust"),
            &["taskset", "--cpu-list", &cpu, &text(&myself), "cost-in-rust"],
        )?;
        rust.push(&recorded.output)?;
        no_loss(recorded.lost)?;
        let session = peers::session(&mut daemon, CollectorPolling::Timer, &path("lttng"))?;
        lttng.push(&session.run(&[&text(&with_lttng), &cpu, BURSTS])?)?;
        no_loss(session.stop()?)?;
    }
    table.heading("An event with two u64, recorded, rings never full");
    table.figure("rdtsc alone, in the same loop", &c.clock, "ns");
    table.figure("sordino, from C", &c.hit, "ns");
    table.figure("sordino, from Rust", &rust.hit, "ns");
    table.figure("LTTng-UST", &lttng.hit, "ns");
    table.ratio("sordino from C / rdtsc", c.ratio.median(), Some((1.2, LimitSide::AtMost)));
    table.ratio("sordino from Rust / rdtsc", rust.ratio.median(), Some((1.2, LimitSide::AtMost)));
    table.ratio(
        "LTTng-UST / sordino from C",
        lttng.hit.median() / c.hit.median(),
        Some((7.0, LimitSide::AtLeast)),
    );
    table.ratio(
        "LTTng-UST / sordino from Rust",
        lttng.hit.median() / rust.hit.median(),
        Some((7.0, LimitSide::AtLeast)),
    );
    table.heading("An event that nobody records, over the empty loop (at most 0.5 ns)");
    table.figure("sordino, from C", &c.off, "ns");
    table.figure("sordino, from Rust", &rust.off, "ns");
    table.figure("LTTng-UST", &lttng.off, "ns");
    Ok(())
}

/// Returns an error if records were lost.
pub(crate) fn no_loss(lost: u64) -> Result<(), String> {
    if lost == 0 { Ok(()) } else { Err(format!("{lost} events were lost: the figures are of full rings")) }
}

/// Rust twin of `programs/cost.c`.
pub(crate) fn in_rust() -> ExitCode {
    const BURST: u64 = 400_000;
    let mut times: [Vec<f64>; 4] = Default::default();
    let time = |body: &dyn Fn()| {
        let begin = Instant::now();
        body();
        begin.elapsed().as_secs_f64() * 1e9 / BURST as f64
    };
    for _ in 0..BURSTS.parse().unwrap_or(15) {
        times[0].push(time(&|| (0..BURST).for_each(|i| _ = black_box(i))));
        times[1].push(time(&|| (0..BURST).for_each(|_| _ = black_box(sordino_clock::cycles()))));
        times[2].push(time(&|| {
            for i in 0..BURST {
                sordino::tracepoint!(bench:two, a: u64 = i, b: u64 = i);
                black_box(i);
            }
        }));
        times[3].push(time(&|| {
            for i in 0..BURST {
                sordino::tracepoint!(bench:off, a: u64 = i, b: u64 = i);
                black_box(i);
            }
        }));
        std::thread::sleep(Duration::from_millis(40));
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        format!("{:.3}", times[times.len() / 2])
    });
    println!("{}", medians.join(" "));
    ExitCode::SUCCESS
}
