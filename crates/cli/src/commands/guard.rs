//! The process that undoes what its parent changed.

use crate::Failure;
use sordino_collect::command::SESSION;
use sordino_tracefs::{Instance, Tracefs};
use sordino_undo::{Guardian, Step, guard};
use std::process::{Command, ExitCode};

/// Waits for the parent's end, and undoes.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    guard(carry_out)?;
    Ok(ExitCode::SUCCESS)
}

/// Undoes one change of a recorder's or of `sordino grant`.
pub(super) fn carry_out(step: &Step) -> Result<(), String> {
    match step {
        Step::Write { file, text } => Step::write(file, text).map_err(|error| error.to_string()),
        Step::RemoveInstance { name } => {
            let tracefs = Tracefs::open().map_err(|error| error.to_string())?;
            Instance::remove_by_name(&tracefs, name).map_err(|error| error.to_string())
        }
        Step::ResetInstance { name } => {
            let tracefs = Tracefs::open().map_err(|error| error.to_string())?;
            Instance::reset_by_name(&tracefs, name).map_err(|error| error.to_string())
        }
        Step::Access { file, mode } => Step::give_access(file, *mode).map_err(|error| error.to_string()),
        other => Err(format!("this sordino does not know how to undo '{other}'")),
    }
}

/// Starts such a process for this one.
pub(crate) fn start() -> Result<Guardian, Failure> {
    let mut command = Command::new("/proc/self/exe");
    // Where we are recorded ourselves, it is not to be.
    command.arg("undo-guard").env_remove(SESSION).env("SORDINO_RESERVE", "0");
    Ok(Guardian::start(&mut command)?)
}
