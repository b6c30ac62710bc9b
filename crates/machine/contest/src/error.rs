//! Errors of comparing tracers.

/// The reason that a tracer or a loop could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The comparison needs something else than this machine or these options have.
    #[error("{0}")]
    Unusable(String),
    /// A tracer or a program failed.
    #[error(transparent)]
    Peers(#[from] sordino_peers::Error),
    /// A request to the kernel failed.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The loop's output has another form than expected.
    #[error(transparent)]
    Output(#[from] serde_json::Error),
}

impl Error {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::Unusable(text.into())
    }
}
