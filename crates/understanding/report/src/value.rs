//! The values of fields, as text and as JSON.

use sordino_event::text::Escaped;
use sordino_event::{Base, Class, Entries, Event, Loss, View};
use std::io::Write as _;

/// The maximum depth of nested values; deeper ones are shown as `...`. No format that is read nests as deep.
const DEPTH_MAX: usize = 64;

/// Writes `NAME = VALUE, ...`; each name with its separator comes from `names`. `behind` may add to a value.
pub(crate) fn text_fields(
    event: &Event,
    names: &[Vec<u8>],
    behind: impl Fn(&View<'_>, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    for (index, name) in names.iter().enumerate() {
        // Never copied: a copy in one piece waits for the stores of its parts.
        let Some(value) = &event.value(index) else { break };
        out.extend_from_slice(name);
        text_value(value, 0, out);
        behind(value, out);
    }
}

/// Returns the text before each value of the class in a text line. The context that the tracer adds to every event,
/// which stands last and is named `$ctx.`, is left out: it would hide the event's own fields from a person.
pub(crate) fn text_names(class: &Class) -> Vec<Vec<u8>> {
    let separators = std::iter::once("").chain(std::iter::repeat(", "));
    let own = class.fields.iter().take_while(|name| !name.starts_with("$ctx."));
    let line = |(name, separator): (&String, &str)| {
        let mut line = separator.as_bytes().to_vec();
        bare(name.as_bytes(), &mut line);
        line.extend_from_slice(b" = ");
        line
    };
    own.zip(separators).map(line).collect()
}

fn text_value(value: &View<'_>, depth: usize, out: &mut Vec<u8>) {
    match *value {
        View::Unsigned(value, base) => integer(false, value, base, out),
        View::Signed(value, base) => integer(value < 0, value.unsigned_abs(), base, out),
        View::Float(value) if value.is_finite() => {
            out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
        }
        View::Float(value) => out.extend_from_slice(not_finite(value).as_bytes()),
        View::Text(text) => quoted(text, out),
        View::Label(value, None) => decimal(value, out),
        View::Label(value, Some(label)) => {
            bare(label, out);
            out.extend_from_slice(b" (");
            decimal(value, out);
            out.push(b')');
        }
        View::List(_) | View::Group(_) if depth == DEPTH_MAX => out.extend_from_slice(b"..."),
        View::List(entries) => {
            out.push(b'[');
            for (index, entry) in entries.enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                text_value(&entry, depth + 1, out);
            }
            out.push(b']');
        }
        View::Group(entries) => {
            out.push(b'{');
            for (index, (name, value)) in members(entries).enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                bare(name, out);
                out.extend_from_slice(b" = ");
                text_value(&value, depth + 1, out);
            }
            out.push(b'}');
        }
    }
}

/// Writes `"NAME":VALUE,...`; each name with its separator comes from `names`.
pub(crate) fn json_fields(event: &Event, names: &[Vec<u8>], out: &mut Vec<u8>) {
    for (index, name) in names.iter().enumerate() {
        let Some(value) = &event.value(index) else { break };
        out.extend_from_slice(name);
        json_nested(value, 0, out);
    }
}

/// Returns the text before each value of the class in a JSON line.
pub(crate) fn json_names(class: &Class) -> Vec<Vec<u8>> {
    let separators = std::iter::once("").chain(std::iter::repeat(","));
    let line = |(name, separator): (&String, &str)| {
        let mut line = separator.as_bytes().to_vec();
        json_text(name.as_bytes(), &mut line);
        line.push(b':');
        line
    };
    class.fields.iter().zip(separators).map(line).collect()
}

/// Writes a value as JSON.
pub fn json_value(value: View<'_>, out: &mut Vec<u8>) {
    json_nested(&value, 0, out);
}

fn json_nested(value: &View<'_>, depth: usize, out: &mut Vec<u8>) {
    match *value {
        View::Unsigned(value, _) => decimal(value, out),
        View::Signed(value, _) => decimal(value, out),
        View::Float(value) if value.is_finite() => {
            out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes());
        }
        // JSON has no number for NaN and infinities.
        View::Float(value) => json_text(not_finite(value).as_bytes(), out),
        View::Text(text) => json_text(text, out),
        View::Label(value, label) => {
            out.extend_from_slice(b"{\"value\":");
            decimal(value, out);
            out.extend_from_slice(b",\"label\":");
            match label {
                Some(label) => json_text(label, out),
                None => out.extend_from_slice(b"null"),
            }
            out.push(b'}');
        }
        View::List(_) | View::Group(_) if depth == DEPTH_MAX => out.extend_from_slice(b"\"...\""),
        View::List(entries) => {
            out.push(b'[');
            for (index, entry) in entries.enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                json_nested(&entry, depth + 1, out);
            }
            out.push(b']');
        }
        View::Group(entries) => {
            out.push(b'{');
            for (index, (name, value)) in members(entries).enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                json_text(name, out);
                out.push(b':');
                json_nested(&value, depth + 1, out);
            }
            out.push(b'}');
        }
    }
}

/// Returns a group's members with their names.
fn members<'a>(mut entries: Entries<'a>) -> impl Iterator<Item = (&'a [u8], View<'a>)> {
    std::iter::from_fn(move || match (entries.next()?, entries.next()?) {
        (View::Text(name), value) => Some((name, value)),
        (_, value) => Some((&b"?"[..], value)),
    })
}

fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// Writes `NAME` and a number, or null, as a member of an object; the name has its quotes and separators.
pub(crate) fn member(out: &mut Vec<u8>, name: &[u8], value: Option<impl itoa::Integer>) {
    out.extend_from_slice(name);
    match value {
        Some(value) => decimal(value, out),
        None => out.extend_from_slice(b"null"),
    }
}

pub(crate) fn decimal(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn integer(negative: bool, magnitude: u64, base: Base, out: &mut Vec<u8>) {
    if negative {
        out.push(b'-');
    }
    // Writing to a vector does not fail.
    let _ = match base {
        Base::Decimal => return decimal(magnitude, out),
        Base::Hexadecimal => write!(out, "{magnitude:#x}"),
        Base::Octal => write!(out, "{magnitude:#o}"),
        Base::Binary => write!(out, "{magnitude:#b}"),
    };
}

/// Writes a name with escapes for characters that are not printable; invalid UTF-8 is replaced.
pub(crate) fn bare(text: &[u8], out: &mut Vec<u8>) {
    escaped(text, &[], out);
}

fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    escaped(text, b"\"\\", out);
    out.push(b'"');
}

fn escaped(text: &[u8], special: &[u8], out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !special.contains(byte);
    if text.iter().all(is_plain) {
        out.extend_from_slice(text);
        return;
    }
    for char in String::from_utf8_lossy(text).chars() {
        if char.is_ascii() && special.contains(&(char as u8)) {
            out.push(b'\\');
        }
        // Writing to a vector does not fail.
        let _ = write!(out, "{}", Escaped(char));
    }
}

/// Appends the place of a loss as a member of an object that has others before it, if the loss has one.
pub fn json_place(loss: &Loss, out: &mut Vec<u8>) {
    if let Some(place) = &loss.place {
        out.extend_from_slice(b",\"place\":");
        json_text(place.as_bytes(), out);
    }
}

/// Writes a JSON string; invalid UTF-8 is replaced.
pub fn json_text(text: &[u8], out: &mut Vec<u8>) {
    // Strings are always JSON, and writing to a vector does not fail.
    let _ = serde_json::to_writer(out, &String::from_utf8_lossy(text));
}
