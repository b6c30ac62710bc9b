//! `sordino npt`

mod arguments;
mod compare;
mod marker;
mod max_rate;
mod output;
mod plot;
mod report;
mod run;
mod scratch;
mod tracers;
mod trigger;

pub(crate) use run::lift_throttle;

use crate::Failure;
use crate::arguments::duration;
use crate::failure::{NO, UNUSABLE};
use crate::terminal::answer;
use arguments::{Part, Sink, body, frequency, sink};
use clap::Args;
use output::Output;
use report::Report;
use rustix::process::{Signal, set_parent_process_death_signal};
use sordino_npt::Unit;
use sordino_sched::CpuList;
use std::fs;
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tracers::{Tracer, tracer};

/// Measure for how long a thread is stopped that should never be: the Non-Preempt Test
///
/// Pins a thread to a CPU, gives it SCHED_FIFO, locks its memory, and has it read the clock as often as it can. What
/// stops it shows as a gap between two readings. Each loop hits the tracepoint npt:loop, so that 'sordino record' shows
/// what caused each gap, and that what a tracer costs can be measured. What the kernel counts meanwhile says who
/// interrupted, without any tracing.
///
/// As root, the kernel's limit on real-time threads (sched_rt_runtime_us) is lifted meanwhile, unless all CPUs are measured;
/// otherwise it would stop the thread for 50 ms in each second. Ctrl-C ends it with what was measured.
///
/// Exit status: 1 if a gap was longer than --max-gap, or reached --trigger; 2 if nothing could be measured.
#[derive(Args, Debug)]
#[command(
    version,
    after_help = "\
Examples:
  sudo sordino npt -a 1
  sudo sordino npt -a 1-3 -d 7days --max-gap 50us -o report
  sudo sordino npt -a 1 -d 10s --body memory=256K
  sudo sordino npt -a 1 -d 1h --trigger 50us
  sudo sordino npt -a 1 --plot gaps.svg \\
      --compare untraced,sordino-timer,lttng-timer,lttng-wakeup
  sudo sordino npt -a 1 --find-max-rate
  sudo sordino record --kernel sched,irq,irq_vectors -- \\
      sordino npt -a 1 --pace 1us -d 5s"
)]
pub(crate) struct Options {
    /// The CPUs to measure, each with a loop of its own, all at once [default: the last one that is shielded, or that this process
    /// may run on]
    #[arg(short = 'a', long, visible_alias = "affinity", value_name = "CPUS")]
    cpu: Option<CpuList>,
    /// SCHED_FIFO priority; 0 for an ordinary thread
    #[arg(short, long, value_name = "PRIO", default_value_t = 90, value_parser = clap::value_parser!(u8).range(0..=99))]
    prio: u8,
    /// Loops to measure [default: 10,000,000; no limit with --duration]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,
    /// End after this time, from nanoseconds to days
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Loops before those that count
    #[arg(short = 'n', long, visible_alias = "nocount", value_name = "N", default_value_t = 1000)]
    warm_up: u64,
    /// Measure the cycle counter's rate, on a CPU that is busy: always done, /proc/cpuinfo is only reported
    #[arg(short, long)]
    eval_cpu_speed: bool,
    /// Let interrupts come: always done without --interrupts-off
    #[arg(short = 'i', long, conflicts_with = "interrupts_off")]
    allow_interrupts: bool,
    /// Measure with interrupts disabled, a millisecond at a time: needs the kernel module of crates/npt/module
    #[arg(long, conflicts_with_all = ["body", "sink", "max_frequency", "trace_window", "wait_window", "pace", "faults_at", "trigger", "warm_up"])]
    interrupts_off: bool,
    /// What each loop does: empty, or memory[=SIZE] (writes to each cache line), syscall (getppid) and tracepoint, with commas
    #[arg(long, value_name = "PARTS", value_parser = body, value_delimiter = ',', default_value = "tracepoint")]
    body: Vec<Part>,
    /// Leave the tracepoint out of the loop: --body empty
    #[arg(long, conflicts_with = "body")]
    no_tracepoint: bool,
    /// Whose tracepoint it is: sordino, lttng, usdt (for bpftrace and others), or trace_marker[=FILE] (ftrace's)
    #[arg(long, value_name = "TRACER", value_parser = sink, default_value = "sordino")]
    sink: Sink,
    /// Hit the tracepoint so often in a second at most; other loops leave it out
    #[arg(short = 'f', long, visible_alias = "max-freq", value_name = "HZ", value_parser = frequency)]
    max_frequency: Option<f64>,
    /// Hit the tracepoint for this time, then wait for --wait-window, over and over; what the loop waits does not count
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait_window")]
    trace_window: Option<Duration>,
    /// How long the loop waits after --trace-window, so that a tracer comes to empty its buffers
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "trace_window")]
    wait_window: Option<Duration>,
    /// The least time of a loop: it reads the clock until it has passed
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pace: Duration,
    /// Touch a megabyte of new memory, so long after the first loop: a disturbance that should be found
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = duration)]
    faults_at: Vec<Duration>,
    /// Exit with 1 if a gap was longer than this
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_gap: Option<Duration>,
    /// End with the first gap of at least this, on whichever CPU, and explain it: records itself and, as root, the kernel meanwhile
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["output", "max_gap"])]
    trigger: Option<Duration>,
    /// Where --trigger records to: a new or empty directory [default: sordino- and the time, here]
    #[arg(long, value_name = "DIR")]
    trigger_output: Option<PathBuf>,
    #[arg(long, value_name = "TIME", value_parser = duration, hide = true)]
    end_at: Option<Duration>,
    /// End with who started it
    #[arg(long, hide = true)]
    bound: bool,
    /// Record the loop with one of these tracers after the other, in rounds, and compare: untraced, sordino-timer, sordino-wakeup,
    /// sordino-busy, lttng-timer, lttng-wakeup, usdt
    #[arg(long, value_name = "TRACERS", value_parser = tracer, value_delimiter = ',', conflicts_with_all = ["trigger", "find_max_rate", "interrupts_off", "no_tracepoint", "body", "sink", "loops", "max_gap", "faults_at"])]
    compare: Vec<Tracer>,
    /// How many rounds --compare makes [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Draw what --compare measured into this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Search the highest tracepoint frequency without a lost event: of sordino and LTTng, with the kernel's events and without
    #[arg(long, conflicts_with_all = ["trigger", "interrupts_off", "no_tracepoint", "body", "sink", "loops", "max_gap", "faults_at", "max_frequency", "trace_window", "wait_window", "pace", "warm_up"])]
    find_max_rate: bool,
    /// Write the report and the whole histogram to this file, too
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// All times in nanoseconds [default: in the unit that fits; the file's in microseconds]
    #[arg(long, conflicts_with = "picoseconds")]
    nanoseconds: bool,
    /// All times in picoseconds
    #[arg(long)]
    picoseconds: bool,
    /// As JSON, with all that is known; the file, too
    #[arg(long)]
    json: bool,
    /// Say what is set and measured before the loop begins
    #[arg(short, long)]
    verbose: bool,
}

impl Options {
    fn unit(&self) -> Unit {
        match (self.nanoseconds, self.picoseconds) {
            (true, _) => Unit::Nanoseconds,
            (_, true) => Unit::Picoseconds,
            _ => Unit::Fitting,
        }
    }
}

/// Has this process end with the one that started it, which is sordino, too.
fn bind() -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // That may have ended before; another user may see no more of it than its name.
    let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let is_there = name(parent_id()) == name(std::process::id());
    if is_there { Ok(()) } else { Err(Failure::new(UNUSABLE, "what started this loop has ended")) }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.bound {
        bind()?;
    }
    // Not clap's `requires`: that overlooks it where what is required conflicts with something else that is given.
    if options.trigger.is_none() && options.trigger_output.is_some() {
        return Err(contradiction("--trigger-output is where --trigger records to: give both"));
    }
    if options.compare.is_empty() && (options.rounds.is_some() || options.plot.is_some()) {
        return Err(contradiction("--rounds and --plot are about --compare: give that, too"));
    }
    if let Some(gap) = options.trigger {
        return trigger::run(options, gap);
    }
    if !options.compare.is_empty() {
        return compare::run(options, &options.compare);
    }
    if options.find_max_rate {
        return max_rate::run(options);
    }
    let mut output = Output::of(options.output.as_ref())?;
    let (cpus, plan) = arguments::plan(options)?;
    let report = run::measure(options, &cpus, &plan)?;
    let text = if options.json { report.json() } else { report.text(options.unit()) };
    answer(&text, options.json)?;
    if let Some(output) = &mut output {
        output.write(&if options.json { text } else { report.file(options.unit()) })?;
    }
    Ok(verdict(options, &report))
}

fn verdict(options: &Options, report: &Report) -> ExitCode {
    let Some(limit) = options.max_gap else { return ExitCode::SUCCESS };
    let mut code = ExitCode::SUCCESS;
    for (cpu, longest) in report.longest().filter(|(_, longest)| *longest > limit.as_nanos() as f64) {
        let longest = options.unit().time(longest);
        message!(
            "sordino: CPU {cpu}: the longest gap, {longest}, is longer than --max-gap {}",
            humantime::format_duration(limit)
        );
        code = ExitCode::from(NO);
    }
    code
}

/// What a combination of options that makes no sense is answered with.
fn contradiction(text: &str) -> Failure {
    Failure::new(UNUSABLE, text)
}
