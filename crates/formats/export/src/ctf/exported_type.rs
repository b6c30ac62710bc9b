//! Types of values as they were recorded, and the encoding of values by their type.

use sordino_event::{Base, View};
use std::collections::BTreeMap;

/// The type of a value. Numbers have 64 bits; all values are aligned to bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExportedType {
    Unsigned(Base),
    Signed(Base),
    Float,
    Text,
    /// An integer, and the labels of its values so far.
    Label(BTreeMap<i64, String>),
    /// A list of any length at the top of an event, with the type of its elements, if any list so far had one.
    Sequence(Option<Box<ExportedType>>),
    /// A list within another value: all values of this type have this length.
    Array(Option<Box<ExportedType>>, u32),
    Group(Vec<(String, ExportedType)>),
}

impl ExportedType {
    /// Returns the type of a value. A list has the type of its first element, which its other elements may not fit.
    pub(super) fn of(view: View<'_>, is_top: bool) -> Self {
        match view {
            View::Unsigned(_, base) => Self::Unsigned(base),
            View::Signed(_, base) => Self::Signed(base),
            View::Float(_) => Self::Float,
            View::Text(_) => Self::Text,
            View::Label(..) => Self::Label(BTreeMap::new()),
            View::List(entries) => {
                let mut rest = entries;
                let element = rest.next().map(|first| Box::new(Self::of(first, false)));
                match is_top {
                    true => Self::Sequence(element),
                    false => Self::Array(element, entries.count() as u32),
                }
            }
            View::Group(mut entries) => {
                let mut members = Vec::new();
                while let (Some(View::Text(name)), Some(value)) = (entries.next(), entries.next()) {
                    members.push((String::from_utf8_lossy(name).into_owned(), Self::of(value, false)));
                }
                Self::Group(members)
            }
        }
    }

    /// Appends a value. Returns false if it does not have this type; a part may have been appended then. `labels_left`
    /// is the number of labels that may still be added.
    pub(super) fn encode(&mut self, view: View<'_>, labels_left: &mut usize, out: &mut Vec<u8>) -> bool {
        match (self, view) {
            (Self::Unsigned(base), View::Unsigned(value, of)) if *base == of => {
                out.extend(value.to_ne_bytes())
            }
            (Self::Signed(base), View::Signed(value, of)) if *base == of => out.extend(value.to_ne_bytes()),
            (Self::Float, View::Float(value)) => out.extend(value.to_ne_bytes()),
            (Self::Text, View::Text(text)) => encode_text(text, out),
            (Self::Label(labels), View::Label(value, label)) => {
                if let Some(label) = label
                    && *labels_left > 0
                    && !labels.contains_key(&value)
                {
                    *labels_left -= 1;
                    labels.insert(value, String::from_utf8_lossy(label).into_owned());
                }
                out.extend(value.to_ne_bytes());
            }
            (Self::Sequence(element), View::List(entries)) => {
                let mut rest = entries;
                if let (None, Some(first)) = (&element, rest.next()) {
                    *element = Some(Box::new(Self::of(first, false)));
                }
                let Ok(length) = u32::try_from(entries.count()) else { return false };
                out.extend(length.to_ne_bytes());
                return elements(element, entries, labels_left, out);
            }
            (Self::Array(element, length), View::List(entries)) => {
                return entries.count() == *length as usize && elements(element, entries, labels_left, out);
            }
            (Self::Group(members), View::Group(mut entries)) => {
                for (name, ty) in members {
                    let (Some(View::Text(own)), Some(value)) = (entries.next(), entries.next()) else {
                        return false;
                    };
                    if String::from_utf8_lossy(own) != *name || !ty.encode(value, labels_left, out) {
                        return false;
                    }
                }
                return entries.next().is_none();
            }
            _ => return false,
        }
        true
    }
}

/// Appends the elements of a list. A list of lists has no type that all readers understand.
fn elements<'a>(
    element: &mut Option<Box<ExportedType>>,
    mut entries: impl Iterator<Item = View<'a>>,
    labels_left: &mut usize,
    out: &mut Vec<u8>,
) -> bool {
    match element.as_deref_mut() {
        None => entries.next().is_none(),
        Some(ExportedType::Array(..)) => false,
        Some(ty) => entries.all(|entry| ty.encode(entry, labels_left, out)),
    }
}

/// Appends a text that ends with a zero byte; a zero byte within the text becomes U+FFFD.
pub(super) fn encode_text(text: &[u8], out: &mut Vec<u8>) {
    for (index, part) in text.split(|byte| *byte == 0).enumerate() {
        if index > 0 {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
        out.extend_from_slice(part);
    }
    out.push(0);
}
