//! The guardian: the process that undoes its parent's changes.

use crate::Error;
use sordino_dirfd::Dir;
use sordino_registration::environment::{RESERVE, SESSION, UNRECORDED};
use sordino_tracefs::{Instance, Tracefs};
use sordino_undo::{Guardian, UndoStep, guard};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Waits for the parent's end, and undoes its changes: the work of the guardian's process.
///
/// # Errors
/// If the parent has ended before, or if standard input can't be read.
pub fn serve() -> Result<(), Error> {
    guard(carry_out)?;
    Ok(())
}

/// Undoes one change of a recorder, of a measurement or of `sordino grant`.
///
/// # Errors
/// The reason why the step failed, as text.
pub fn carry_out(step: &UndoStep) -> Result<(), String> {
    match step {
        UndoStep::Write { file, text } => UndoStep::write(file, text).map_err(|error| error.to_string()),
        UndoStep::RemoveInstance { name } => {
            let tracefs = Tracefs::open().map_err(|error| error.to_string())?;
            Instance::remove_by_name(&tracefs, name).map_err(|error| error.to_string())
        }
        UndoStep::ResetInstance { name } => {
            let tracefs = Tracefs::open().map_err(|error| error.to_string())?;
            Instance::reset_by_name(&tracefs, name).map_err(|error| error.to_string())
        }
        UndoStep::Access { file, mode } => {
            UndoStep::give_access(file, *mode).map_err(|error| error.to_string())
        }
        UndoStep::RemoveDirectory { directory } => remove(directory),
        other => Err(format!("this version of sordino can't undo '{other}'")),
    }
}

/// Removes a directory of this user. Processes that write to it are ending, too, and may take up to ten seconds.
/// Another user's directory of the same name is left alone, and is an error only if ours was not removed before.
fn remove(directory: &Path) -> Result<(), String> {
    let give_up = Instant::now() + Duration::from_secs(10);
    let mut is_removed = false;
    loop {
        match Dir::remove(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return if is_removed { Ok(()) } else { Err(error.to_string()) };
            }
            Err(error) if Instant::now() > give_up => return Err(error.to_string()),
            Ok(()) if Instant::now() > give_up => return Err("it is made again and again".to_owned()),
            // A process that still writes may make it again.
            Ok(()) => is_removed = true,
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The path by which sordino starts itself.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// Checks that sordino can start itself.
///
/// # Errors
/// If `/proc` has no link to its program.
pub fn expect_own_program() -> Result<(), Error> {
    let Err(error) = std::fs::metadata(OWN_PROGRAM) else { return Ok(()) };
    let text = format!(
        "{OWN_PROGRAM}: {error}: sordino needs it to start its own processes, and /proc to find programs: mount -t proc proc /proc"
    );
    Err(Error::Unusable(text))
}

/// Starts a guardian for this process.
///
/// # Errors
/// If sordino can't start itself.
pub fn start() -> Result<Guardian, Error> {
    expect_own_program()?;
    let mut command = Command::new(OWN_PROGRAM);
    // If this process is recorded itself, its guardian is not.
    command.arg("undo-guard").env_remove(SESSION).env(RESERVE, UNRECORDED);
    Ok(Guardian::start(&mut command)?)
}
