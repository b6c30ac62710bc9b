//! Failures of commands: exit status and message.

use sordino_event::text::with_causes;
use sordino_terminal::messages;
use std::error::Error;
use std::process::ExitCode;

/// Exit status of a command whose answer is "no".
pub const NO: u8 = 1;
/// Exit status for wrong usage, or for an environment that lacks something.
pub const UNUSABLE: u8 = 2;
/// Exit status after Ctrl-C, as in shells.
pub const INTERRUPTED: u8 = 130;
/// Exit status if a command to be started was not found, as in shells.
pub const NOT_FOUND: u8 = 127;

/// The reason why a command failed, and its exit status.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// Creates a failure with this exit status.
    pub fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Returns the failure's message.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the messages of an error and its causes.
    pub fn text_of(error: &dyn Error) -> String {
        with_causes(error)
    }

    /// Prints the message, and returns the exit status. Lines after the first begin with a mark, so that a newline in
    /// quoted text can't imitate a line of sordino's own.
    pub fn report(self) -> ExitCode {
        let mut lines = self.text.lines();
        let first = lines.next().unwrap_or_default();
        let others: String = lines.map(|line| format!("  | {line}\n")).collect();
        messages(&format!("sordino: {first}\n{others}"));
        ExitCode::from(self.code)
    }
}

/// Joins the messages of an error and its causes, one after the other.
impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: UNUSABLE, text: Self::text_of(&error) }
    }
}
