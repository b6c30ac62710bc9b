//! Errors about sessions and their recorders.

/// The reason that a session can't be used as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such session, its files can't be trusted, or its recorder refuses; the text has the remedy.
    #[error("{0}")]
    Unusable(String),
    /// A request to the kernel failed.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The session's directory can't be used.
    #[error(transparent)]
    Directory(#[from] sordino_intake::Error),
    /// The recorder does not reply.
    #[error(transparent)]
    Recorder(#[from] sordino_collect::Error),
    /// The definition could not be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}
