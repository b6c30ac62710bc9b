//! Errors of granting and revoking.

use std::io;

/// The reason that a right could not be given or revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller or the machine is not fit for it; the text has the remedy.
    #[error("{0}")]
    Unusable(String),
    /// Instances are in use, or something could not be restored; the text has the processes and the remedy.
    #[error("{0}")]
    Refused(String),
    /// The kernel's tracer failed.
    #[error(transparent)]
    Tracer(#[from] sordino_tracefs::Error),
    /// The journal can't be read.
    #[error(transparent)]
    Journal(#[from] sordino_undo::Unreadable),
    /// A request to the kernel failed.
    #[error(transparent)]
    System(#[from] io::Error),
}
