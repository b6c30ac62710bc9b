//! Text that never panics for want of memory: in a fixed room, or the text of one tracepoint.

use sordino_event::catalogue::{MAX_TEXT, Unregistered};
use std::fmt::{self, Write as _};

/// A writer into a slice; writing fails when it is full.
pub(crate) struct Cursor<'a> {
    room: &'a mut [u8],
    length: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(room: &'a mut [u8]) -> Self {
        Self { room, length: 0 }
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl fmt::Write for Cursor<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length.checked_add(text.len()).ok_or(fmt::Error)?;
        self.room.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Copies the start of a name to `room`, with U+FFFD for bytes that are no text.
pub(crate) fn start_of<'a>(name: &[u8], room: &'a mut [u8]) -> &'a str {
    let mut cursor = Cursor::new(room);
    let characters = name.utf8_chunks().flat_map(|chunk| {
        let replacement = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
        chunk.valid().chars().chain(replacement)
    });
    for character in characters {
        if cursor.write_char(character).is_err() {
            break;
        }
    }
    let Cursor { room, length } = cursor;
    str::from_utf8(&room[..length]).unwrap_or_default()
}

/// The text of one tracepoint, before it goes into the catalogue or is found there. It grows up to [`MAX_TEXT`]; used
/// again for each tracepoint.
#[derive(Default)]
pub(crate) struct TracepointText {
    bytes: Vec<u8>,
    /// The reason for which a part of the text was not accepted.
    problem: Option<Unregistered>,
}

impl TracepointText {
    /// Empties the text and keeps its memory.
    pub(crate) fn begin(&mut self) -> &mut Self {
        self.bytes.clear();
        self.problem = None;
        self
    }

    /// The whole text in UTF-8.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The reason for which a part of the text was not accepted.
    pub(crate) fn problem(&self) -> Option<Unregistered> {
        self.problem
    }

    /// The 64-bit FNV-1a hash of the text behind the tracepoint's number.
    pub(crate) fn hash(&self) -> u64 {
        let mut tabs = self.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\t').map(|(at, _)| at);
        let start = tabs.nth(1).unwrap_or(0);
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.bytes[start..].iter().fold(0xcbf2_9ce4_8422_2325, step)
    }
}

impl fmt::Write for &mut TracepointText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let problem = if self.bytes.len() + text.len() > MAX_TEXT {
            Unregistered::TooLong
        } else if self.bytes.try_reserve(text.len()).is_err() {
            Unregistered::NoRoom
        } else {
            self.bytes.extend_from_slice(text.as_bytes());
            return Ok(());
        };
        self.problem = Some(problem);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn a_cursor_takes_what_fits_and_refuses_the_rest() {
        let mut room = [0; 5];
        let mut cursor = Cursor::new(&mut room);
        assert!(write!(cursor, "{}", 123).is_ok());
        assert!(cursor.write_str("456").is_err());
        assert!(cursor.write_str("45").is_ok());
        assert_eq!((cursor.length(), &room), (5, b"12345"));
    }

    #[test]
    fn a_text_takes_what_it_may_and_says_why_no_more() {
        let mut text = TracepointText::default();
        write!(text.begin(), "{}", 123).unwrap();
        assert_eq!((text.bytes(), text.problem()), (&b"123"[..], None));
        (&mut text).write_str(&"x".repeat(MAX_TEXT - 3)).unwrap();
        assert!((&mut text).write_str("x").is_err());
        assert_eq!((text.bytes().len(), text.problem()), (MAX_TEXT, Some(Unregistered::TooLong)));
        text.begin();
        assert_eq!((text.bytes(), text.problem()), (&b""[..], None));
    }

    #[test]
    fn the_hash_is_that_of_all_but_the_number() {
        let hash = |written: &str| {
            let mut text = TracepointText::default();
            text.begin().write_str(written).unwrap();
            text.hash()
        };
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(hash("event\t7\t6\tp\tn"), hash("event\t32767\t6\tp\tn"));
        assert_ne!(hash("event\t7\t6\tp\tn"), hash("event\t7\t6\tp\tm"));
    }
}
