//! Errors of opening recordings.

/// The reason that a recording can't be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory has no trace, or those of several recordings; the text has the remedy.
    #[error("{0}")]
    Unusable(String),
    /// The directory can't be read.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// There is no recording, or it can't be read.
    #[error(transparent)]
    Recording(#[from] sordino_collect::Error),
    /// The directories below can't be searched for traces.
    #[error(transparent)]
    Trace(#[from] sordino_ctf::Error),
}
