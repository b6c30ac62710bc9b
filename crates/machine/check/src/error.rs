//! Errors of checks and of their helpers.

use std::path::PathBuf;

/// The reason that a check, one of its steps or one of its helpers failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine, the options or a file are not fit for the check; the text has the remedy.
    #[error("{0}")]
    Unusable(String),
    /// A command could not be executed.
    #[error("can't start {}: {source}", program.display())]
    Start {
        /// The program as it was named.
        program: PathBuf,
        /// The error that the kernel returned.
        source: std::io::Error,
    },
    /// A request to the kernel failed.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The loop that measures failed.
    #[error(transparent)]
    Loop(#[from] sordino_npt::Error),
    /// The state of the shield is not known.
    #[error(transparent)]
    Shield(#[from] sordino_shield::Error),
    /// The kernel's tracer failed.
    #[error(transparent)]
    Tracer(#[from] sordino_tracefs::Error),
    /// A change could not be guarded.
    #[error(transparent)]
    Guarded(#[from] sordino_guard::Error),
    /// The guardian has ended.
    #[error(transparent)]
    Guardian(#[from] sordino_undo::Error),
    /// A report could not be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}
