//! An installed program that shows a trace.

use crate::HandoverError;
use std::ffi::OsStr;
use std::io;
use std::process::Command;

/// Runs the viewer `program` until it ends. `source` is the advice on its installation.
///
/// # Errors
/// [`HandoverError::NotInstalled`], or [`HandoverError::Ended`] with its status.
pub fn show_in(program: &str, arguments: &[&OsStr], source: &str) -> Result<(), HandoverError> {
    let ended = |reason: String| HandoverError::Ended { program: program.to_owned(), reason };
    match Command::new(program).args(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(ended(status.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(HandoverError::NotInstalled { program: program.to_owned(), source_of_it: source.to_owned() })
        }
        Err(error) => Err(ended(error.to_string())),
    }
}
