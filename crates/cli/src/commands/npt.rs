//! The command `sordino npt`.

mod arguments;
mod compare;
mod plot;
mod trigger;

use crate::Failure;
use crate::failure::{NO, UNUSABLE};
use crate::output::OutputFile;
use crate::picture::PictureFile;
use crate::progress::Progress;
use crate::signals;
use crate::terminal::{answer, has_terminal_for_errors, layout_columns, remark};
use clap::Args;
use sordino_contest::{ComparedTracer, tracer};
use sordino_npt::{
    LoopObserver, LoopPart, NptReport, Plan, ROW_TITLES, Sink, Trial, Unit, frequency, lift_throttle_for,
};
use sordino_quantity::duration;
use sordino_report::table;
use sordino_sched::{CpuList, Policy};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure how long a busy real-time thread is interrupted: the Non-Preempt Test
///
/// Pins a thread to a CPU, gives it SCHED_FIFO, locks its memory, and has it read the clock in a loop as fast as it
/// can. Whatever interrupts the thread shows as a gap between two readings. Each loop hits (executes) the tracepoint
/// npt:loop, so 'sordino record' shows the cause of each gap, and the cost of a tracer can be measured. Without any
/// tracing, the kernel's counters name the interrupts and threads that came in between.
///
/// As root, the kernel's limit on real-time threads (sched_rt_runtime_us) is lifted during the measurement, unless all
/// CPUs are measured; otherwise it stops the thread for 50 ms in each second. Ctrl-C ends the measurement and reports
/// what was measured until then.
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
    /// Measure these CPUs, such as 1-3,5, all at once with one thread each [default: the last CPU of 'sordino shield',
    /// or else the last on which this process may run]
    #[arg(short = 'a', long, visible_alias = "affinity", value_name = "CPUS")]
    cpu: Option<CpuList>,
    /// SCHED_FIFO priority of the thread, 1 to 99; 0 for an ordinary thread
    #[arg(short, long, value_name = "PRIO", default_value_t = 90, value_parser = clap::value_parser!(u8).range(0..=99))]
    prio: u8,
    /// Number of loops (readings of the clock) to measure [default: 10,000,000; no limit if --duration is given]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,
    /// Stop after this time, such as 500ms, 10s or 7days [default: no limit; --loops ends the measurement]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Number of loops that warm up caches before the measurement begins
    #[arg(short = 'n', long, visible_alias = "nocount", value_name = "N", default_value_t = 1000)]
    warm_up: u64,
    /// An option of the papers' npt, for old scripts: the cycle counter's frequency is always measured
    #[arg(short, long, hide = true)]
    eval_cpu_speed: bool,
    /// An option of the papers' npt, for old scripts: interrupts are enabled unless --interrupts-off is given
    #[arg(short = 'i', long, hide = true, conflicts_with = "interrupts_off")]
    allow_interrupts: bool,
    /// Measure with interrupts disabled, one millisecond at a time; needs root and the kernel module of
    /// crates/machine/npt/module in sordino's sources
    #[arg(long, conflicts_with_all = ["body", "sink", "max_frequency", "trace_window", "wait_window", "pace", "faults_at", "trigger", "warm_up"])]
    interrupts_off: bool,
    /// Work of each loop besides reading the clock: 'empty', or a comma-separated list of 'tracepoint' (executes
    /// npt:loop) and one of 'memory[=SIZE]' (writes to each cache line of SIZE, 128K unless given) and 'syscall'
    /// (getppid)
    #[arg(long, value_name = "PARTS", value_delimiter = ',', default_value = "tracepoint")]
    body: Vec<LoopPart>,
    /// Leave the tracepoint out of the loop, as --body empty does
    #[arg(long, conflicts_with = "body")]
    no_tracepoint: bool,
    /// Tracer whose tracepoint each loop executes: sordino, lttng, usdt (for bpftrace and others), or
    /// trace_marker[=FILE] (a write to ftrace's file)
    #[arg(long, value_name = "TRACER", default_value = "sordino")]
    sink: Sink,
    /// Execute the tracepoint at most this often, in times per second, such as 1000 or 2.5e6; other loops skip it
    /// [default: execute it in each loop]
    #[arg(short = 'f', long, visible_alias = "max-freq", value_name = "HZ", value_parser = frequency)]
    max_frequency: Option<f64>,
    /// Alternate between measuring for this time, such as 100ms, and a pause of --wait-window, which is not measured
    /// [default: measure without pauses]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait_window")]
    trace_window: Option<Duration>,
    /// Length of the pause after each --trace-window, such as 10ms, in which a tracer can empty its buffers
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "trace_window")]
    wait_window: Option<Duration>,
    /// Minimum time of one loop, such as 1us: the thread reads the clock until it has passed. Limits the number of
    /// events per second; 0s loops as fast as possible
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pace: Duration,
    /// Cause 256 page faults at each of these times after the first loop, such as 1s,2s, as a known disturbance for a
    /// tracer to find
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = duration)]
    faults_at: Vec<Duration>,
    /// Exit with status 1 if a gap, the time between two readings of the clock, was longer than this, such as 50us
    #[arg(long, value_name = "TIME", value_parser = duration)]
    max_gap: Option<Duration>,
    /// Stop at the first gap (time between two readings of the clock) of at least this length on any CPU, such as 50us,
    /// and explain it from a trace of the loop and, as root, of the kernel
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["output", "max_gap"])]
    trigger: Option<Duration>,
    /// Directory for the trace of --trigger, new or empty [default: sordino-YYYYMMDD-HHMMSS in the current directory]
    #[arg(long, value_name = "DIR")]
    trigger_output: Option<PathBuf>,
    #[arg(long, value_name = "TIME", value_parser = duration, hide = true)]
    end_at: Option<Duration>,
    /// End when the process ends that started this one.
    #[arg(long, hide = true)]
    bound: bool,
    /// Compare the cost of these tracers, separated by commas, by running the loop under each in turn, in several
    /// rounds: untraced, sordino-timer, sordino-wakeup, sordino-busy, lttng-timer, lttng-wakeup, usdt
    ///
    /// untraced runs no tracer. The suffix of the others is the way in which their recorder notices full buffers: it
    /// checks by a timer, is woken by the program (wakeup), or checks without a pause (busy).
    #[arg(long, value_name = "TRACERS", value_parser = tracer, value_delimiter = ',', conflicts_with_all = ["trigger", "find_max_rate", "interrupts_off", "no_tracepoint", "body", "sink", "loops", "max_gap", "faults_at"])]
    compare: Vec<ComparedTracer>,
    /// Number of rounds of --compare, 1 to 1000 [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Draw the distribution of each CPU's gaps (times between two readings of the clock), or the results of --compare,
    /// into this file, replaced if it exists; its ending, .svg or .png, is its format
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trigger", "find_max_rate"])]
    plot: Option<PathBuf>,
    /// Search for the highest rate of events without a lost one, of sordino and LTTng, with and without kernel events
    #[arg(long, conflicts_with_all = ["trigger", "interrupts_off", "no_tracepoint", "body", "sink", "loops", "max_gap", "faults_at", "max_frequency", "trace_window", "wait_window", "pace", "warm_up"])]
    find_max_rate: bool,
    /// Also write the report and the complete histogram to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print all times in nanoseconds [default: each in the unit that fits; in the file of --output, in microseconds]
    #[arg(long, conflicts_with = "picoseconds")]
    nanoseconds: bool,
    /// Print all times in picoseconds
    #[arg(long)]
    picoseconds: bool,
    /// Print the report as JSON, with all measured values; in the file of --output, too
    #[arg(long)]
    json: bool,
    /// Print the settings of the measurement before it begins
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

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.bound {
        sordino_guard::bind()?;
    }
    for (is_given, option, reason) in [
        (options.eval_cpu_speed, "--eval-cpu-speed", "the cycle counter's frequency is always measured"),
        (
            options.allow_interrupts,
            "--allow-interrupts",
            "interrupts are enabled unless --interrupts-off is given",
        ),
    ] {
        if is_given {
            message!("sordino: {option} has no effect: {reason}");
        }
    }
    // clap's `requires` does not do it: it is ignored if the required option conflicts with another one that is given.
    if options.trigger.is_none() && options.trigger_output.is_some() {
        return Err(contradiction("--trigger-output is the directory of --trigger: give both"));
    }
    if options.compare.is_empty() && options.rounds.is_some() {
        return Err(contradiction("--rounds is an option of --compare: give that, too"));
    }
    if options.plot.is_some() && options.plot == options.output {
        return Err(contradiction("--plot and --output name the same file"));
    }
    if let Some(gap) = options.trigger {
        return trigger::run(options, gap);
    }
    if !options.compare.is_empty() {
        return compare::run(options, &options.compare);
    }
    if options.find_max_rate {
        return compare::find_max_rate(options);
    }
    let mut output = OutputFile::of("--output", options.output.as_ref())?;
    let mut plot = PictureFile::of("--plot", options.plot.as_ref())?;
    let (cpus, plan) = arguments::plan(options)?;
    let report = measure(options, &cpus, &plan)?;
    let table = |rows: &[_]| table(&ROW_TITLES, rows, layout_columns());
    let text = if options.json { report.json() } else { report.text(options.unit(), &table) };
    answer(&text, options.json)?;
    if let Some(output) = &mut output {
        output.write_copy(&if options.json { text } else { report.file(options.unit(), &table) })?;
    }
    if let Some(plot) = &mut plot {
        plot.write(&plot::gaps(&report))?;
    }
    Ok(verdict(options, &report))
}

/// Measures `cpus` as planned, until the end or Ctrl-C.
fn measure(options: &Options, cpus: &CpuList, plan: &Plan) -> Result<NptReport, Failure> {
    let stop = signals::stop()?;
    let held = if plan.policy == Policy::Other { None } else { lift_throttle_for(cpus, &remark)? };
    for &cpu in cpus.as_slice() {
        sordino_shield::go_to(Some(cpu), &remark)?;
    }
    let trial = Trial { cpus, plan, sink: &options.sink, interrupts_off: options.interrupts_off };
    if options.verbose {
        trial.settings(held.is_some()).iter().for_each(|line| remark(line));
    }
    let progress = Progress::new(!has_terminal_for_errors());
    let report = trial.run(stop.as_fd(), &mut LoopProgress(progress))?;
    drop(held);
    Ok(report)
}

/// The progress of a measurement, as the loop reports it.
struct LoopProgress(Progress);

impl LoopObserver for LoopProgress {
    fn doing(&mut self, what: String) {
        self.0.doing(what);
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn remark(&self, text: &str) {
        remark(text);
    }
}

fn verdict(options: &Options, report: &NptReport) -> ExitCode {
    let Some(limit) = options.max_gap else { return ExitCode::SUCCESS };
    let mut code = ExitCode::SUCCESS;
    for (cpu, longest) in report.longest().filter(|(_, longest)| *longest > limit.as_nanos() as f64) {
        let longest = options.unit().time(longest);
        message!(
            "sordino: CPU {cpu}: the longest gap, {longest}, is longer than --max-gap {}",
            sordino_quantity::typed(limit)
        );
        code = ExitCode::from(NO);
    }
    code
}

/// A failure for a combination of options that makes no sense.
fn contradiction(text: &str) -> Failure {
    Failure::new(UNUSABLE, text)
}
