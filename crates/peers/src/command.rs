//! Commands of others, and why they fail.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// Why a peer can't be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not installed.
    #[error("{what} is not installed here: {remedy}")]
    Missing {
        /// What is missing.
        what: &'static str,
        /// The command that installs it.
        remedy: &'static str,
    },
    /// A command of its did not do what it should.
    #[error("{command}: {text}")]
    Failed {
        /// The command.
        command: String,
        /// What it says.
        text: String,
    },
    /// A file could not be had.
    #[error("{what}: {source}")]
    Io {
        /// Which.
        what: String,
        /// What the kernel says.
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

/// What tells a person of a measurement that is missing.
impl From<Error> for String {
    fn from(error: Error) -> Self {
        error.to_string()
    }
}

/// Runs a command; its standard output.
///
/// # Errors
/// If it can't be started, or fails: with what it says on standard error.
pub fn output_of(command: &mut Command) -> Result<String, Error> {
    let output = bound(command, libc::SIGTERM).output().map_err(|error| Error::failed(command, error))?;
    checked(command, &output)
}

/// The same of a command that may not be installed.
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

/// Has the kernel send `signal` to the command when the thread that starts it is gone, by whatever death.
pub(crate) fn bound(command: &mut Command, signal: libc::c_int) -> &mut Command {
    let parent = std::process::id();
    let bind = move || {
        // SAFETY: no pointers.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // It may have died before that. SAFETY: no preconditions.
        let is_there = u32::try_from(unsafe { libc::getppid() }) == Ok(parent);
        if is_there { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: system calls alone; nothing is allocated or locked after the fork.
    unsafe { command.pre_exec(bind) }
}

fn checked(command: &Command, output: &Output) -> Result<String, Error> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed(command, format!("{}: {}", output.status, errors.trim())))
}
