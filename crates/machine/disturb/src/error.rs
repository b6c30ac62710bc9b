//! Errors of planting disturbances.

use std::io;

/// The reason that a disturbance could not be planted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine or this process is not fit for it; the text has the reason.
    #[error("{0}")]
    Unusable(String),
    /// The policy could not be set.
    #[error(transparent)]
    Policy(#[from] sordino_sched::BadPolicy),
    /// A request to the kernel failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}
