//! How a command ends when it does not end well.

use crate::terminal::messages;
use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;

/// The answer is "no".
pub(crate) const NO: u8 = 1;
/// Bad usage, or an environment that lacks something.
pub(crate) const UNUSABLE: u8 = 2;
/// A command to be started was not found, as shells say it.
pub(crate) const NOT_FOUND: u8 = 127;

/// Why a command failed, and its exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// With an exit status of its own.
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// What it says.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What an error and its causes say.
    pub(crate) fn text_of(error: &dyn Error) -> String {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Some errors say their cause themselves.
            if !text.contains(&cause_text) {
                let _ = write!(text, ": {cause_text}");
            }
            source = cause.source();
        }
        text
    }

    /// Prints it, and returns the exit status. Each line after the first has a mark in front: a newline in what it quotes
    /// begins no line of ours.
    pub(crate) fn report(self) -> ExitCode {
        let mut lines = self.text.lines();
        let first = lines.next().unwrap_or_default();
        let others: String = lines.map(|line| format!("  | {line}\n")).collect();
        messages(&format!("sordino: {first}\n{others}"));
        ExitCode::from(self.code)
    }
}

/// An error and what caused it, one after the other.
impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: UNUSABLE, text: Self::text_of(&error) }
    }
}
