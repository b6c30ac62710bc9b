//! The command `sordino disturb`.

use crate::Failure;
use clap::{Args, ValueEnum};
use sordino_disturb::{Disturbance, DisturbanceKind, disturb};
use sordino_quantity::duration;
use std::process::ExitCode;
use std::time::Duration;

/// Disturb a CPU at known times, to test whether your tools find the cause
///
/// Needs the right to real-time priority. The tracepoints disturb:begin and disturb:end mark the actual times.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sudo sordino disturb hog --cpu 1 --prio 95 --at 1s,2s --for 3ms")]
pub(crate) struct Options {
    /// Kind of the disturbance to plant
    #[arg(value_enum)]
    kind: DisturbanceName,
    /// CPU to disturb, by its number
    #[arg(short = 'a', long, value_name = "CPU")]
    cpu: u32,
    /// SCHED_FIFO priority of the disturbing thread, 1 to 99; must be above that of the thread to disturb
    #[arg(short, long, value_name = "PRIO", default_value_t = 95, value_parser = clap::value_parser!(u8).range(1..=99))]
    prio: u8,
    /// Times of the disturbances from the start of this command, such as 1s,2s: one disturbance at each
    #[arg(long, value_name = "TIME,...", default_value = "0s", value_delimiter = ',', value_parser = duration)]
    at: Vec<Duration>,
    /// Duration of a disturbance (kinds hog and packets), or the time within which all timers expire (kind timers)
    #[arg(long = "for", value_name = "TIME", default_value = "3ms", value_parser = duration)]
    length: Duration,
    /// Number of timers (kind timers), 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    timers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DisturbanceName {
    /// A thread that computes without a pause
    Hog,
    /// Timers that expire in a burst of interrupts
    Timers,
    /// Network packets that cause a flood of softirqs; sent from another CPU, in a network namespace of this process
    Packets,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    disturb(&Disturbance {
        kind: match options.kind {
            DisturbanceName::Hog => DisturbanceKind::Hog,
            DisturbanceName::Timers => DisturbanceKind::Timers,
            DisturbanceName::Packets => DisturbanceKind::Packets,
        },
        cpu: options.cpu,
        priority: options.prio,
        at: options.at.clone(),
        length: options.length,
        timers: options.timers,
    })?;
    Ok(ExitCode::SUCCESS)
}
