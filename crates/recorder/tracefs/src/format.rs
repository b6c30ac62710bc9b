//! Event formats: the layout of the kernel's event records.
//!
//! A record consists of the bytes that one event put into the trace buffer. Every record starts with the same common
//! fields; the first is the event's number, which identifies its format.

use crate::print::Hints;
use crate::{Error, EventName, Instance, Tracefs};
use sordino_event::{
    Enumeration, Field as SchemaField, Integer, Level, MAX_FIELDS, MAX_NAME, Scalar, Schema, Type, Width,
};

/// Layout of one event's records.
///
/// ```
/// let text = "name: irq_handler_exit\nID: 224\nformat:\n\
///     \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
///     \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
///     \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
///     \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
///     \tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\
///     \tfield:int ret;\toffset:12;\tsize:4;\tsigned:1;\n\n\
///     print fmt: \"irq=%d ret=%s\", REC->irq, REC->ret ? \"handled\" : \"unhandled\"\n";
/// let format = sordino_tracefs::Format::parse("irq", text)?;
/// assert_eq!((format.id, format.fields[1].offset), (224, 12));
/// assert_eq!(format.schema().fields[0].ty.to_string(), "i32");
/// # Ok::<(), sordino_tracefs::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Number of the event in its records; valid until the next boot.
    pub id: u16,
    /// Name of the event.
    pub event: EventName,
    /// Fields with which every record starts.
    pub common: Vec<RecordField>,
    /// Fields of this event.
    pub fields: Vec<RecordField>,
    /// The kernel's print format: a C format string and its arguments.
    pub print: String,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordField {
    /// Name of the field.
    pub name: String,
    /// C type of the field, or of an element if it has several.
    pub ty: String,
    /// Offset from the start of the record in bytes.
    pub offset: u32,
    /// Size in bytes. For a dynamic field, this is the size of its descriptor, not of its content.
    pub size: u32,
    /// True if it is a signed integer or an array of signed integers.
    pub signed: bool,
    /// Number and location of its values.
    pub kind: FieldKind,
}

/// Number and location of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// One value in the field itself.
    Single,
    /// A fixed number of values in the field itself.
    Array {
        /// Size of an element in bytes; it divides the field's size.
        element: u32,
    },
    /// Values elsewhere in the record. The field is a 32-bit descriptor: the content's length in its upper half, and
    /// the content's offset in its lower half.
    Dynamic {
        /// True if the offset counts from the end of this field (`__rel_loc`), false if from the start of the record
        /// (`__data_loc`).
        relative: bool,
    },
    /// Values from the field's offset to the end of the record.
    Tail,
}

impl Format {
    /// Parses the content of the kernel's file `events/SYSTEM/NAME/format`.
    ///
    /// # Errors
    /// [`Error::Format`] with the line. The text is untrusted.
    pub fn parse(system: &str, text: &str) -> Result<Self, Error> {
        let mut event = EventName { system: system.to_owned(), name: "?".to_owned() };
        // The print format may contain line breaks.
        let (text, print) = match text.split_once("\nprint fmt: ") {
            Some((text, print)) => (text, Some(print.trim_end())),
            None => (text, None),
        };
        let mut lines = (1..).zip(text.lines());
        let (line, found) = lines.next().unwrap_or((1, ""));
        let name = found.strip_prefix("name: ").filter(|name| is_identifier(name));
        event.name = name.ok_or_else(|| wrong(&event, line, "name: NAME", found))?.to_owned();
        let (line, found) = lines.next().unwrap_or((2, ""));
        let id = found.strip_prefix("ID: ").and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| wrong(&event, line, "ID: NUMBER", found))?;
        let (mut common, mut fields) = (Vec::new(), Vec::<RecordField>::new());
        for (line, found) in lines {
            if let Some(rest) = found.trim_start().strip_prefix("field:") {
                let field = field(rest).map_err(|expected| wrong(&event, line, expected, found))?;
                if field.name.starts_with("common_") {
                    common.push(field);
                } else if fields.iter().any(|other| other.name == field.name) {
                    return Err(wrong(&event, line, "each name once", found));
                } else if fields.len() == MAX_FIELDS {
                    return Err(wrong(&event, line, "at most 64 fields", found));
                } else {
                    fields.push(field);
                }
            } else if !found.is_empty() && found != "format:" {
                return Err(wrong(&event, line, "a field or the print format", found));
            }
        }
        let print = print
            .map(str::to_owned)
            .ok_or_else(|| wrong(&event, text.lines().count(), "print fmt: FORMAT", ""))?;
        if event.system == "ftrace" && event.name == "kernel_stack" {
            // It is declared with eight addresses, but written with as many as the stack has.
            if let Some(field) = fields.last_mut() {
                field.kind = FieldKind::Tail;
            }
        }
        Ok(Self { id, event, common, fields, print })
    }

    /// Converts the fields to a [`Schema`], by their C types and the print format.
    ///
    /// Text, dynamic or not, becomes a string. Pointers, and integers that are printed with `%x` or `%p`, become
    /// hexadecimal integers. Integers with literal labels in `__print_symbolic` or `__print_flags` become enumerations.
    /// All other types (sets of CPUs, structures) become hexadecimal bytes.
    pub fn schema(&self) -> Schema {
        let hints = Hints::of(&self.print);
        let field =
            |field: &RecordField| SchemaField { name: field.name.clone(), ty: field.schema_type(&hints) };
        Schema {
            provider: self.event.system.clone(),
            name: self.event.name.clone(),
            level: Level::Info,
            location: None,
            fields: self.fields.iter().map(field).collect(),
        }
    }
}

impl RecordField {
    fn schema_type(&self, hints: &Hints<'_>) -> Type {
        let bytes = Scalar::Integer(Integer::new(Width::W8, false).hexadecimal());
        match self.kind {
            FieldKind::Single => match self.scalar(self.size, hints) {
                Some(scalar) => Type::Scalar(scalar),
                None => Type::Array(bytes, self.size),
            },
            FieldKind::Array { .. } if self.ty == "char" => Type::Text(self.size),
            FieldKind::Array { element } => match self.scalar(element, hints) {
                Some(scalar) => Type::Array(scalar, self.size / element),
                None => Type::Array(bytes, self.size),
            },
            FieldKind::Dynamic { .. } if self.ty == "char" && !hints.is_numbers(&self.name) => Type::String,
            FieldKind::Tail if self.ty == "char" && hints.is_text(&self.name) => Type::String,
            FieldKind::Dynamic { .. } | FieldKind::Tail => {
                let scalar = element_size(&self.ty).and_then(|size| self.scalar(size, hints));
                Type::Sequence(scalar.unwrap_or(bytes))
            }
        }
    }

    /// Type of a value of `size` bytes; `None` if it is not an integer.
    fn scalar(&self, size: u32, hints: &Hints<'_>) -> Option<Scalar> {
        let width = Width::from_bytes(size)?;
        let labels = hints.labels(&self.name);
        let several = self.kind != FieldKind::Single;
        let integer = Integer::new(width, self.signed);
        Some(match width {
            Width::W8 if self.ty == "bool" => Scalar::Bool,
            _ if !several && !labels.is_empty() => {
                Scalar::Enumeration(Enumeration { integer, ranges: labels.to_vec() })
            }
            // Such arrays contain network and device addresses, keys or checksums.
            Width::W8 if several && !self.signed => Scalar::Integer(integer.hexadecimal()),
            _ if self.ty.contains('*') || hints.is_hexadecimal(&self.name) => {
                Scalar::Integer(integer.hexadecimal())
            }
            _ => Scalar::Integer(integer),
        })
    }
}

/// Size of a C type in bytes on 64-bit machines, for the types that occur in arrays.
fn element_size(ty: &str) -> Option<u32> {
    if ty.contains('*') {
        return Some(8);
    }
    Some(match ty.trim_start_matches("const ") {
        "bool" | "char" | "signed char" | "unsigned char" | "u8" | "__u8" | "uint8_t" | "s8" | "__s8"
        | "int8_t" => 1,
        "short" | "unsigned short" | "u16" | "__u16" | "uint16_t" | "s16" | "__s16" | "int16_t" => 2,
        "int" | "unsigned int" | "unsigned" | "u32" | "__u32" | "uint32_t" | "s32" | "__s32" | "int32_t"
        | "pid_t" => 4,
        "long" | "unsigned long" | "long long" | "unsigned long long" | "u64" | "__u64" | "uint64_t"
        | "s64" | "__s64" | "int64_t" | "size_t" | "ssize_t" => 8,
        _ => return None,
    })
}

fn wrong(event: &EventName, line: usize, expected: &'static str, found: &str) -> Error {
    Error::Format { event: event.to_string(), line, expected, found: found.trim().to_owned() }
}

/// Parses `TYPE NAME;\toffset:0;\tsize:2;\tsigned:0;`, the text behind `field:`.
pub(crate) fn field(text: &str) -> Result<RecordField, &'static str> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next().unwrap_or_default();
    let mut number = |key: &'static str, expected| {
        let value = parts.next().and_then(|part| part.strip_prefix(key)).ok_or(expected)?;
        value.parse::<u32>().map_err(|_| expected)
    };
    let offset = number("offset:", "offset:NUMBER")?;
    let size = number("size:", "size:NUMBER")?;
    let signed = number("signed:", "signed:0 or 1")? != 0;
    let (declaration, relative) = match declaration.split_once(' ') {
        Some(("__data_loc", rest)) => (rest.trim(), Some(false)),
        Some(("__rel_loc", rest)) => (rest.trim(), Some(true)),
        _ => (declaration, None),
    };
    let (declaration, length) = match declaration.split_once('[') {
        // `char[] name` occurs in dynamic fields only.
        Some((ty, name)) if relative.is_some() => {
            (format!("{ty} {}", name.trim_start_matches(']').trim()), None)
        }
        Some((rest, length)) => (rest.trim().to_owned(), Some(length.trim_end_matches(']'))),
        None => (declaration.to_owned(), None),
    };
    let (_, name) = declaration.rsplit_once([' ', '*']).ok_or("TYPE NAME")?;
    let ty = declaration[..declaration.len() - name.len()].trim_end().to_owned();
    if !is_identifier(name) {
        return Err("a field's name");
    }
    let kind = match (relative, length) {
        (Some(relative), _) if size == 4 => FieldKind::Dynamic { relative },
        (Some(_), _) => return Err("size:4 of a dynamic field"),
        _ if size == 0 => FieldKind::Tail,
        (None, Some(length)) => FieldKind::Array { element: array_element(&ty, size, length) },
        (None, None) => FieldKind::Single,
    };
    Ok(RecordField { name: name.to_owned(), ty, offset, size, signed, kind })
}

/// Returns true if `name` is a valid name in every trace format.
fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && name.len() <= MAX_NAME && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Size of an element of an array of `size` bytes. The length may be any C expression, and the type's size unknown;
/// then the elements are bytes.
fn array_element(ty: &str, size: u32, length: &str) -> u32 {
    let counted = length.parse().ok().and_then(|length: u32| size.checked_div(length));
    let element = counted.or_else(|| element_size(ty)).unwrap_or(1);
    if element > 0 && size.is_multiple_of(element) { element } else { 1 }
}

/// Formats of events on the running kernel.
impl Tracefs {
    /// Reads and parses the format of `event`.
    ///
    /// # Errors
    /// Returns an error if the event does not exist or its format cannot be parsed.
    pub fn format(&self, event: &EventName) -> Result<Format, Error> {
        Format::parse(&event.system, &self.format_text(event)?)
    }

    /// Reads the text of the format of `event`, for [`Format::parse`] elsewhere.
    ///
    /// # Errors
    /// Returns an error if the event does not exist.
    pub fn format_text(&self, event: &EventName) -> Result<String, Error> {
        self.root.read(&event.file("format"))
    }
}

impl Instance {
    /// Reads the same text as [`Tracefs::format_text`] through the instance: a group to which it was granted can read
    /// no other file.
    ///
    /// # Errors
    /// Returns an error if the event does not exist.
    pub fn format_text(&self, event: &EventName) -> Result<String, Error> {
        self.dir.read(&event.file("format"))
    }
}

#[cfg(test)]
mod tests;
