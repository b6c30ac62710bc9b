//! What other programs print, read into our own figures.

pub mod cyclictest;
pub mod pi_stress;

/// A result of another program's that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program}: {what}")]
pub struct BadResult {
    /// Whose.
    pub program: &'static str,
    /// What is wrong with it.
    pub what: String,
}
