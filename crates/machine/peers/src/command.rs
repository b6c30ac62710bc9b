//! Other tracers' commands and their errors.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// Reason why another tracer cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The tracer is not installed.
    #[error("{what} is not installed here: {remedy}")]
    Missing {
        /// Name of the missing program.
        what: &'static str,
        /// Command that installs it.
        remedy: &'static str,
    },
    /// One of the tracer's commands failed.
    #[error("{command}: {text}")]
    Failed {
        /// Name of the command.
        command: String,
        /// Output or error of the command.
        text: String,
    },
    /// A file could not be read or written.
    #[error("{what}: {source}")]
    Io {
        /// Name of the file.
        what: String,
        /// Error that the kernel returned.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn failed(command: &Command, text: impl ToString) -> Self {
        Self::Failed { command: format!("{:?}", command.get_program()), text: text.to_string() }
    }

    pub(crate) fn io(what: impl ToString) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_string();
        move |source| Self::Io { what, source }
    }
}

/// Converts the error to the text of a missing measurement.
impl From<Error> for String {
    fn from(error: Error) -> Self {
        error.to_string()
    }
}

/// Runs a command and returns its standard output.
///
/// # Errors
/// Returns an error if the command cannot be started, or fails; its text has the standard error output.
pub fn output_of(command: &mut Command) -> Result<String, Error> {
    let output = bound(command, libc::SIGTERM).output().map_err(|error| Error::failed(command, error))?;
    checked(command, &output)
}

/// Runs a command like [`output_of`]. If it is not installed, the error names the package.
pub(crate) fn output_of_package(
    command: &mut Command,
    what: &'static str,
    remedy: &'static str,
) -> Result<String, Error> {
    let output = bound(command, libc::SIGTERM).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing { what, remedy },
        _ => Error::failed(command, error),
    })?;
    checked(command, &output)
}

/// Makes the kernel send `signal` to the command when the thread that starts it dies.
pub(crate) fn bound(command: &mut Command, signal: libc::c_int) -> &mut Command {
    let parent = std::process::id();
    let bind = move || {
        // SAFETY: PR_SET_PDEATHSIG takes an integer and affects only the calling process.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before the prctl. SAFETY: getppid(2) has no arguments and always succeeds.
        let is_there = u32::try_from(unsafe { libc::getppid() }) == Ok(parent);
        if is_there { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: after the fork, `bind` only makes system calls; it neither allocates nor locks.
    unsafe { command.pre_exec(bind) }
}

fn checked(command: &Command, output: &Output) -> Result<String, Error> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed(command, format!("{}: {}", output.status, errors.trim())))
}
