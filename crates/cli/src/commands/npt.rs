//! `sordino npt`

mod trigger;

use crate::Failure;
use crate::arguments::duration;
use crate::commands::{guard, shield};
use crate::failure::UNUSABLE;
use crate::privilege::is_root;
use clap::Args;
use serde_json::json;
use sordino_npt::{Measured, Plan, Statistics, histogram_text, run as measure, statistics_text};
use sordino_sched::{CpuList, Lock, Policy};
use sordino_undo::{Guardian, Step};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Measure for how long a thread is stopped that should never be: the Non-Preempt Test
///
/// Pins a thread to a CPU, gives it SCHED_FIFO, locks its memory, and has it read the clock as often as it can. What
/// stops it shows as a gap between two readings. Each loop hits the tracepoint npt:loop, so that 'sordino record' shows
/// what caused each gap, and that what a tracer costs can be measured.
///
/// As root, the kernel's limit on real-time threads (sched_rt_runtime_us) is lifted meanwhile; otherwise it would stop the
/// thread for 50 ms in each second.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sudo sordino npt --cpu 1
  sudo sordino npt --cpu 1 --duration 10s --no-tracepoint
  sudo sordino npt --cpu 1 --duration 1h --trigger 50us
  sudo sordino record --kernel sched,irq,irq_vectors -- sordino npt --cpu 1 --pace 1us --duration 5s")]
pub(crate) struct Options {
    /// The CPU to measure [default: the last one that is shielded, or that this process may run on]
    #[arg(short = 'a', long, value_name = "CPU")]
    cpu: Option<u32>,
    /// SCHED_FIFO priority; 0 for an ordinary thread
    #[arg(short, long, value_name = "PRIO", default_value_t = 90, value_parser = clap::value_parser!(u8).range(0..=99))]
    prio: u8,
    /// Loops to measure [default: 10,000,000; no limit with --duration]
    #[arg(short, long, value_name = "N")]
    loops: Option<u64>,
    /// End after this time
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Loops before those that count
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000)]
    warm_up: u64,
    /// Leave the tracepoint out of the loop
    #[arg(long)]
    no_tracepoint: bool,
    /// The least time of a loop: it reads the clock until it has passed
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pace: Duration,
    /// Touch a megabyte of new memory, so long after the first loop: a disturbance that should be found
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = duration)]
    faults_at: Vec<Duration>,
    /// End with the first gap of at least this, and explain it: records itself and, as root, the kernel meanwhile
    #[arg(long, value_name = "TIME", value_parser = duration)]
    trigger: Option<Duration>,
    /// Where --trigger records to: a new or empty directory [default: sordino- and the time, here]
    #[arg(short, long, value_name = "DIR", requires = "trigger")]
    output: Option<PathBuf>,
    #[arg(long, value_name = "TIME", value_parser = duration, hide = true)]
    end_at: Option<Duration>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Stops a real-time thread that runs for longer than this of each second; -1: none.
const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(gap) = options.trigger {
        return trigger::run(options, gap);
    }
    let plan = plan(options)?;
    let held = if plan.policy == Policy::Other { None } else { lift_throttle()? };
    shield::go_to(plan.cpu)?;
    let measured = measure(&plan)?;
    drop(held);
    let statistics = Statistics::of(&measured);
    let text = if options.json {
        as_json(&plan, &measured, &statistics)
    } else {
        as_text(&plan, &measured, &statistics)
    };
    crate::commands::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn plan(options: &Options) -> Result<Plan, Failure> {
    let cpu = options.cpu.map_or_else(shield::measured_cpu, |cpu| Ok(Some(cpu)))?;
    let online = CpuList::online()?;
    if let Some(cpu) = cpu.filter(|cpu| !online.contains(*cpu)) {
        return Err(Failure::new(UNUSABLE, format!("CPU {cpu} is not online; online are {online}")));
    }
    let mut policy = if options.prio == 0 { Policy::Other } else { Policy::Fifo(options.prio) };
    if policy != Policy::Other && !may_be_real_time(options.prio) {
        eprintln!(
            "sordino: no right to real-time priority: measuring an ordinary thread (run as root, or raise ulimit -r)"
        );
        policy = Policy::Other;
    }
    let unlimited = options.duration.is_some();
    Ok(Plan {
        cpu,
        policy,
        lock_memory: may_lock_memory(),
        loops: options.loops.unwrap_or(if unlimited { u64::MAX } else { 10_000_000 }),
        duration: options.duration,
        warm_up: options.warm_up,
        tracepoint: !options.no_tracepoint,
        pace: options.pace,
        end_at: options.end_at,
        faults_at: options.faults_at.clone(),
        ..Plan::default()
    })
}

/// Tries it.
fn may_lock_memory() -> bool {
    let result = sordino_sched::lock_memory(Lock::All);
    if let Err(error) = &result {
        eprintln!(
            "sordino: memory stays unlocked, page faults may show: {error} (run as root, or raise ulimit -l)"
        );
    }
    result.is_ok()
}

/// Tries on a thread of its own.
fn may_be_real_time(priority: u8) -> bool {
    let try_it = std::thread::spawn(move || sordino_sched::set_policy(Policy::Fifo(priority)).is_ok());
    try_it.join().unwrap_or(false)
}

/// Lifts the kernel's limit; whoever holds the result keeps it lifted.
pub(crate) fn lift_throttle() -> Result<Option<Guardian>, Failure> {
    let now = std::fs::read_to_string(THROTTLE).unwrap_or_default();
    if now.trim() == "-1" || now.is_empty() {
        return Ok(None);
    }
    if !is_root() {
        eprintln!(
            "sordino: {THROTTLE} is {}: gaps of up to 50 ms in each second are its doing (run as root)",
            now.trim()
        );
        return Ok(None);
    }
    let mut guardian = guard::start()?;
    guardian.add(Step::restore(THROTTLE)?)?;
    Step::write(Path::new(THROTTLE), b"-1")?;
    Ok(Some(guardian))
}

fn as_text(plan: &Plan, measured: &Measured, statistics: &Statistics) -> String {
    format!("npt: {plan}\n{}\n{}", statistics_text(statistics), histogram_text(measured))
}

fn as_json(plan: &Plan, measured: &Measured, statistics: &Statistics) -> String {
    let buckets = measured.histogram.buckets().map(|bucket| json!([bucket.low, bucket.high, bucket.count]));
    let gaps = measured
        .gaps
        .iter()
        .map(|gap| json!({ "end_cycles": gap.end, "gap_ns": measured.rate.nanoseconds(gap.cycles) }));
    let value = json!({
        "schema": 1,
        "plan": plan.to_string(),
        "statistics": statistics,
        "histogram_cycles": buckets.collect::<Vec<_>>(),
        "noted_gaps": gaps.collect::<Vec<_>>(),
    });
    value.to_string() + "\n"
}
