//! Event formats: how the kernel lays out the records of an event.
//!
//! A record is the bytes that one event put into the trace buffer. Every record starts with the same common
//! fields; the first of them is the event's number, by which its format is found.

use crate::print::Hints;
use crate::{Error, EventName, Instance, Tracefs};
use sordino_event::{
    Enumeration, Field as SchemaField, Integer, Level, MAX_FIELDS, MAX_NAME, Scalar, Schema, Type, Width,
};

/// The layout of one event's records.
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
    /// The event's number, which its records carry; this kernel's until it is booted again.
    pub id: u16,
    /// The event.
    pub event: EventName,
    /// The fields that every record starts with.
    pub common: Vec<Field>,
    /// The event's own fields.
    pub fields: Vec<Field>,
    /// How the kernel prints it: a C format string and its arguments.
    pub print: String,
}

/// A field in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its C type; an element's if it has more than one.
    pub ty: String,
    /// From the start of the record, in bytes.
    pub offset: u32,
    /// In bytes. That of the place and length of a dynamic field, not of its content.
    pub size: u32,
    /// Whether it is a signed integer, or an array of such.
    pub signed: bool,
    /// How many values it has, and where they are.
    pub kind: Kind,
}

/// How many values a field has, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value, here.
    Single,
    /// A fixed number of values, here.
    Array {
        /// The size of one in bytes; it divides the field's.
        element: u32,
    },
    /// Elsewhere in the record. Here is a 32-bit integer: the content's length in its upper half, and in its
    /// lower half where it is.
    Dynamic {
        /// Counted from the end of this field (`__rel_loc`), not from the start of the record (`__data_loc`).
        relative: bool,
    },
    /// Values from here to the end of the record.
    Tail,
}

impl Format {
    /// Reads what the kernel's file `events/SYSTEM/NAME/format` holds.
    ///
    /// # Errors
    /// [`Error::Format`], with the line. The text is not trusted.
    pub fn parse(system: &str, text: &str) -> Result<Self, Error> {
        let mut event = EventName { system: system.to_owned(), name: "?".to_owned() };
        // Line ends may stand in what is printed.
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
        let (mut common, mut fields) = (Vec::new(), Vec::<Field>::new());
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
            // Declared with eight addresses, written with as many as the stack has.
            if let Some(field) = fields.last_mut() {
                field.kind = Kind::Tail;
            }
        }
        Ok(Self { id, event, common, fields, print })
    }

    /// The fields as a [`Schema`]: what they are, told from their C types and from how the kernel prints them.
    ///
    /// Texts and dynamic text become strings, pointers and what is printed with `%x` or `%p` hexadecimal
    /// integers, integers with literal labels in `__print_symbolic` or `__print_flags` enumerations; what is
    /// none of the types there are (sets of CPUs, structures) hexadecimal bytes.
    pub fn schema(&self) -> Schema {
        let hints = Hints::of(&self.print);
        let field = |field: &Field| SchemaField { name: field.name.clone(), ty: field.schema_type(&hints) };
        Schema {
            provider: self.event.system.clone(),
            name: self.event.name.clone(),
            level: Level::Info,
            location: None,
            fields: self.fields.iter().map(field).collect(),
        }
    }
}

impl Field {
    fn schema_type(&self, hints: &Hints<'_>) -> Type {
        let bytes = Scalar::Integer(Integer::new(Width::W8, false).hexadecimal());
        match self.kind {
            Kind::Single => match self.scalar(self.size, hints) {
                Some(scalar) => Type::Scalar(scalar),
                None => Type::Array(bytes, self.size),
            },
            Kind::Array { .. } if self.ty == "char" => Type::Text(self.size),
            Kind::Array { element } => match self.scalar(element, hints) {
                Some(scalar) => Type::Array(scalar, self.size / element),
                None => Type::Array(bytes, self.size),
            },
            Kind::Dynamic { .. } if self.ty == "char" && !hints.is_numbers(&self.name) => Type::String,
            Kind::Tail if self.ty == "char" && hints.is_text(&self.name) => Type::String,
            Kind::Dynamic { .. } | Kind::Tail => {
                let scalar = element_size(&self.ty).and_then(|size| self.scalar(size, hints));
                Type::Sequence(scalar.unwrap_or(bytes))
            }
        }
    }

    /// What a value of `size` bytes is; `None` if it is no integer.
    fn scalar(&self, size: u32, hints: &Hints<'_>) -> Option<Scalar> {
        let width = Width::from_bytes(size)?;
        let labels = hints.labels(&self.name);
        let several = self.kind != Kind::Single;
        let integer = Integer::new(width, self.signed);
        Some(match width {
            Width::W8 if self.ty == "bool" => Scalar::Bool,
            _ if !several && !labels.is_empty() => {
                Scalar::Enumeration(Enumeration { integer, ranges: labels.to_vec() })
            }
            // Addresses of networks and devices, keys, checksums.
            Width::W8 if several && !self.signed => Scalar::Integer(integer.hexadecimal()),
            _ if self.ty.contains('*') || hints.is_hexadecimal(&self.name) => {
                Scalar::Integer(integer.hexadecimal())
            }
            _ => Scalar::Integer(integer),
        })
    }
}

/// How many bytes a C type has, as far as arrays are made of it; on the 64-bit machines that are traced here.
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

/// Reads `TYPE NAME;\toffset:0;\tsize:2;\tsigned:0;`, which stands behind `field:`.
pub(crate) fn field(text: &str) -> Result<Field, &'static str> {
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
        // `char[] name`, only with dynamic fields.
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
        (Some(relative), _) if size == 4 => Kind::Dynamic { relative },
        (Some(_), _) => return Err("size:4 of a dynamic field"),
        _ if size == 0 => Kind::Tail,
        (None, Some(length)) => Kind::Array { element: array_element(&ty, size, length) },
        (None, None) => Kind::Single,
    };
    Ok(Field { name: name.to_owned(), ty, offset, size, signed, kind })
}

/// Whether every trace format takes it as a name.
fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && name.len() <= MAX_NAME && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// How many bytes of `size` one of `length` elements has. The length may be any C expression, and a type's size
/// unknown; then they are bytes.
fn array_element(ty: &str, size: u32, length: &str) -> u32 {
    let counted = length.parse().ok().and_then(|length: u32| size.checked_div(length));
    let element = counted.or_else(|| element_size(ty)).unwrap_or(1);
    if element > 0 && size.is_multiple_of(element) { element } else { 1 }
}

/// Each event's format as this kernel has it now.
impl Tracefs {
    /// The layout of the records of `event`.
    ///
    /// # Errors
    /// If there is no such event, or its format makes no sense.
    pub fn format(&self, event: &EventName) -> Result<Format, Error> {
        Format::parse(&event.system, &self.format_text(event)?)
    }

    /// The same as the kernel writes it, for [`Format::parse`] elsewhere.
    ///
    /// # Errors
    /// If there is no such event.
    pub fn format_text(&self, event: &EventName) -> Result<String, Error> {
        self.root.read(&event.file("format"))
    }
}

impl Instance {
    /// The same as [`Tracefs::format_text`] says: who was granted the instance may read no other.
    ///
    /// # Errors
    /// If there is no such event.
    pub fn format_text(&self, event: &EventName) -> Result<String, Error> {
        self.dir.read(&event.file("format"))
    }
}

#[cfg(test)]
mod tests;
