//! The options of `sordino npt`.

use crate::Failure;
use crate::failure::UNUSABLE;
use clap::Args;
use sordino_contest::{ComparedTracer, tracer};
use sordino_npt::{LoopPart, Sink, Unit, frequency};
use sordino_quantity::duration;
use sordino_sched::CpuList;
use std::path::PathBuf;
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
    pub(super) cpu: Option<CpuList>,
    /// SCHED_FIFO priority of the thread, 1 to 99; 0 for an ordinary thread
    #[arg(short, long, value_name = "PRIO", default_value_t = 90, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub(super) prio: u8,
    /// Number of loops (readings of the clock) to measure [default: 10,000,000; no limit if --duration is given]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) loops: Option<u64>,
    /// Stop after this time, such as 500ms, 10s or 7days [default: no limit; --loops ends the measurement]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub(super) duration: Option<Duration>,
    /// Number of loops that warm up caches before the measurement begins
    #[arg(short = 'n', long, visible_alias = "nocount", value_name = "N", default_value_t = 1000)]
    pub(super) warm_up: u64,
    /// An option of the papers' npt, for old scripts: the cycle counter's frequency is always measured
    #[arg(short, long, hide = true)]
    pub(super) eval_cpu_speed: bool,
    /// An option of the papers' npt, for old scripts: interrupts are enabled unless --interrupts-off is given
    #[arg(short = 'i', long, hide = true, conflicts_with = "interrupts_off")]
    pub(super) allow_interrupts: bool,
    /// Measure with interrupts disabled, one millisecond at a time; needs root and the kernel module sordino_npt, which
    /// packages do not contain: it is built from sordino's sources (docs/npt.md, "With interrupts disabled")
    #[arg(long, conflicts_with_all = ["body", "sink", "max_frequency", "trace_window", "wait_window", "pace", "faults_at", "trigger", "warm_up"])]
    pub(super) interrupts_off: bool,
    /// Work of each loop besides reading the clock: 'empty', or, separated by commas, 'tracepoint' (executes npt:loop)
    /// and one of 'memory[=SIZE]' (writes each cache line of SIZE, 128K unless given) and 'syscall' (getppid)
    #[arg(long, value_name = "PARTS", value_delimiter = ',', default_value = "tracepoint")]
    pub(super) body: Vec<LoopPart>,
    /// Leave the tracepoint out of the loop, as --body empty does
    #[arg(long, conflicts_with = "body")]
    pub(super) no_tracepoint: bool,
    /// Tracer whose tracepoint each loop executes: sordino, lttng, usdt (for bpftrace and others), or
    /// trace_marker[=FILE] (a write to ftrace's file)
    #[arg(long, value_name = "TRACER", default_value = "sordino")]
    pub(super) sink: Sink,
    /// Execute the tracepoint at most this often, in times per second, such as 1000 or 2.5e6; other loops skip it
    /// [default: execute it in each loop]
    #[arg(short = 'f', long, visible_alias = "max-freq", value_name = "HZ", value_parser = frequency)]
    pub(super) max_frequency: Option<f64>,
    /// Alternate between measuring for this time, such as 100ms, and a pause of --wait-window, which is not measured
    /// [default: measure without pauses]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait_window")]
    pub(super) trace_window: Option<Duration>,
    /// Length of the pause after each --trace-window, such as 10ms, in which a tracer can empty its buffers
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "trace_window")]
    pub(super) wait_window: Option<Duration>,
    /// Minimum time of one loop, such as 1us: the thread reads the clock until it has passed. Limits the number of
    /// events per second; 0s loops as fast as possible
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub(super) pace: Duration,
    /// Cause 256 page faults at each of these times after the first loop, such as 1s,2s: a known disturbance to find
    #[arg(long, value_name = "TIME,...", value_delimiter = ',', value_parser = duration)]
    pub(super) faults_at: Vec<Duration>,
    /// Exit with status 1 if a gap, the time between two readings of the clock, was longer than this, such as 50us
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) max_gap: Option<Duration>,
    /// Stop at the first gap (time between two readings of the clock) of at least this length on any CPU, such as 50us,
    /// and explain it from a trace of the loop and, as root, of the kernel
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["output", "max_gap"])]
    pub(super) trigger: Option<Duration>,
    /// Directory for the trace of --trigger, new or empty [default: sordino-YYYYMMDD-HHMMSS in the current directory]
    #[arg(long, value_name = "DIR")]
    pub(super) trigger_output: Option<PathBuf>,
    #[arg(long, value_name = "TIME", value_parser = duration, hide = true)]
    pub(super) end_at: Option<Duration>,
    /// End together with the process that started this one.
    #[arg(long, hide = true)]
    pub(super) bound: bool,
    /// Compare the cost of these tracers, separated by commas, by running the loop under each in turn, in several
    /// rounds: untraced, sordino-timer, sordino-wakeup, sordino-busy, lttng-timer, lttng-wakeup, usdt
    ///
    /// untraced runs no tracer. The suffix of the others is the way in which their recorder notices full buffers: it
    /// checks by a timer, is woken by the program (wakeup), or checks without a pause (busy).
    #[arg(long, value_name = "TRACERS", value_parser = tracer, value_delimiter = ',', conflicts_with_all = ["trigger", "find_max_rate", "interrupts_off", "no_tracepoint", "body", "sink", "loops", "max_gap", "faults_at"])]
    pub(super) compare: Vec<ComparedTracer>,
    /// Number of rounds of --compare, 1 to 1000 [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: Option<u32>,
    /// Draw the distribution of each CPU's gaps (times between two readings of the clock), or the results of --compare,
    /// into this file, replaced if it exists; its ending, .svg or .png, is its format
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trigger", "find_max_rate"])]
    pub(super) plot: Option<PathBuf>,
    /// Search for the highest rate of events without a lost one, of sordino and LTTng, with and without kernel events
    #[arg(long, conflicts_with_all = ["trigger", "interrupts_off", "no_tracepoint", "body", "sink", "loops", "max_gap", "faults_at", "max_frequency", "trace_window", "wait_window", "pace", "warm_up"])]
    pub(super) find_max_rate: bool,
    /// Also write the report and the complete histogram to this file
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Print all times in nanoseconds [default: each in the unit that fits; in the file of --output, in microseconds]
    #[arg(long, conflicts_with = "picoseconds")]
    pub(super) nanoseconds: bool,
    /// Print all times in picoseconds
    #[arg(long)]
    pub(super) picoseconds: bool,
    /// Print the report as JSON, with all measured values; in the file of --output, too
    #[arg(long)]
    pub(super) json: bool,
    /// Print the settings of the measurement before it begins
    #[arg(short, long)]
    pub(super) verbose: bool,
}

impl Options {
    pub(super) fn unit(&self) -> Unit {
        match (self.nanoseconds, self.picoseconds) {
            (true, _) => Unit::Nanoseconds,
            (_, true) => Unit::Picoseconds,
            _ => Unit::Fitting,
        }
    }
}

/// The failure for a combination of options that has no meaning.
pub(super) fn contradiction(text: &str) -> Failure {
    Failure::new(UNUSABLE, text)
}
