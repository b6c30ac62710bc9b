//! The text in which a traced program publishes its tracepoints.
//!
//! One item a line, its words separated by tabs:
//!
//! | line | meaning |
//! |---|---|
//! | `event` id level provider name file line | a tracepoint begins; file and line may be empty |
//! | `field` type name | its next field; the types are those that [`Type`] prints |
//! | `label` low high text | a label of the enumeration that is the last field |
//! | `end` | the tracepoint is complete |
//!
//! The program writes with [`Writer`], which never allocates; the collector reads with [`parse`], which trusts
//! nothing. Complete tracepoints may follow later (a plug-in was loaded): the text only ever grows.
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

use crate::{Field, Level, MAX_FIELDS, MAX_NAME, Range, Schema, Type};
use std::fmt;

/// Writes tracepoints as text.
///
/// Real-time: does not allocate unless `W` does; bounded by the text's length.
#[derive(Debug)]
pub struct Writer<W>(W);

impl<W: fmt::Write> Writer<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self(out)
    }

    /// Begins a tracepoint.
    ///
    /// # Errors
    /// When `out` takes no more; so with the other functions.
    pub fn event(
        &mut self,
        id: u16,
        level: Level,
        provider: &str,
        name: &str,
        file: &str,
        line: u32,
    ) -> fmt::Result {
        let (level, provider, name, file) = (level.number(), Word(provider), Word(name), Word(file));
        writeln!(self.0, "event\t{id}\t{level}\t{provider}\t{name}\t{file}\t{line}")
    }

    /// Adds a field of type `ty`, written as [`Type`] prints it.
    ///
    /// # Errors
    /// When `out` takes no more.
    pub fn field(&mut self, ty: &dyn fmt::Display, name: &str) -> fmt::Result {
        writeln!(self.0, "field\t{ty}\t{}", Word(name))
    }

    /// Adds a label to the enumeration that is the last field.
    ///
    /// # Errors
    /// When `out` takes no more.
    pub fn label(&mut self, low: i64, high: i64, text: &str) -> fmt::Result {
        writeln!(self.0, "label\t{low}\t{high}\t{}", Word(text))
    }

    /// Completes the tracepoint.
    ///
    /// # Errors
    /// When `out` takes no more.
    pub fn end(&mut self) -> fmt::Result {
        self.0.write_str("end\n")
    }
}

/// A word with what would break the line replaced by `?`.
struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(|c: char| c.is_control()) {
            match part.strip_suffix(|c: char| c.is_control()) {
                Some(clean) => write!(f, "{clean}?")?,
                None => f.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// What is wrong with a catalogue, and in which line (from 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, counted from 1 at the start of the text given to [`parse`].
    pub line: usize,
    /// What is wrong there.
    pub kind: ErrorKind,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not UTF-8.
    NotText,
    /// It is none of the four kinds of line, or has too few or too many words.
    Malformed,
    /// A number is none, or out of range.
    Number,
    /// A field's type is unknown.
    Type,
    /// A name is empty, too long or no identifier.
    Name,
    /// The line stands where it may not: a field outside an event, a label without an enumeration.
    Misplaced,
    /// More than [`MAX_FIELDS`] fields, or two of one name.
    Fields,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ErrorKind::NotText => "not text",
            ErrorKind::Malformed => "malformed",
            ErrorKind::Number => "bad number",
            ErrorKind::Type => "unknown type",
            ErrorKind::Name => "bad name",
            ErrorKind::Misplaced => "misplaced line",
            ErrorKind::Fields => "too many fields, or two of one name",
        };
        write!(f, "line {} of the program's catalogue: {what}", self.line)
    }
}

impl std::error::Error for Error {}

/// Reads the complete tracepoints at the start of `text`: each with its id, and how many bytes they took.
/// A tracepoint whose `end` is missing is left for the next time.
///
/// # Errors
/// If a complete line does not make sense. `text` is not trusted; this never panics.
pub fn parse(text: &[u8]) -> Result<(Vec<(u16, Schema)>, usize), Error> {
    let mut parser = Parser::default();
    let mut consumed = 0;
    let mut position = 0;
    for (number, line) in (1..).zip(text.split_inclusive(|&byte| byte == b'\n')) {
        let Some(line_text) = line.strip_suffix(b"\n") else { break };
        position += line.len();
        let complete = parser.line(line_text).map_err(|kind| Error { line: number, kind })?;
        if complete {
            consumed = position;
        }
    }
    Ok((parser.done, consumed))
}

#[derive(Default)]
struct Parser {
    open: Option<(u16, Schema)>,
    done: Vec<(u16, Schema)>,
}

impl Parser {
    /// Takes one line; whether it completed a tracepoint.
    fn line(&mut self, line: &[u8]) -> Result<bool, ErrorKind> {
        let line = std::str::from_utf8(line).or(Err(ErrorKind::NotText))?;
        let mut words = [""; 7];
        let mut count = 0;
        for word in line.split('\t') {
            *words.get_mut(count).ok_or(ErrorKind::Malformed)? = word;
            count += 1;
        }
        match words[..count] {
            ["event", id, level, provider, name, file, line] => {
                self.begin(id, level, [provider, name], file, line)?;
            }
            ["field", ty, name] => self.field(ty, name)?,
            ["label", low, high, text] => self.label(low, high, text)?,
            ["end"] => {
                self.done.push(self.open.take().ok_or(ErrorKind::Misplaced)?);
                return Ok(true);
            }
            _ => return Err(ErrorKind::Malformed),
        }
        Ok(false)
    }

    fn begin(
        &mut self,
        id: &str,
        level: &str,
        names: [&str; 2],
        file: &str,
        line: &str,
    ) -> Result<(), ErrorKind> {
        if self.open.is_some() {
            return Err(ErrorKind::Misplaced);
        }
        let [provider, name] = names.map(identifier);
        let location = (!file.is_empty()).then(|| Ok((file.to_owned(), number(line)?))).transpose()?;
        let level = Level::from_number(number(level)?).ok_or(ErrorKind::Number)?;
        let schema = Schema { provider: provider?, name: name?, level, location, fields: Vec::new() };
        self.open = Some((number(id)?, schema));
        Ok(())
    }

    fn field(&mut self, ty: &str, name: &str) -> Result<(), ErrorKind> {
        let (_, schema) = self.open.as_mut().ok_or(ErrorKind::Misplaced)?;
        let ty = ty.parse().or(Err(ErrorKind::Type))?;
        let name = identifier(name)?;
        if schema.fields.len() == MAX_FIELDS || schema.fields.iter().any(|field| field.name == name) {
            return Err(ErrorKind::Fields);
        }
        schema.fields.push(Field { name, ty });
        Ok(())
    }

    fn label(&mut self, low: &str, high: &str, text: &str) -> Result<(), ErrorKind> {
        let (_, schema) = self.open.as_mut().ok_or(ErrorKind::Misplaced)?;
        let field = schema.fields.last_mut().ok_or(ErrorKind::Misplaced)?;
        let enumeration = Type::enumeration_mut(&mut field.ty).ok_or(ErrorKind::Misplaced)?;
        if text.is_empty() || text.len() > MAX_NAME {
            return Err(ErrorKind::Name);
        }
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(ErrorKind::Number);
        }
        enumeration.ranges.push(Range { label: text.to_owned(), low, high });
        Ok(())
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, ErrorKind> {
    text.parse().or(Err(ErrorKind::Number))
}

/// A C identifier of at most [`MAX_NAME`] bytes: what every trace format takes as a name.
fn identifier(text: &str) -> Result<String, ErrorKind> {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if first && rest && text.len() <= MAX_NAME { Ok(text.to_owned()) } else { Err(ErrorKind::Name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scalar, Width};

    fn kind(text: &str) -> ErrorKind {
        parse(text.as_bytes()).unwrap_err().kind
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut text = String::new();
        let mut writer = Writer::new(&mut text);
        writer.event(7, Level::Debug, "net", "packet", "a b.c", 9).unwrap();
        writer.field(&"enum:u8", "kind").unwrap();
        writer.label(0, 0, "none of them").unwrap();
        writer.label(1, 9, "some").unwrap();
        writer.field(&"[u8x]", "bytes").unwrap();
        writer.end().unwrap();
        let (tracepoints, consumed) = parse(text.as_bytes()).unwrap();
        assert_eq!(consumed, text.len());
        let (id, schema) = &tracepoints[0];
        assert_eq!((*id, schema.full_name().as_str(), schema.level), (7, "net:packet", Level::Debug));
        assert_eq!(schema.location, Some(("a b.c".to_owned(), 9)));
        let Type::Scalar(Scalar::Enumeration(kind)) = &schema.fields[0].ty else { panic!("no enumeration") };
        assert_eq!(kind.integer.width, Width::W8);
        assert_eq!(kind.ranges[1], Range { label: "some".to_owned(), low: 1, high: 9 });
    }

    #[test]
    fn a_tracepoint_that_is_still_being_written_waits() {
        let text = "event\t1\t6\ta\tb\t\t0\nend\nevent\t2\t6\ta\tc\t\t0\nfield\tu8";
        let (tracepoints, consumed) = parse(text.as_bytes()).unwrap();
        assert_eq!((tracepoints.len(), &text[..consumed]), (1, "event\t1\t6\ta\tb\t\t0\nend\n"));
    }

    #[test]
    fn control_characters_never_break_a_line() {
        let mut text = String::new();
        let mut writer = Writer::new(&mut text);
        writer.event(1, Level::Info, "p", "n", "odd\tfile\n.c", 1).unwrap();
        writer.end().unwrap();
        let (tracepoints, _) = parse(text.as_bytes()).unwrap();
        assert_eq!(tracepoints[0].1.location, Some(("odd?file?.c".to_owned(), 1)));
    }

    #[test]
    fn nonsense_is_refused_by_its_kind() {
        let event = "event\t1\t6\tp\tn\tf\t1\n";
        for (tail, expected) in [
            ("nonsense\n", ErrorKind::Malformed),
            ("field\tu9\tx\n", ErrorKind::Type),
            ("field\tu8\tno identifier\n", ErrorKind::Name),
            ("field\tu8\tx\nfield\tu8\tx\n", ErrorKind::Fields),
            ("field\tu8\tx\nlabel\t0\t1\ta\n", ErrorKind::Misplaced),
            ("field\tenum:u8\tx\nlabel\t2\t1\ta\n", ErrorKind::Number),
            ("field\tenum:u8\tx\nlabel\t0\t1\t\n", ErrorKind::Name),
            (event, ErrorKind::Misplaced),
        ] {
            assert_eq!(kind(&format!("{event}{tail}")), expected, "{tail}");
        }
        assert_eq!(kind("end\n"), ErrorKind::Misplaced);
        assert_eq!(kind("field\tu8\tx\n"), ErrorKind::Misplaced);
        assert_eq!(kind("event\t65536\t6\tp\tn\tf\t1\n"), ErrorKind::Number);
        assert_eq!(kind("event\t1\t15\tp\tn\tf\t1\n"), ErrorKind::Number);
        assert_eq!(kind("event\t1\t6\t\tn\tf\t1\n"), ErrorKind::Name);
        assert_eq!(parse(b"\xff\n").unwrap_err().kind, ErrorKind::NotText);
    }

    #[test]
    fn there_is_a_limit_to_fields() {
        let mut text = String::from("event\t1\t6\tp\tn\tf\t1\n");
        for number in 0..=MAX_FIELDS {
            text += &format!("field\tu8\tf{number}\n");
        }
        assert_eq!(kind(&text), ErrorKind::Fields);
    }
}
