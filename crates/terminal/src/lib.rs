//! The only access to standard output and standard error.
//!
//! Names and strings from outside are made printable where they are put into a line ([`printable`]). Even without that,
//! they can't control a terminal: every character that is not printable is written as `\u001b` here, except newlines,
//! tabs and sordino's own colours. JSON stays valid and has the same value, since such characters are in its strings
//! only. If the locale is not UTF-8, all characters except ASCII are escaped.
//!
//! | what | goes through | lines that are too long |
//! |---|---|---|
//! | a report for a person | [`show`], [`show_as_message`] | are broken between words |
//! | events, one a line | [`ListingOutput`] | the same, on a terminal only |
//! | JSON | [`print()`] | stay |
//! | an error, a remark | [`message!`] | stay, so that commands in them can be copied |
//! | progress | [`ProgressLine`] | are cut |
//! | the cells of a view | [`Screen`], which has no text of its own | are cut by the view |
//!
//! | module | contents |
//! |---|---|
//! | `means` | the colours, characters and columns that an output can show |
//! | `progress` | the line that shows an activity while it lasts |
//! | `screen` | the whole terminal, for a view |
#![forbid(unsafe_code)]

mod means;
mod progress;
mod screen;

pub use means::{choose_color, is_utf8};
pub use progress::ProgressLine;
pub use screen::{Input, Screen};

use sordino_event::text::{is_plain, is_printable, printable};
use sordino_report::{COLORS, TIE, fit, fold};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, StdoutLock, Write};

/// Size of [`ListingOutput`]'s buffer, in bytes.
const BUFFER: usize = 1 << 18;
/// Indentation of an event's continued lines, in columns.
const HANG: usize = 4;
/// Columns of output that is not for a terminal.
const USUAL_COLUMNS: usize = 80;
/// sordino's own characters outside ASCII, each with its replacement for a locale other than UTF-8.
const IN_ASCII: [(char, char); 1] = [('\u{2026}', '~')];

/// Writes a line to standard error, formatted as by `format!`; newlines in it are escaped.
#[macro_export]
macro_rules! message {
    ($($argument:tt)*) => { $crate::message(&format!($($argument)*)) };
}

/// Writes one line to standard error; the function behind [`message!`].
pub fn message(line: &str) {
    messages(&format!("{}\n", printable(line)));
}

/// Writes a remark of sordino's own to standard error: one line that begins with `sordino:`.
pub fn remark(text: &str) {
    message(&format!("sordino: {text}"));
}

/// Writes whole lines to standard error. If that is closed, they are lost, without a failure.
pub fn messages(lines: &str) {
    let _ = io::stderr().lock().write_all(&harmless(lines.as_bytes(), false, is_utf8()));
}

/// Writes a report to standard error as [`show`] does.
pub fn show_as_message(text: &str) {
    messages(&fitted(text, means::columns(&io::stderr()), is_utf8()));
}

/// Writes to standard output. It is no failure if the reader has closed it, as `head` does.
pub fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    put(&harmless(text.as_ref(), false, is_utf8()))
}

/// Writes a report to standard output: its lines fit the terminal, and may have sordino's own colours.
pub fn show(text: &str) -> io::Result<()> {
    put(&harmless(fitted(text, columns(), is_utf8()).as_bytes(), has_colors(), is_utf8()))
}

/// Writes a command's answer to standard output: JSON, which [`print()`]s, or a report, which [`show`]s.
pub fn answer(text: &str, is_json: bool) -> io::Result<()> {
    if is_json { print(text) } else { show(text) }
}

/// Writes clap's help or errors to the stream that each belongs to.
pub fn show_usage(usage: &clap::Error) {
    let text = usage.render();
    let shown = |has_colors: bool| {
        let text = if has_colors { text.ansi().to_string() } else { text.to_string() };
        harmless(text.as_bytes(), has_colors, is_utf8()).into_owned()
    };
    // A failure could not be reported anywhere.
    let _ = match usage.use_stderr() {
        true => io::stderr().lock().write_all(&shown(means::has_colors(&io::stderr()))),
        false => io::stdout().lock().write_all(&shown(has_colors())),
    };
}

fn put(bytes: &[u8]) -> io::Result<()> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Returns standard output for the cells of a [`Screen`].
fn cells() -> io::Stdout {
    io::stdout()
}

/// Returns true if standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns true if standard error is a terminal.
pub fn has_terminal_for_errors() -> bool {
    io::stderr().is_terminal()
}

/// Returns true if standard output may have colours.
pub fn has_colors() -> bool {
    means::has_colors(&io::stdout())
}

/// Returns the columns of standard output; `None` if they are not known, and lines may have any length.
pub fn columns() -> Option<usize> {
    means::columns(&io::stdout())
}

/// Returns the columns for output whose lines must be broken.
pub fn layout_columns() -> usize {
    columns().unwrap_or(USUAL_COLUMNS)
}

/// Buffered standard output. Each write must have whole characters and, for events, whole lines.
pub struct ListingOutput {
    out: StdoutLock<'static>,
    /// The bytes that are not written yet; control characters are still in them.
    pending: Vec<u8>,
    has_colors: bool,
    is_utf8: bool,
    /// True for bytes that are no text and must not reach a terminal.
    is_binary: bool,
    /// `None`: lines stay as they are.
    columns: Option<usize>,
}

impl ListingOutput {
    /// An output for events, one in each line; on a terminal, a long line continues in the next.
    pub fn of_lines() -> Self {
        let mut output = Self::of_json();
        (output.columns, output.has_colors) = (columns().filter(|_| is_terminal()), has_colors());
        output
    }

    /// An output for JSON, whose lines are not broken.
    pub fn of_json() -> Self {
        Self {
            out: io::stdout().lock(),
            pending: Vec::with_capacity(BUFFER),
            has_colors: false,
            is_utf8: is_utf8(),
            is_binary: false,
            columns: None,
        }
    }

    /// An output for bytes that are no text; `None` if they would reach a terminal.
    pub fn of_bytes() -> Option<Self> {
        let mut output = Self::of_json();
        output.is_binary = true;
        (!is_terminal()).then_some(output)
    }

    /// Adds whole lines, which `append` appends to the buffer.
    ///
    /// # Errors
    /// Those of writing, as of other lines before.
    #[inline]
    pub fn add(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        append(&mut self.pending);
        if self.pending.len() >= BUFFER { self.write_pending() } else { Ok(()) }
    }

    fn write_pending(&mut self) -> io::Result<()> {
        let result = if self.is_binary {
            self.out.write_all(&self.pending)
        } else {
            let text = harmless_lines(&self.pending, self.has_colors, self.is_utf8);
            match self.columns {
                None => self.out.write_all(&text),
                Some(columns) => self.out.write_all(folded(&text, columns).as_bytes()),
            }
        };
        self.pending.clear();
        result
    }
}

impl Write for ListingOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(|pending| pending.extend_from_slice(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_pending()?;
        self.out.flush()
    }
}

impl Drop for ListingOutput {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

fn folded(text: &[u8], columns: usize) -> String {
    let text = String::from_utf8_lossy(text);
    text.split('\n').map(|line| fold(line, columns, HANG)).collect::<Vec<_>>().join("\n")
}

/// Returns false if the reader closed the output, as `head` does, which is no failure.
///
/// # Errors
/// Any other error of writing.
pub fn is_read(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns a report, broken into lines of so many columns.
fn fitted(text: &str, columns: Option<usize>, is_utf8: bool) -> String {
    let text = if is_utf8 { Cow::Borrowed(text) } else { Cow::Owned(in_ascii(text)) };
    fit(&text, columns.unwrap_or(usize::MAX))
}

/// Returns the text with replacements for sordino's own characters outside ASCII, and escapes for all others.
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

/// Appends a character as an escape of JSON.
fn escape(character: char, out: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// Returns the text with escapes for all unprintable characters and, unless `is_utf8`, for all characters outside
/// ASCII. Newlines and tabs stay, and with `with_colors` also [`COLORS`].
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

/// Does the same, line by line unless all are plain: one odd name costs the time of its own lines.
fn harmless_lines(text: &[u8], with_colors: bool, is_utf8: bool) -> Cow<'_, [u8]> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let harmless = lines.map(|line| harmless(line, with_colors, is_utf8));
    Cow::Owned(harmless.fold(Vec::with_capacity(text.len()), |mut all, line| {
        all.extend_from_slice(&line);
        all
    }))
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
            harmless("\u{9b}2J\x1b]0;x\x07".as_bytes(), true, true).as_ref(),
            br"\u009b2J\u001b]0;x\u0007"
        );
    }

    #[test]
    fn many_lines_are_as_harmless_as_each_alone() {
        let lines = ["plain\n", "\x1b[2J\n", "\n", "Z\u{fc}rich\n", "\x1b[32mnpt\x1b[0m\n", "no end\x07"];
        let all = lines.concat();
        for (with_colors, is_utf8) in [(true, true), (false, true), (true, false), (false, false)] {
            let alone: Vec<_> =
                lines.iter().map(|line| harmless(line.as_bytes(), with_colors, is_utf8)).collect();
            assert_eq!(harmless_lines(all.as_bytes(), with_colors, is_utf8), alone.concat());
        }
        assert!(matches!(harmless_lines(b"plain\nplain\n", false, true), Cow::Borrowed(_)));
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
