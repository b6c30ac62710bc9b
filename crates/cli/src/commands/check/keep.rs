//! The command `sordino keep`: the keeper between a check and a program that it runs.

use crate::Failure;
use crate::failure::NOT_FOUND;
use crate::signals;
use clap::Args;
use sordino_check::{Error, Keeper, become_bound};
use sordino_sched::CpuList;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs a command, and ends it with all processes that it started, on request or when its parent is gone.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Process whose end also ends the command
    #[arg(long)]
    parent: i32,
    /// CPUs on which the command runs, outside of a shield
    #[arg(long)]
    cpus: Option<CpuList>,
    /// Start the command again each time that it ends with status 0
    #[arg(long)]
    repeat: bool,
    /// Milliseconds that the command may take to end after a SIGINT
    #[arg(long, default_value_t = 0)]
    patience: u64,
    /// Directory to remove if the parent is gone
    #[arg(long, value_name = "DIR")]
    scratch: Vec<PathBuf>,
    /// Have the kernel end this process with its parent, and become the command
    #[arg(long)]
    bound: bool,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.bound {
        return Err(match become_bound(options.parent, &options.command) {
            error @ Error::Start { .. } => Failure::new(NOT_FOUND, error.to_string()),
            error => error.into(),
        });
    }
    let keeper = Keeper {
        parent: options.parent,
        cpus: options.cpus.clone(),
        repeat: options.repeat,
        patience: Duration::from_millis(options.patience),
        scratch: options.scratch.clone(),
        command: options.command.clone(),
    };
    let stop = signals::stop()?;
    Ok(ExitCode::from(sordino_check::keep(&keeper, stop.as_fd())?))
}
