//! Lines of Pajé's text.

use sordino_event::Nanos;
use std::io::Write as _;

/// A line that is being written: the number of its definition, its time, then its other fields.
pub(super) struct PajeLine<'a>(&'a mut Vec<u8>);

impl<'a> PajeLine<'a> {
    /// Begins a line at a time since the recording began.
    pub(super) fn at(definition: u8, since: Nanos, out: &'a mut Vec<u8>) -> Self {
        let since = since.0.max(0);
        let _ = write!(out, "{definition} {}.{:09}", since / 1_000_000_000, since % 1_000_000_000);
        Self(out)
    }

    /// Appends a number, such as a container's.
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.0.push(b' ');
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self
    }

    /// Appends a word of this format's own.
    pub(super) fn word(&mut self, word: &str) -> &mut Self {
        self.0.push(b' ');
        self.0.extend_from_slice(word.as_bytes());
        self
    }

    /// Appends a text in quotes. The format has no escapes: quotes in the text become apostrophes, and control
    /// characters become visible. An empty text becomes a question mark, as readers would take it for a quote.
    pub(super) fn text(&mut self, text: &[u8]) -> &mut Self {
        self.0.extend_from_slice(b" \"");
        for character in String::from_utf8_lossy(text).chars() {
            match character {
                '"' => self.0.push(b'\''),
                control if control.is_control() => {
                    self.0.extend(control.escape_unicode().map(|part| part as u8))
                }
                other => self.0.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        self.0.extend_from_slice(if text.is_empty() { b"?\"" } else { b"\"" });
        self
    }

    /// Ends the current line.
    pub(super) fn end(self) {
        self.0.push(b'\n');
    }
}
