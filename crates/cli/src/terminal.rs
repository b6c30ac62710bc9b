//! The only way to standard output and standard error.
//!
//! Names and strings from outside are made printable where they are put into a line
//! ([`printable`](sordino_event::text::printable)). What is forgotten there still cannot command a terminal: here every
//! character that is not printable becomes `\u001b`, but for newlines, tabs and sordino's own colours. JSON stays valid
//! and holds the same, for such characters stand in its strings alone.

use crate::Failure;
use sordino_event::text::{is_printable, printable};
use sordino_report::COLORS;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};

/// How much [`Output`] collects before it writes.
const BUFFER: usize = 1 << 18;

/// Writes a line to standard error, formatted as by `format!`; newlines in it are escaped.
macro_rules! message {
    ($($argument:tt)*) => { $crate::terminal::message(&format!($($argument)*)) };
}

/// What [`message!`] does.
pub(crate) fn message(line: &str) {
    messages(&format!("{}\n", printable(line)));
}

/// Writes whole lines to standard error. If that is closed, they are lost, and nothing else is.
pub(crate) fn messages(lines: &str) {
    let _ = io::stderr().lock().write_all(&harmless(lines.as_bytes(), false));
}

/// Writes to standard output. Nobody reading any more, as behind `head`, is no failure.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    put(&harmless(text.as_ref(), false))
}

/// The same, with the colours that [`Failure`]s and plain texts never have.
pub(crate) fn print_in_color(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    put(&harmless(text.as_ref(), true))
}

fn put(bytes: &[u8]) -> Result<(), Failure> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn has_terminal_for_errors() -> bool {
    io::stderr().is_terminal()
}

/// How many columns standard output has, if it is a terminal.
pub(crate) fn columns() -> Option<u16> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col)
}

/// Standard output for texts of any length. Each write has to hold whole characters.
pub(crate) struct Output {
    out: BufWriter<StdoutLock<'static>>,
    has_colors: bool,
}

impl Output {
    /// With sordino's own colours if standard output is a terminal.
    pub(crate) fn new() -> Self {
        Self { out: BufWriter::with_capacity(BUFFER, io::stdout().lock()), has_colors: is_terminal() }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(&harmless(bytes, self.has_colors))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The text with escapes for all that is not printable, but for newlines and tabs and, `with_colors`, [`COLORS`].
fn harmless(text: &[u8], with_colors: bool) -> Cow<'_, [u8]> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let text = String::from_utf8_lossy(text);
    let (mut harmless, mut rest) = (String::with_capacity(text.len()), &*text);
    while let Some(character) = rest.chars().next() {
        let is_color = |color: &&&str| rest.starts_with(**color);
        let color = COLORS.iter().find(|color| with_colors && character == '\x1b' && is_color(color));
        let length = color.map_or(character.len_utf8(), |color| color.len());
        let (taken, left) = rest.split_at(length);
        if color.is_some() || matches!(character, '\n' | '\t') || is_printable(character) {
            harmless += taken;
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(harmless, "\\u{unit:04x}");
            }
        }
        rest = left;
    }
    Cow::Owned(harmless.into_bytes())
}

/// Whether the text is ASCII without control characters but newlines and tabs. Looks at all of it, several bytes at a time: listings have
/// millions of lines, and next to none that is not plain.
fn is_plain(text: &[u8]) -> bool {
    let is_odd = |byte: u8| (byte < b' ') & (byte != b'\n') & (byte != b'\t') | (byte > b'~');
    !text.iter().fold(false, |odd, byte| odd | is_odd(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, with_colors: bool) -> String {
        String::from_utf8(harmless(text.as_bytes(), with_colors).into_owned()).unwrap()
    }

    #[test]
    fn no_byte_that_a_terminal_obeys_gets_through() {
        let all: Vec<u8> = (0..=255).collect();
        let shown = harmless(&all, true);
        let text = std::str::from_utf8(&shown).unwrap();
        assert!(text.chars().all(|c| matches!(c, '\n' | '\t') || is_printable(c)), "{text}");
        assert_eq!(
            super::harmless("\u{9b}2J\x1b]0;x\x07".as_bytes(), true).as_ref(),
            br"\u009b2J\u001b]0;x\u0007"
        );
    }

    #[test]
    fn own_colours_pass_where_they_are_expected_and_nothing_else_does() {
        let text = "\x1b[32mnpt:loop\x1b[0m \x1b[8m \x1b[32";
        assert_eq!(shown(text, true), "\x1b[32mnpt:loop\x1b[0m \\u001b[8m \\u001b[32");
        assert_eq!(shown(text, false), "\\u001b[32mnpt:loop\\u001b[0m \\u001b[8m \\u001b[32");
    }

    #[test]
    fn json_holds_the_same_afterwards() {
        let value = serde_json::json!({ "name": "\u{9b}\u{7f}\u{202e}\u{e0041}\x1b\n é" });
        let shown = shown(&value.to_string(), false);
        assert!(shown.contains("\\udb40\\udc41"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
