//! Errors of guarded changes.

/// The reason that a change could not be made, or could not be guarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine lacks something, or something there can't be trusted; the text has the remedy.
    #[error("{0}")]
    Unusable(String),
    /// The guardian could not be started, or has ended.
    #[error(transparent)]
    Guardian(#[from] sordino_undo::Error),
    /// A request to the kernel failed.
    #[error(transparent)]
    System(#[from] std::io::Error),
}
