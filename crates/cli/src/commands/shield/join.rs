//! The command `sordino join-shield`, by which a recorded command enters the shield that its recorder has left.

use crate::Failure;
use crate::commands::become_user::hand_over;
use crate::failure::{NOT_FOUND, UNUSABLE};
use clap::Args;
use sordino_sched::{CpuList, set_affinity};
use sordino_shield::current;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Joins the shield, then becomes a command.
#[derive(Args, Debug)]
pub(crate) struct JoinOptions {
    #[arg(long)]
    cpus: Option<CpuList>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Joins the shield and replaces this process by the command; returns only if that fails.
pub(crate) fn join(options: &JoinOptions) -> Result<ExitCode, Failure> {
    if let Some(shield) = current() {
        shield.take_in(std::process::id())?;
    }
    if let Some(cpus) = &options.cpus {
        set_affinity(cpus)?;
    }
    let (program, arguments) =
        options.command.split_first().ok_or_else(|| Failure::new(UNUSABLE, "no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    // A process that changes to another user passes the session itself.
    if program != "/proc/self/exe" {
        hand_over(&mut command);
    }
    let error = command.exec();
    Err(Failure::new(NOT_FOUND, format!("can't start {}: {error}", program.display())))
}
