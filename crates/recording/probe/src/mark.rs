//! Lines of text in the trace that need no declaration: marks, and the reasons for snapshots.

use crate::text::Cursor;
use std::fmt::{self, Write};

/// The longest line, in bytes; a longer one is cut.
const LONGEST: usize = 1024;

/// Formats on the stack and hands `record` the text, cut after 1,024 bytes.
///
/// Real-time: as long as formatting takes; does not allocate unless a value's `Display` does.
pub fn mark_text(arguments: fmt::Arguments<'_>, record: impl FnOnce(&str)) {
    if let Some(text) = arguments.as_str().filter(|text| text.len() <= LONGEST) {
        return record(text);
    }
    let mut room = [0u8; LONGEST];
    let mut cursor = Cutting(Cursor::new(&mut room));
    // A `Display` that fails leaves the text that it wrote before.
    let _ = cursor.write_fmt(arguments);
    let length = cursor.0.length();
    // Only whole pieces of text were written, cut at characters.
    record(std::str::from_utf8(&room[..length]).unwrap_or_default());
}

/// A writer that accepts as many whole characters as fit.
struct Cutting<'a>(Cursor<'a>);

impl Write for Cutting<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = LONGEST - self.0.length();
        let end = (0..=left.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        self.0.write_str(&text[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(arguments: fmt::Arguments<'_>) -> String {
        let mut seen = String::new();
        mark_text(arguments, |text| seen = text.to_owned());
        seen
    }

    #[test]
    fn text_is_formatted_and_cut_at_a_character() {
        assert_eq!(marked(format_args!("plain")), "plain");
        assert_eq!(marked(format_args!("{} and {:02}", 1, 2)), "1 and 02");
        let long = "ä".repeat(LONGEST);
        assert_eq!(marked(format_args!("x{long}")).len(), LONGEST - 1);
        assert_eq!(marked(format_args!("{long}")).len(), LONGEST);
    }
}
