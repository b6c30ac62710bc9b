//! Cost of a hit that a session's condition rejects.

use crate::Bench;
use crate::peers::PROGRAM_CPU;
use crate::programs::{numbers, output_of};
use crate::table::{FigureSamples, FigureTable};
use sordino_event::{Cpu, Pid, Schema, catalogue};
use sordino_filter::condition::{Condition, Context, Expression, InlineComparison};
use sordino_ring::area::control::{AttachOptions, Attached, Code, EnableMode, Program, When};
use sordino_ring::layout::Geometry;
use sordino_ring::number::{PointId, Seqno};
use std::fs::{self, File};
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Hits in a burst, and bursts in a round.
const BURST: u64 = 400_000;
const BURSTS: usize = 15;

/// Argument that has this program measure itself.
pub(crate) const HIDDEN: &str = "conditions-in-rust";

pub(crate) fn measure(bench: &Bench, table: &mut FigureTable) -> Result<(), String> {
    let myself = std::env::current_exe().map_err(|error| error.to_string())?;
    let [mut off, mut alone, mut rejected, mut recorded]: [FigureSamples; 4] = Default::default();
    for _ in 0..bench.rounds {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &PROGRAM_CPU.to_string()]).arg(&myself).arg(HIDDEN);
        let output = output_of(&mut command)?;
        let [empty, of_off, of_alone, of_rejected, of_recorded] = numbers(&output)?[..] else {
            return Err(output);
        };
        off.push(of_off - empty);
        alone.push(of_alone - empty);
        rejected.push(of_rejected - empty);
        recorded.push(of_recorded - empty);
    }
    table
        .heading("An event with two u64 and the condition 'a < 5', which does not hold, over the empty loop");
    table.figure("nobody records it", &off, "ns");
    table.figure("the comparison alone, by hand", &alone, "ns");
    table.figure("rejected by the condition", &rejected, "ns");
    table.figure("recorded, without a condition", &recorded, "ns");
    Ok(())
}

/// A session of this process that records itself, in rings that never fill up.
fn session() -> Result<(Program, Attached), String> {
    let is_area = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|link| link.as_os_str() == "/memfd:sordino (deleted)")
    };
    let files = fs::read_dir("/proc/self/fd").map_err(|error| error.to_string())?.flatten();
    let path = files.map(|file| file.path()).find(is_area).ok_or("no area")?;
    let file = File::options().read(true).write(true).open(path).map_err(|error| error.to_string())?;
    let program = Program::open(&file.into()).map_err(|refusal| refusal.to_string())?;
    let geometry = Geometry::new(1 << 20, 4).ok_or("no geometry")?.overwriting();
    let cpus: Vec<Cpu> = (0..program.cpus()).map(Cpu).collect();
    let attached = program.attach(&AttachOptions::new("bench", geometry, &cpus, Seqno(7)));
    let attached = attached.map_err(|refusal| refusal.to_string())?;
    Ok((program, attached))
}

/// Enables `bench:recorded`, and `bench:rejected` with the condition `a < 5`.
fn enable(program: &Program, attached: &mut Attached) -> Result<(), String> {
    let (points, _) = catalogue::parse(&program.catalogue(0)).map_err(|error| error.to_string())?;
    let id = |name: &str| -> Result<(PointId, &Schema), String> {
        let point = points.iter().find(|(_, schema)| schema.full_name() == name);
        point.map(|(id, schema)| (PointId(*id), schema)).ok_or_else(|| format!("no {name}"))
    };
    program.enable(attached.slot, id("bench:recorded")?.0, EnableMode::Always);
    let (id, schema) = id("bench:rejected")?;
    let expression = Expression::parse("a < 5").map_err(|invalid| invalid.to_string())?;
    let context = Context { pid: Pid(1), procname: "bench" };
    let condition = expression.compile(schema, &context).map_err(|invalid| invalid.to_string())?;
    let Condition::Code(code) = condition else { return Err("no code".to_owned()) };
    let comparison = InlineComparison::of(&code, schema).ok_or("no inline filter")?;
    let code = Code { filter: When::If(&code), trigger: When::Never };
    attached.conditions.set(id, &code).map_err(|no_room| no_room.to_string())?;
    let mode = attached.conditions.inline_filter(id, comparison.field, comparison.low, comparison.span);
    program.enable(attached.slot, id, mode);
    Ok(())
}

/// Runs a burst of hits.
#[inline(always)]
fn hit(hit: impl Fn(u64)) {
    for number in 0..BURST {
        hit(number);
        black_box(number);
    }
}

/// Evaluates the condition by hand: one of the two values is in a range of `span` values from `least` on. All three
/// parameters may change.
#[inline(always)]
fn compare(first: u64, second: u64, [which, least, span]: &[AtomicU64; 3]) {
    let value = if which.load(Relaxed) == 0 { first } else { second };
    if value.wrapping_sub(least.load(Relaxed)) <= span.load(Relaxed) {
        black_box(value);
    }
}

/// Prints the nanoseconds of an empty loop, of unrecorded hits, of the comparison alone, and of rejected and recorded
/// hits.
pub(crate) fn in_rust() -> ExitCode {
    let prepared = session().and_then(|(program, mut attached)| {
        enable(&program, &mut attached)?;
        Ok((program, attached))
    });
    let (program, attached) = match prepared {
        Ok(session) => session,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    let interval = &[0, 0, 4].map(AtomicU64::new);
    let interval = black_box(interval);
    let mut times: [Vec<f64>; 5] = Default::default();
    for _ in 0..BURSTS {
        let bursts: [&dyn Fn(); 5] = [
            &|| hit(|_| {}),
            &|| hit(|i| sordino::tracepoint!(bench:off, a: u64 = i, b: u64 = i)),
            &|| hit(|i| compare(i + 5, i, interval)),
            &|| hit(|i| sordino::tracepoint!(bench:rejected, a: u64 = i + 5, b: u64 = i)),
            &|| hit(|i| sordino::tracepoint!(bench:recorded, a: u64 = i, b: u64 = i)),
        ];
        for (times, burst) in times.iter_mut().zip(bursts) {
            let begin = Instant::now();
            burst();
            times.push(begin.elapsed().as_secs_f64() * 1e9 / BURST as f64);
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        format!("{:.3}", times[times.len() / 2])
    });
    println!("{}", medians.join(" "));
    match program.detach(&attached) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
