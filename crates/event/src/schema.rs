//! The schema of a tracepoint: the layout of its records.
//!
//! A record's payload is its fields one after the other, packed: every field starts at the byte where the previous one
//! ended. Numbers have the machine's byte order unless their type has [`ByteOrder::Network`]. A [`Type::String`] ends
//! with a zero byte; a [`Type::Sequence`] starts with its length as a `u16` in the machine's byte order.

use crate::Level;
use std::fmt;
use std::str::FromStr;

/// The maximum number of fields of a tracepoint.
pub const MAX_FIELDS: usize = 64;
/// The maximum length of a provider's, event's, field's or label's name, in bytes.
pub const MAX_NAME: usize = 255;

/// The width of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Width {
    W8,
    W16,
    W32,
    W64,
}

impl Width {
    /// Returns the width in bits.
    pub const fn bits(self) -> u32 {
        8 * self.bytes()
    }

    /// Returns the width in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::W8 => 1,
            Self::W16 => 2,
            Self::W32 => 4,
            Self::W64 => 8,
        }
    }

    /// Returns the width of this many bytes, if integers can have it.
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        Some(match bytes {
            1 => Self::W8,
            2 => Self::W16,
            4 => Self::W32,
            8 => Self::W64,
            _ => return None,
        })
    }
}

/// The base in which an integer is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Base {
    #[default]
    Decimal,
    Hexadecimal,
    Octal,
    Binary,
}

/// The order of an integer's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The byte order of the traced machine.
    #[default]
    Host,
    /// Most significant byte first.
    Network,
}

/// The type of an integer field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Integer {
    pub width: Width,
    pub signed: bool,
    pub base: Base,
    pub order: ByteOrder,
}

impl Integer {
    /// Creates a decimal integer in the machine's byte order.
    pub const fn new(width: Width, signed: bool) -> Self {
        Self { width, signed, base: Base::Decimal, order: ByteOrder::Host }
    }

    /// Returns the same type, printed in hexadecimal.
    pub const fn hexadecimal(self) -> Self {
        Self { base: Base::Hexadecimal, ..self }
    }
}

/// The width of a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum FloatWidth {
    Single,
    Double,
}

/// One label of an enumeration, and the values that have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The text that is printed.
    pub label: String,
    /// The least value with this label.
    pub low: i64,
    /// The greatest value with this label; equal to `low` for a single one.
    pub high: i64,
}

/// An integer whose values have labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Enumeration {
    /// The encoding of the value in the record.
    pub integer: Integer,
    /// The labels, in the order they were declared.
    pub ranges: Vec<Range>,
}

/// A scalar type, for single values and the elements of arrays.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// An integer without labels.
    Integer(Integer),
    /// A floating-point number of IEEE 754.
    Float(FloatWidth),
    /// One byte: 0 is false, anything else true.
    Bool,
    /// An integer with labels.
    Enumeration(Enumeration),
}

impl Scalar {
    /// Returns the size of a value in bytes.
    pub const fn bytes(&self) -> u32 {
        match self {
            Self::Integer(integer) => integer.width.bytes(),
            Self::Float(FloatWidth::Single) => 4,
            Self::Float(FloatWidth::Double) => 8,
            Self::Bool => 1,
            Self::Enumeration(enumeration) => enumeration.integer.width.bytes(),
        }
    }
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A single scalar value.
    Scalar(Scalar),
    /// UTF-8 text that ends with a zero byte.
    String,
    /// Text in a fixed number of bytes, filled up with zeros.
    Text(u32),
    /// A fixed number of values.
    Array(Scalar, u32),
    /// A `u16` length, then this many values. A blob is a sequence of hexadecimal bytes.
    Sequence(Scalar),
}

impl Type {
    /// Returns the size of a value in bytes, if it is the same for all.
    pub const fn bytes(&self) -> Option<u32> {
        match self {
            Self::Scalar(scalar) => Some(scalar.bytes()),
            Self::Text(length) => Some(*length),
            Self::Array(scalar, length) => scalar.bytes().checked_mul(*length),
            Self::String | Self::Sequence(_) => None,
        }
    }

    /// Returns the enumeration of a scalar or of an array's elements.
    pub fn enumeration_mut(&mut self) -> Option<&mut Enumeration> {
        match self {
            Self::Scalar(Scalar::Enumeration(e))
            | Self::Array(Scalar::Enumeration(e), _)
            | Self::Sequence(Scalar::Enumeration(e)) => Some(e),
            _ => None,
        }
    }
}

/// One field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// The field's name, a C identifier.
    pub name: String,
    /// The type of the field.
    pub ty: Type,
}

/// A tracepoint: the names and the layout of its records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schema {
    /// The component that declares the tracepoint.
    pub provider: String,
    /// The tracepoint's name within the provider.
    pub name: String,
    /// The importance of its events.
    pub level: Level,
    /// The source file that declares the tracepoint, and the line.
    pub location: Option<(String, u32)>,
    /// The payload's fields in order.
    pub fields: Vec<Field>,
}

impl Schema {
    /// Returns the full name, `provider:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }

    /// Returns the names of the fields, in order.
    pub fn field_names(&self) -> Vec<&str> {
        self.fields.iter().map(|field| field.name.as_str()).collect()
    }
}

/// Prints a type as programs and listings write it: `u32`, `i64x` (hexadecimal), `u16n` (network byte order), `bool`,
/// `f64`, `enum:u8`, `string`, `text:16`, `[u8;6]` (array), `[u8x]` (sequence).
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(scalar) => scalar.fmt(f),
            Self::String => f.write_str("string"),
            Self::Text(length) => write!(f, "text:{length}"),
            Self::Array(scalar, length) => write!(f, "[{scalar};{length}]"),
            Self::Sequence(scalar) => write!(f, "[{scalar}]"),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(f),
            Self::Float(FloatWidth::Single) => f.write_str("f32"),
            Self::Float(FloatWidth::Double) => f.write_str("f64"),
            Self::Bool => f.write_str("bool"),
            Self::Enumeration(enumeration) => write!(f, "enum:{}", enumeration.integer),
        }
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.signed { 'i' } else { 'u' };
        write!(f, "{sign}{}", self.width.bits())?;
        f.write_str(match self.base {
            Base::Decimal => "",
            Base::Hexadecimal => "x",
            Base::Octal => "o",
            Base::Binary => "b",
        })?;
        f.write_str(match self.order {
            ByteOrder::Host => "",
            ByteOrder::Network => "n",
        })
    }
}

/// The error for a text that is no type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownType;

impl FromStr for Type {
    type Err = UnknownType;
    fn from_str(text: &str) -> Result<Self, UnknownType> {
        if text == "string" {
            return Ok(Self::String);
        }
        if let Some(length) = text.strip_prefix("text:") {
            return length.parse().map(Self::Text).or(Err(UnknownType));
        }
        let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
            return text.parse().map(Self::Scalar);
        };
        match inner.split_once(';') {
            Some((scalar, length)) => Ok(Self::Array(scalar.parse()?, length.parse().or(Err(UnknownType))?)),
            None => Ok(Self::Sequence(inner.parse()?)),
        }
    }
}

impl FromStr for Scalar {
    type Err = UnknownType;
    fn from_str(text: &str) -> Result<Self, UnknownType> {
        Ok(match text {
            "f32" => Self::Float(FloatWidth::Single),
            "f64" => Self::Float(FloatWidth::Double),
            "bool" => Self::Bool,
            _ => match text.strip_prefix("enum:") {
                Some(integer) => {
                    Self::Enumeration(Enumeration { integer: integer.parse()?, ranges: Vec::new() })
                }
                None => Self::Integer(text.parse()?),
            },
        })
    }
}

impl FromStr for Integer {
    type Err = UnknownType;
    fn from_str(text: &str) -> Result<Self, UnknownType> {
        let signed = match text.as_bytes().first() {
            Some(b'i') => true,
            Some(b'u') => false,
            _ => return Err(UnknownType),
        };
        let digits = text[1..].bytes().take_while(u8::is_ascii_digit).count();
        let (bits, rest) = text[1..].split_at(digits);
        let width = match bits {
            "8" => Width::W8,
            "16" => Width::W16,
            "32" => Width::W32,
            "64" => Width::W64,
            _ => return Err(UnknownType),
        };
        let (order, base) = match rest.strip_suffix('n') {
            Some(base) => (ByteOrder::Network, base),
            None => (ByteOrder::Host, rest),
        };
        let base = match base {
            "" => Base::Decimal,
            "x" => Base::Hexadecimal,
            "o" => Base::Octal,
            "b" => Base::Binary,
            _ => return Err(UnknownType),
        };
        Ok(Self { width, signed, base, order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_prints_as_it_is_parsed() {
        let texts = [
            "u8",
            "i64",
            "u32x",
            "u16n",
            "u16xn",
            "i8o",
            "u8b",
            "f32",
            "f64",
            "bool",
            "enum:u8",
            "string",
            "text:16",
            "[u8;6]",
            "[u8x]",
            "[enum:i32;2]",
            "[f64]",
            "[bool;3]",
            "[u16xn]",
        ];
        for text in texts {
            assert_eq!(text.parse::<Type>().map(|ty| ty.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for text in
            ["", "u", "u7", "x8", "u8q", "u8nx", "[u8", "[u8;]", "[u8;-1]", "text:", "enum:", "[string]", "é"]
        {
            assert_eq!(text.parse::<Type>(), Err(UnknownType), "{text}");
        }
    }

    #[test]
    fn only_types_of_one_size_have_a_size() {
        let size = |text: &str| text.parse::<Type>().map(|ty| ty.bytes());
        assert_eq!(size("u16n"), Ok(Some(2)));
        assert_eq!(size("[f64;3]"), Ok(Some(24)));
        assert_eq!(size("text:16"), Ok(Some(16)));
        assert_eq!(size("[u64;4294967295]"), Ok(None));
        assert_eq!(size("string"), Ok(None));
        assert_eq!(size("[u8]"), Ok(None));
    }
}
