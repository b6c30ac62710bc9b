//! The only way to standard output and standard error.
//!
//! Names and strings from outside are made printable where they are put into a line
//! ([`printable`](sordino_event::text::printable)). What is forgotten there still cannot command a terminal: here every
//! character that is not printable becomes `\u001b`, but for newlines, tabs and sordino's own colours. JSON stays valid
//! and holds the same, for such characters stand in its strings alone. Where the locale has no UTF-8, all characters but ASCII's do.
//!
//! | what | goes through | lines that are too long |
//! |---|---|---|
//! | a report for a person | [`show`], [`show_as_message`] | are broken between words |
//! | events, one a line | [`Output`] | the same, on a terminal only |
//! | JSON | [`print`] | stay |
//! | an error, a remark | [`message!`], [`Failure`] | stay, for the commands in them to be copied |

mod means;

pub(crate) use means::{choose_color, is_utf8};

use crate::Failure;
use sordino_event::text::{is_printable, printable};
use sordino_report::{COLORS, TIE, fit, fold};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};

/// How much [`Output`] collects before it writes.
const BUFFER: usize = 1 << 18;
/// What continues an event's line is indented by so much.
const HANG: usize = 4;
/// What has so many columns is laid out for a stream that is no terminal.
const USUAL_COLUMNS: usize = 80;
/// Sordino's own characters that are not ASCII's, and what stands for each where the locale has no others.
const IN_ASCII: [(char, char); 1] = [('\u{2026}', '~')];

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
    let _ = io::stderr().lock().write_all(&harmless(lines.as_bytes(), false, is_utf8()));
}

/// Writes a report to standard error as [`show`] does.
pub(crate) fn show_as_message(text: &str) {
    messages(&fitted(text, means::columns(&io::stderr()), is_utf8()));
}

/// Writes to standard output. Nobody reading any more, as behind `head`, is no failure.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    put(&harmless(text.as_ref(), false, is_utf8()))
}

/// Writes a report to standard output: its lines fit the terminal, and may have sordino's own colours.
pub(crate) fn show(text: &str) -> Result<(), Failure> {
    put(&harmless(fitted(text, columns(), is_utf8()).as_bytes(), has_colors(), is_utf8()))
}

/// Writes a command's answer to standard output: JSON, which [`print`]s, or a report, which [`show`]s.
pub(crate) fn answer(text: &str, is_json: bool) -> Result<(), Failure> {
    if is_json { print(text) } else { show(text) }
}

/// Writes what clap has to say, help and errors, to the stream that it is for.
pub(crate) fn show_usage(usage: &clap::Error) {
    let text = usage.render();
    let shown = |has_colors: bool| {
        let text = if has_colors { text.ansi().to_string() } else { text.to_string() };
        harmless(text.as_bytes(), has_colors, is_utf8()).into_owned()
    };
    // Neither has anybody to tell of a failure.
    let _ = match usage.use_stderr() {
        true => io::stderr().lock().write_all(&shown(means::has_colors(&io::stderr()))),
        false => io::stdout().lock().write_all(&shown(has_colors())),
    };
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

/// Whether standard output is to have colours.
pub(crate) fn has_colors() -> bool {
    means::has_colors(&io::stdout())
}

/// How many columns standard output has; `None` if that is not known, and lines may have any length.
pub(crate) fn columns() -> Option<usize> {
    means::columns(&io::stdout())
}

/// For how many columns that is laid out whose lines have to end somewhere.
pub(crate) fn layout_columns() -> usize {
    columns().unwrap_or(USUAL_COLUMNS)
}

/// Standard output for texts of any length. Each write has to hold whole characters, and of events whole lines.
pub(crate) struct Output {
    out: BufWriter<StdoutLock<'static>>,
    has_colors: bool,
    is_utf8: bool,
    /// `None`: lines stay as they are.
    columns: Option<usize>,
}

impl Output {
    /// For events, one a line; what a terminal has no room for goes on in the next line.
    pub(crate) fn of_lines() -> Self {
        Self { columns: columns().filter(|_| is_terminal()), has_colors: has_colors(), ..Self::of_json() }
    }

    /// For JSON.
    pub(crate) fn of_json() -> Self {
        let out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
        Self { out, has_colors: false, is_utf8: is_utf8(), columns: None }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = harmless(bytes, self.has_colors, self.is_utf8);
        match self.columns {
            None => self.out.write_all(&text)?,
            Some(columns) => {
                let text = String::from_utf8_lossy(&text);
                let lines = text.split('\n').map(|line| fold(line, columns, HANG));
                self.out.write_all(lines.collect::<Vec<_>>().join("\n").as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A report for a stream of so many columns.
fn fitted(text: &str, columns: Option<usize>, is_utf8: bool) -> String {
    let text = if is_utf8 { Cow::Borrowed(text) } else { Cow::Owned(in_ascii(text)) };
    fit(&text, columns.unwrap_or(usize::MAX))
}

/// The text with a stand-in for each character of sordino's own that is not ASCII's, and escapes for those of others.
fn in_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        match IN_ASCII.iter().find(|(own, _)| *own == character) {
            Some((_, stand_in)) => ascii.push(*stand_in),
            None if character.is_ascii() || character == TIE => ascii.push(character),
            None => escape(character, &mut ascii),
        }
    }
    ascii
}

/// Writes a character as JSON does.
fn escape(character: char, out: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// The text with escapes for all that is not printable, and unless `is_utf8` for all that is not ASCII, but for newlines and tabs and,
/// `with_colors`, [`COLORS`].
fn harmless(text: &[u8], with_colors: bool, is_utf8: bool) -> Cow<'_, [u8]> {
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
        let is_shown = is_printable(character) && (is_utf8 || character.is_ascii());
        if color.is_some() || matches!(character, '\n' | '\t') || is_shown {
            harmless += taken;
        } else {
            escape(character, &mut harmless);
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
        String::from_utf8(harmless(text.as_bytes(), with_colors, true).into_owned()).unwrap()
    }

    #[test]
    fn no_byte_that_a_terminal_obeys_gets_through() {
        let all: Vec<u8> = (0..=255).collect();
        let shown = harmless(&all, true, true);
        let text = std::str::from_utf8(&shown).unwrap();
        assert!(text.chars().all(|c| matches!(c, '\n' | '\t') || is_printable(c)), "{text}");
        assert_eq!(
            super::harmless("\u{9b}2J\x1b]0;x\x07".as_bytes(), true, true).as_ref(),
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
    fn without_utf_8_own_characters_have_stand_ins_and_others_are_escaped() {
        assert_eq!(fitted("a\u{2026} Z\u{fc}rich \u{65e5}\n", None, false), "a~ Z\\u00fcrich \\u65e5\n");
        assert_eq!(fitted("a\u{2026}", None, true), "a\u{2026}");
        let value = serde_json::json!({ "name": "Z\u{fc}rich \u{2026} \u{1f600}" });
        let text = harmless(value.to_string().as_bytes(), false, false).into_owned();
        assert!(text.is_ascii(), "{}", String::from_utf8_lossy(&text));
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn json_holds_the_same_afterwards() {
        let value = serde_json::json!({ "name": "\u{9b}\u{7f}\u{202e}\u{e0041}\x1b\n é" });
        let shown = shown(&value.to_string(), false);
        assert!(shown.contains("\\udb40\\udc41"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
