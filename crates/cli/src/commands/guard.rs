//! The process that undoes what its parent changed.

use crate::Failure;
use sordino_collect::command::SESSION;
use sordino_tracefs::{Instance, Tracefs};
use sordino_undo::{Guardian, Step, guard};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{fs, thread};

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
        Step::RemoveDirectory { directory } => remove(directory),
        other => Err(format!("this sordino does not know how to undo '{other}'")),
    }
}

/// Whoever wrote there is being ended, too, and may go on for a moment.
fn remove(directory: &Path) -> Result<(), String> {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > give_up => return Err(error.to_string()),
            Err(_) => thread::sleep(Duration::from_millis(50)),
            // Looked at once more: somebody may have made it again.
            Ok(()) => {}
        }
    }
}

/// Starts such a process for this one.
pub(crate) fn start() -> Result<Guardian, Failure> {
    let mut command = Command::new("/proc/self/exe");
    // Where we are recorded ourselves, it is not to be.
    command.arg("undo-guard").env_remove(SESSION).env("SORDINO_RESERVE", "0");
    Ok(Guardian::start(&mut command)?)
}
