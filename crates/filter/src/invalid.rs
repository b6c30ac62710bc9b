//! Faults in a text that a user wrote.

use std::fmt;
use std::ops::Range;

/// A fault in a condition or a rule, with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The place: a range of bytes in the text, empty if something is missing there.
    pub at: Range<usize>,
    /// The fault, and its remedy.
    pub message: String,
}

impl Invalid {
    pub(crate) fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// Returns the same fault for a text that has `before` bytes more in front.
    pub(crate) fn behind(self, before: usize) -> Self {
        Self { at: self.at.start + before..self.at.end + before, ..self }
    }

    /// Returns two lines for a terminal: the line of `text` that contains the place, and carets under it with the
    /// message.
    ///
    /// ```
    /// use sordino_filter::condition::Expression;
    /// let text = "duration > 50 uss";
    /// let invalid = Expression::parse(text).unwrap_err();
    /// assert_eq!(
    ///     invalid.picture(text),
    ///     "duration > 50 uss\n              ^^^ no unit of time: ns, us, ms, s, m, h"
    /// );
    /// ```
    pub fn picture(&self, text: &str) -> String {
        let (before, rest) = text.split_at_checked(self.at.start).unwrap_or((text, ""));
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        let marked = rest.get(..self.at.len()).unwrap_or(rest).lines().next().unwrap_or_default();
        let indent = " ".repeat(before[start..].chars().count());
        let carets = "^".repeat(marked.chars().count().max(1));
        // A tab would shift the line against the carets.
        let line = line.replace(char::is_control, " ");
        format!("{line}\n{indent}{carets} {}", self.message)
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Invalid {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_the_characters_of_the_place() {
        let picture = |at, text: &str| Invalid::new(at, "here").picture(text);
        assert_eq!(picture(3..5, "é\tab c"), "é ab c\n  ^^ here");
        assert_eq!(picture(4..4, "a ==\n"), "a ==\n    ^ here");
        assert_eq!(picture(2..9, "a\nbcd\ne"), "bcd\n^^^ here");
    }

    #[test]
    fn a_place_outside_of_the_text_is_its_end() {
        assert_eq!(Invalid::new(9..12, "here").picture("ab"), "ab\n  ^ here");
    }
}
