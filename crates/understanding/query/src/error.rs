//! Errors of queries, such as an event that the trace lacks.

/// The reason why a query cannot be made of a trace.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace lacks an event or a field of the rule.
    #[error(transparent)]
    Rule(#[from] sordino_intervals::Error),
    /// No event of the trace has this field.
    #[error("the recording has no event with a field '{0}'")]
    Field(String),
    /// The measure has no such key.
    #[error("'{0}' is no key of this measure: leave it out of --per")]
    Key(String),
    /// The kernel's events that the measure needs were not recorded.
    #[error("the recording lacks the kernel's events for this measure: record with --kernel {0}")]
    Kernel(&'static str),
}
