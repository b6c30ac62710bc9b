//! The recorder of a session, a process of its own.

use crate::Error;
use crate::place::{Definition, SessionPlace};
use sordino_dirfd::Dir;
use sordino_registration::environment::{RESERVE, SESSION, UNRECORDED};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Replaces this process by the recorder; returns only if that fails.
///
/// # Errors
/// The reason why it could not be replaced.
pub fn become_recorder(place: &SessionPlace, definition: &Definition, lock: File) -> Result<(), Error> {
    let directory = working_directory(place, definition)?;
    Err(recorder(definition, &directory, &["--foreground"]).stdin(lock).exec().into())
}

/// Starts the recorder, which holds the session's lock from its first instruction on, and waits until it records.
///
/// # Errors
/// The recorder's own reason, or the end of its log.
pub fn begin(place: &SessionPlace, definition: &Definition, lock: &File) -> Result<(), Error> {
    let directory = working_directory(place, definition)?;
    let mut command = recorder(definition, &directory, &[]);
    let mut child = command.stdin(lock.try_clone()?).stdout(Stdio::piped()).stderr(place.log()?).spawn()?;
    let Some(stdout) = child.stdout.take() else { return Ok(()) };
    let mut answer = BufReader::new(stdout);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    if line == READY {
        return Ok(());
    }
    answer.read_to_string(&mut line)?;
    child.wait()?;
    let line = line.trim_end();
    let reason = match line {
        "" => format!("its recorder ended: {}", place.log_end().unwrap_or_default()),
        reason => reason.to_owned(),
    };
    Err(Error::Unusable(reason))
}

/// Returns the recorder's command, without its standard files; it starts in `directory`.
fn recorder(definition: &Definition, directory: &Dir, mode: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("sordino").arg("session-recorder").args(mode).args(&definition.arguments);
    command.current_dir(directory.proc_path()).env_remove(SESSION).env(RESERVE, UNRECORDED);
    command
}

/// Opens the directory in which the session was started. Its path had no symbolic links then; if it has one now, it
/// leads to another directory, and is refused.
fn working_directory(place: &SessionPlace, definition: &Definition) -> Result<Dir, Error> {
    let path = &definition.directory;
    let directory = Dir::open(path).ok();
    let is_same =
        |directory: &Dir| std::fs::read_link(directory.proc_path()).is_ok_and(|found| found == *path);
    directory.filter(is_same).ok_or_else(|| {
        let (name, path) = (&place.name, path.display());
        let text =
            format!("session '{name}' was started in {path}, which does not exist any more: start it again with its options");
        Error::Unusable(text)
    })
}

/// The line that the recorder writes to `sordino start` when it records.
pub const READY: &str = "ready\n";
