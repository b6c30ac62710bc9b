//! Errors of finding programs.

use sordino_dirfd::WriteError;
use sordino_inspect::system::SystemError;
use std::io;
use std::path::{Path, PathBuf};

/// The reason that programs can't register.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The requested name is not valid for a session.
    #[error(
        "'{0}' is no name for a session: 1 to 48 of A-Z a-z 0-9 . _ -, with neither . nor - at the start"
    )]
    SessionName(String),
    /// A directory can't be used for programs to register with sessions.
    #[error("programs can't register in {}: {reason}", path.display())]
    RuntimeDir {
        /// Path of the directory.
        path: PathBuf,
        /// A description of the reason, and the remedy.
        reason: String,
    },
    /// A session's directory can't be made or removed.
    #[error(transparent)]
    Output(#[from] WriteError),
    /// The socket where programs register can't be opened.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl Error {
    pub(crate) fn output(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Output(WriteError { path: path.as_ref().to_owned(), source })
    }

    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System(SystemError { what, source: source.into() })
    }
}
