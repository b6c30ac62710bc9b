//! The errors of reading a recording that grows.

use sordino_event::text::printable;
use std::io;

/// The reason why a recording can't be read while it grows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A traced program's or the kernel's trace can't be read.
    #[error(transparent)]
    Reading(#[from] sordino_reading::Error),
    /// The recorder replies with an error, or not at all.
    #[error(transparent)]
    Recorder(#[from] sordino_collect::Error),
    /// The session's recorder rejects a request, or does not know it.
    #[error("{0}")]
    Refused(String),
    /// A file of the session can't be used.
    #[error("the session's directory: {0}")]
    File(#[from] io::Error),
    /// The session of this name is not running.
    #[error(
        "session '{0}' is not running: start it with 'sordino start {0}', or name the directory of its recordings"
    )]
    NotRunning(String),
    /// The name is neither that of a session nor of a directory.
    #[error("there is no session and no directory '{}': 'sordino status' lists the sessions", printable(.0))]
    Unknown(String),
}
