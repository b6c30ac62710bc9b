//! The command `sordino demo-load`, which the demo records.

use crate::Failure;
use crate::terminal::remark;
use clap::Args;
use sordino_disturb::run_demo_load;
use std::process::ExitCode;

/// Starts the programs that the demo records, and waits for npt.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// CPU on which npt runs
    #[arg(long)]
    cpu: u32,
    /// SCHED_FIFO priority of npt; 0 for an ordinary thread, and then only its page faults are planted
    #[arg(long)]
    prio: u8,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let has_succeeded = run_demo_load(options.cpu, options.prio, &remark)?;
    Ok(if has_succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
