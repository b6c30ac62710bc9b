//! The process that undoes what its parent changed.

use crate::Failure;
use crate::failure::UNUSABLE;
use sordino_dirfd::Dir;
use sordino_registration::environment::{RESERVE, SESSION, UNRECORDED};
use sordino_tracefs::{Instance, Tracefs};
use sordino_undo::{Guardian, Step, guard};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

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

/// Removes a directory of ours. Processes that write there are being ended, too, and may go on for up to ten seconds. One of the same
/// name that is another user's is left alone, and an error only if ours was not removed before.
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
            // A writer of ours may make it once more.
            Ok(()) => is_removed = true,
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// By this path sordino starts itself.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Refuses to begin where sordino can't start itself.
pub(crate) fn expect_own_program() -> Result<(), Failure> {
    let Err(error) = std::fs::metadata(OWN_PROGRAM) else { return Ok(()) };
    let text = format!(
        "{OWN_PROGRAM}: {error}: sordino starts processes of its own by it, and finds programs in /proc: mount -t proc proc /proc"
    );
    Err(Failure::new(UNUSABLE, text))
}

/// Starts such a process for this one.
pub(crate) fn start() -> Result<Guardian, Failure> {
    expect_own_program()?;
    let mut command = Command::new(OWN_PROGRAM);
    // Where we are recorded ourselves, it is not to be.
    command.arg("undo-guard").env_remove(SESSION).env(RESERVE, UNRECORDED);
    Ok(Guardian::start(&mut command)?)
}
