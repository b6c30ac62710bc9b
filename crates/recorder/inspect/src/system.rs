//! The error of an operation that the recorder itself needs.

use std::io;

/// An operation that the recorder itself needs failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct SystemError {
    /// A description of the operation.
    pub what: &'static str,
    /// The error that the kernel returned.
    pub source: io::Error,
}
