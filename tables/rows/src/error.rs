//! The error of opening a recording as tables.

/// The reason that a recording can't be opened as tables.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no recording, or it can't be read.
    #[error(transparent)]
    Recording(#[from] sordino_reading::Error),
    /// The selection matches nothing in the recording.
    #[error(transparent)]
    Selection(#[from] sordino_selection::SelectionError),
}
