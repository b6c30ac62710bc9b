//! The command that is started and recorded.

use crate::options::CommandLine;
use rustix::io::Errno;
use sordino_registration::environment::{RESERVE, SESSION, SESSION_OF_COMMAND};
use sordino_sched::find_program;
use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command};

/// Starts a command with the recorder's address in its environment. A [prefix](CommandLine::prefix) is not recorded.
pub(crate) fn start(line: &CommandLine, session: &OsStr, reserve: u64) -> io::Result<Child> {
    let program = find_program(&line.program)?;
    let mut words = line.prefix.iter().map(|word| word.as_os_str()).chain([program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).args(&line.arguments);
    let variable = if line.prefix.is_empty() { SESSION } else { SESSION_OF_COMMAND };
    command.env(variable, session).env(RESERVE, reserve.to_string());
    let explained = |error| if line.prefix.is_empty() { explained(error) } else { error };
    command.spawn().map_err(explained)
}

/// Adds the cause to the kernel's error for a program that exists but could not be executed.
fn explained(error: io::Error) -> io::Error {
    let reason = match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => "its interpreter, which its first line or its ELF header names, is not there",
        Some(Errno::NOEXEC) => {
            "it is no program for this machine, and no script with a first line that begins with #!"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}: {reason}"))
}
