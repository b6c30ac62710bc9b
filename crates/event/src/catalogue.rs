//! The text in which a traced program publishes its tracepoints.
//!
//! Each line is an item, and its words are separated by tabs:
//!
//! ```text
//! event   NUMBER LEVEL PROVIDER NAME FILE LINE   begins a tracepoint; LEVEL is a number
//! field   TYPE NAME                              adds a field to it
//! label   LOW HIGH TEXT                          adds a label to the enumeration that is the last field
//! end                                            completes the tracepoint
//! refused REASON PROVIDER NAME                   a tracepoint that could not be registered
//! ```
//!
//! The program writes with [`Writer`], which never allocates. The collector reads with [`read`], which trusts nothing:
//! it rejects an invalid tracepoint, and reads the others. Complete tracepoints may follow later, when the program
//! loads a plug-in: the text only ever grows.
//!
//! ```
//! use sordino_event::catalogue::{parse, Writer};
//! use sordino_event::Level;
//! let mut text = String::new();
//! let mut writer = Writer::new(&mut text);
//! writer.event(3, Level::Info, "motor", "period", "motor.c", 12)?;
//! writer.field(&"u64", "cycle")?;
//! writer.end()?;
//! let (tracepoints, consumed) = parse(text.as_bytes())?;
//! assert_eq!(tracepoints[0].1.full_name(), "motor:period");
//! assert_eq!(consumed, text.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod parser;

pub use parser::{Error, ErrorKind, Read, RejectedTracepoint, parse, read};

use crate::Level;
use std::fmt;

/// The longest text of one tracepoint, in bytes: some 8,000 labels. The program rejects a longer one.
pub const MAX_TEXT: usize = 256 << 10;

/// The reason for which a program cannot register a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unregistered {
    /// The level's number belongs to no [`Level`].
    Level,
    /// A name, a type or a label is not UTF-8.
    NotText,
    /// The tracepoint's text is longer than [`MAX_TEXT`].
    TooLong,
    /// The program's area has no room for another tracepoint, or for its text.
    NoRoom,
}

impl Unregistered {
    const ALL: [Self; 4] = [Self::Level, Self::NotText, Self::TooLong, Self::NoRoom];

    /// Returns the reason's word in the catalogue.
    const fn word(self) -> &'static str {
        match self {
            Self::Level => "level",
            Self::NotText => "text",
            Self::TooLong => "long",
            Self::NoRoom => "room",
        }
    }
}

impl fmt::Display for Unregistered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level => f.write_str("unknown level"),
            Self::NotText => f.write_str("a name, type or label that is not UTF-8"),
            Self::TooLong => write!(f, "its declaration takes more than {} KiB", MAX_TEXT >> 10),
            Self::NoRoom => f.write_str("no room in the program's area"),
        }
    }
}

/// Writes tracepoints as text.
///
/// Real-time: does not allocate unless `W` does; bounded by the text's length.
#[derive(Debug)]
pub struct Writer<W>(W);

impl<W: fmt::Write> Writer<W> {
    /// Creates a writer that appends to `out`.
    pub fn new(out: W) -> Self {
        Self(out)
    }

    /// Begins a tracepoint.
    ///
    /// # Errors
    /// The error of `out`, if it is full.
    pub fn event(
        &mut self,
        id: u16,
        level: Level,
        provider: &str,
        name: &str,
        file: &str,
        line: u32,
    ) -> fmt::Result {
        let (level, provider, name, file) =
            (level.number(), PrintableWord(provider), PrintableWord(name), PrintableWord(file));
        writeln!(self.0, "event\t{id}\t{level}\t{provider}\t{name}\t{file}\t{line}")
    }

    /// Adds a field of type `ty`, written as [`Type`](crate::Type) prints it.
    ///
    /// # Errors
    /// The error of `out`, if it is full.
    pub fn field(&mut self, ty: &dyn fmt::Display, name: &str) -> fmt::Result {
        writeln!(self.0, "field\t{ty}\t{}", PrintableWord(name))
    }

    /// Adds a label to the enumeration that is the last field.
    ///
    /// # Errors
    /// The error of `out`, if it is full.
    pub fn label(&mut self, low: i64, high: i64, text: &str) -> fmt::Result {
        writeln!(self.0, "label\t{low}\t{high}\t{}", PrintableWord(text))
    }

    /// Completes the tracepoint.
    ///
    /// # Errors
    /// The error of `out`, if it is full.
    pub fn end(&mut self) -> fmt::Result {
        self.0.write_str("end\n")
    }

    /// Names a tracepoint that could not be registered.
    ///
    /// # Errors
    /// The error of `out`, if it is full.
    pub fn refused(&mut self, reason: Unregistered, provider: &str, name: &str) -> fmt::Result {
        writeln!(self.0, "refused\t{}\t{}\t{}", reason.word(), PrintableWord(provider), PrintableWord(name))
    }
}

/// A word whose control characters, which would break the line, are replaced by `?`.
struct PrintableWord<'a>(&'a str);

impl fmt::Display for PrintableWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.contains(char::is_control) {
            return f.write_str(self.0);
        }
        for part in self.0.split_inclusive(|c: char| c.is_control()) {
            match part.strip_suffix(|c: char| c.is_control()) {
                Some(clean) => write!(f, "{clean}?")?,
                None => f.write_str(part)?,
            }
        }
        Ok(())
    }
}
