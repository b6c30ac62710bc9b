//! Failures of the program: exit status and message.

use sordino_event::text::with_causes;
use sordino_terminal::messages;
use std::error::Error;
use std::process::ExitCode;

/// Exit status for wrong usage, or for an environment that lacks something.
pub(crate) const UNUSABLE: u8 = 2;

/// The reason why the program failed.
#[derive(Debug)]
pub(crate) struct FailureMessage(String);

impl FailureMessage {
    /// Creates a failure with this message.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Prints the message, and returns the exit status. Lines after the first begin with a mark, so that a newline in
    /// quoted text can't imitate a line of sordino's own.
    pub(crate) fn report(&self) -> ExitCode {
        let mut lines = self.0.lines();
        let first = lines.next().unwrap_or_default();
        let others: String = lines.map(|line| format!("  | {line}\n")).collect();
        messages(&format!("sordino: {first}\n{others}"));
        ExitCode::from(UNUSABLE)
    }
}

/// Joins the messages of an error and its causes, one after the other.
impl<E: Error> From<E> for FailureMessage {
    fn from(error: E) -> Self {
        Self(with_causes(&error))
    }
}
