//! Parsers for the output of rt-tests' programs.

pub mod cyclictest;
pub mod pi_stress;

/// Invalid output of another program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program}: {what}")]
pub struct BadResult {
    /// Name of the program.
    pub program: &'static str,
    /// Description of the error.
    pub what: String,
}
