//! A reader of catalogues that trusts nothing: it rejects each invalid tracepoint and accepts the others.

use super::Unregistered;
use crate::text::printable;
use crate::{Field, Level, MAX_FIELDS, MAX_NAME, Range, Schema, Type};
use std::borrow::Cow;
use std::fmt;

/// The complete items at the start of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The tracepoints, each with its number.
    pub tracepoints: Vec<(u16, Schema)>,
    /// Tracepoints that cannot be recorded.
    pub refused: Vec<RejectedTracepoint>,
    /// The number of bytes that all of these items take; the text behind them is incomplete.
    pub consumed: usize,
}

/// A tracepoint that cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedTracepoint {
    /// `provider:name` as it was declared, cut after some hundred bytes; empty where lines belong to no tracepoint.
    pub name: String,
    /// The reason for which it cannot be recorded, and the line.
    pub error: Error,
}

impl fmt::Display for RejectedTracepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name.as_str(), &self.error.kind) {
            ("", _) => self.error.fmt(f),
            (name, kind) => write!(f, "{}: {kind}", printable(name)),
        }
    }
}

/// A fault in a catalogue, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The line, counted from 1 at the start of the text given to [`read`].
    pub line: usize,
    /// The kind of fault.
    pub kind: ErrorKind,
}

/// The kinds of faults in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not UTF-8.
    NotText,
    /// The kind of the line is not known, or it has too few or too many words.
    Malformed,
    /// A word is not a number, or the number is out of range.
    Number(String),
    /// A field's type is unknown.
    Type(String),
    /// A name is empty, too long or no identifier.
    Name(String),
    /// The line is at an invalid place, for example a field outside an event or a label without an enumeration.
    Misplaced,
    /// The tracepoint has more than [`MAX_FIELDS`] fields.
    TooManyFields,
    /// Two fields have this name.
    FieldTwice(String),
    /// The program could not register the tracepoint.
    Unregistered(Unregistered),
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotText => f.write_str("not text"),
            Self::Malformed => f.write_str("malformed"),
            Self::Number(text) => write!(f, "bad number '{}'", printable(text)),
            Self::Type(text) => write!(f, "unknown type '{}'", printable(text)),
            Self::Name(text) => {
                write!(
                    f,
                    "bad name '{}': letters, digits and _ make a name, at most {MAX_NAME}",
                    printable(text)
                )
            }
            Self::Misplaced => f.write_str("misplaced line"),
            Self::TooManyFields => write!(f, "more than {MAX_FIELDS} fields"),
            Self::FieldTwice(name) => write!(f, "two fields of the name '{name}'"),
            Self::Unregistered(reason) => reason.fmt(f),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the program's catalogue: {}", self.line, self.kind)
    }
}

impl std::error::Error for Error {}

/// Reads the complete tracepoints at the start of `text`. Returns each with its id, and the number of bytes that they
/// took.
///
/// # Errors
/// The first rejected tracepoint, for callers with catalogues that have to be valid.
pub fn parse(text: &[u8]) -> Result<(Vec<(u16, Schema)>, usize), Error> {
    let Read { tracepoints, refused, consumed } = read(text);
    refused.into_iter().next().map_or(Ok((tracepoints, consumed)), |refused| Err(refused.error))
}

/// Reads the complete items at the start of `text`, which is not trusted: the function never panics, and takes memory
/// in proportion to the text's length. A tracepoint without its `end` is left for the next call.
pub fn read(text: &[u8]) -> Read {
    let mut parser = Parser::default();
    let mut position = 0;
    for (number, line) in (1..).zip(text.split_inclusive(|&byte| byte == b'\n')) {
        let Some(line_text) = line.strip_suffix(b"\n") else { break };
        let text = String::from_utf8_lossy(line_text);
        parser.line(
            &CatalogueLine::of(&text, matches!(text, Cow::Borrowed(_)), number),
            position,
            position + line.len(),
        );
        position += line.len();
    }
    parser.read
}

/// The words of a line. No valid line has more than seven.
struct CatalogueLine<'a> {
    number: usize,
    words: [&'a str; 7],
    count: usize,
    /// A fault of the whole tracepoint.
    fault: Option<ErrorKind>,
}

impl<'a> CatalogueLine<'a> {
    fn of(text: &'a str, is_text: bool, number: usize) -> Self {
        let mut words = [""; 7];
        let count = text.split('\t').zip(&mut words).map(|(from, to)| *to = from).count();
        let is_long = text.split('\t').nth(words.len()).is_some();
        let fault = if is_text { is_long.then_some(ErrorKind::Malformed) } else { Some(ErrorKind::NotText) };
        Self { number, words, count, fault }
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error { line: self.number, kind }
    }
}

/// A tracepoint whose `end` has not been read yet.
struct Open {
    name: String,
    schema: Result<(u16, Schema), Error>,
}

#[derive(Default)]
struct Parser {
    open: Option<Open>,
    /// True after a rejected line that belongs to no tracepoint: a run of such lines is reported once.
    is_astray: bool,
    read: Read,
}

impl Parser {
    /// Reads one line, which lies between these bytes of the text.
    fn line(&mut self, line: &CatalogueLine<'_>, start: usize, end: usize) {
        match (&line.words[..line.count], self.open.take()) {
            (["event", words @ ..], before) => {
                if let Some(Open { name, schema }) = before {
                    let unfinished = line.error(ErrorKind::Misplaced);
                    self.refuse(name, schema.err().unwrap_or(unfinished), start);
                }
                self.is_astray = false;
                let name = [2, 3].map(|word| cut(words.get(word).copied().unwrap_or_default())).join(":");
                let schema = line.fault.clone().map_or_else(|| begin(words), Err);
                self.open = Some(Open { name, schema: schema.map_err(|kind| line.error(kind)) });
            }
            (["end"], Some(Open { schema: Ok(tracepoint), .. })) => {
                self.read.tracepoints.push(tracepoint);
                self.read.consumed = end;
            }
            (["end"], Some(Open { name, schema: Err(error) })) => self.refuse(name, error, end),
            (words, Some(mut open)) => {
                if let Ok((_, schema)) = &mut open.schema
                    && let Err(kind) = line.fault.clone().map_or_else(|| add(schema, words), Err)
                {
                    open.schema = Err(line.error(kind));
                }
                self.open = Some(open);
            }
            (["refused", reason, provider, name], None) => {
                let known = Unregistered::ALL.into_iter().find(|known| known.word() == *reason);
                let kind = known.map_or(ErrorKind::Malformed, ErrorKind::Unregistered);
                self.refuse([*provider, *name].map(cut).join(":"), line.error(kind), end);
            }
            (words, None) => {
                let is_known = matches!(words, ["field" | "label" | "end", ..]);
                let kind = if is_known { ErrorKind::Misplaced } else { ErrorKind::Malformed };
                if self.is_astray {
                    self.read.consumed = end;
                } else {
                    self.refuse(String::new(), line.error(line.fault.clone().unwrap_or(kind)), end);
                }
                self.is_astray = true;
            }
        }
    }

    fn refuse(&mut self, name: String, error: Error, end: usize) {
        self.read.refused.push(RejectedTracepoint { name, error });
        self.read.consumed = end;
    }
}

/// Returns the tracepoint that a line begins; `words` is the line without its first word.
fn begin(words: &[&str]) -> Result<(u16, Schema), ErrorKind> {
    let [id, level, provider, name, file, line] = *words else { return Err(ErrorKind::Malformed) };
    let location = (!file.is_empty()).then(|| Ok((file.to_owned(), number(line)?))).transpose()?;
    let known = Level::from_number(number(level)?).ok_or_else(|| ErrorKind::Number(cut(level)))?;
    let (provider, name) = (identifier(provider)?, identifier(name)?);
    Ok((number(id)?, Schema { provider, name, level: known, location, fields: Vec::new() }))
}

/// Adds a field or a label to the tracepoint that the line belongs to.
fn add(schema: &mut Schema, words: &[&str]) -> Result<(), ErrorKind> {
    match *words {
        ["field", ty, name] => field(schema, ty, name),
        ["label", low, high, text] => label(schema, low, high, text),
        ["refused", ..] => Err(ErrorKind::Misplaced),
        _ => Err(ErrorKind::Malformed),
    }
}

fn field(schema: &mut Schema, ty: &str, name: &str) -> Result<(), ErrorKind> {
    let ty = ty.parse().map_err(|_| ErrorKind::Type(cut(ty)))?;
    let name = identifier(name)?;
    if schema.fields.len() == MAX_FIELDS {
        return Err(ErrorKind::TooManyFields);
    }
    if schema.fields.iter().any(|field| field.name == name) {
        return Err(ErrorKind::FieldTwice(name));
    }
    schema.fields.push(Field { name, ty });
    Ok(())
}

fn label(schema: &mut Schema, low: &str, high: &str, text: &str) -> Result<(), ErrorKind> {
    let field = schema.fields.last_mut().ok_or(ErrorKind::Misplaced)?;
    let enumeration = Type::enumeration_mut(&mut field.ty).ok_or(ErrorKind::Misplaced)?;
    if text.is_empty() || text.len() > MAX_NAME {
        return Err(ErrorKind::Name(cut(text)));
    }
    let range = Range { label: text.to_owned(), low: number(low)?, high: number(high)? };
    if range.low > range.high {
        return Err(ErrorKind::Number(cut(high)));
    }
    enumeration.ranges.push(range);
    Ok(())
}

/// Cuts a word to the maximum length in a message.
fn cut(word: &str) -> String {
    const MOST: usize = 120;
    if word.len() <= MOST {
        word.to_owned()
    } else {
        format!("{}...", &word[..word.floor_char_boundary(MOST)])
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, ErrorKind> {
    text.parse().map_err(|_| ErrorKind::Number(cut(text)))
}

/// Returns `text` if it is a C identifier of at most [`MAX_NAME`] bytes, which every trace format accepts as a name.
fn identifier(text: &str) -> Result<String, ErrorKind> {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if first && rest && text.len() <= MAX_NAME {
        Ok(text.to_owned())
    } else {
        Err(ErrorKind::Name(cut(text)))
    }
}

#[cfg(test)]
mod tests;
