//! The error of a failed write, with its remedy.

use crate::remedy::remedy;
use std::io;
use std::path::PathBuf;

/// A directory or a file can't be written to.
#[derive(Debug, thiserror::Error)]
#[error("can't write to {}: {source}{}", path.display(), remedy(source))]
pub struct WriteError {
    /// Path of the directory, or of a file in it.
    pub path: PathBuf,
    /// The error that the kernel returned.
    pub source: io::Error,
}
