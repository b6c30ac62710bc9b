//! An installed program that shows a trace.

use crate::Failure;
use crate::failure::NOT_FOUND;
use std::ffi::OsStr;
use std::io;
use std::process::{Command, ExitCode};

/// Runs a viewer until it ends. `source` says how to get it.
pub(super) fn run(program: &str, arguments: &[&OsStr], source: &str) -> Result<ExitCode, Failure> {
    match Command::new(program).args(arguments).status() {
        Ok(status) if status.success() => Ok(ExitCode::SUCCESS),
        Ok(status) => Err(Failure::new(1, format!("{program}: {status}"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Failure::new(NOT_FOUND, format!("{program} is not installed: {source}")))
        }
        Err(error) => Err(Failure::new(NOT_FOUND, format!("{program}: {error}"))),
    }
}
