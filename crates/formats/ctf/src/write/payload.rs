//! The payloads of events that are converted rather than copied.

use crate::Error;
use sordino_event::{ByteOrder, Field, FloatWidth, Integer, Scalar, Schema, Type};

/// The value of a field, to be encoded by its schema.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument<'a> {
    /// A value for integers and enumerations of any width, and for bool.
    Integer(i128),
    /// A value for floating-point numbers.
    Float(f64),
    /// A value for strings and texts.
    Text(&'a [u8]),
    /// A value for arrays and sequences.
    List(&'a [Self]),
}

macro_rules! from_integer {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Argument<'_> {
            fn from(value: $ty) -> Self {
                Self::Integer(value.into())
            }
        }
    )*};
}
from_integer!(bool, u8, i8, u16, i16, u32, i32, u64, i64);

impl From<f64> for Argument<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a str> for Argument<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value.as_bytes())
    }
}

/// Appends the payload of an event of `schema` to `out`.
///
/// # Errors
/// If there are more or fewer `values` than fields, or if a field cannot have its value; `out` is unchanged then.
pub fn encode(schema: &Schema, values: &[Argument<'_>], out: &mut Vec<u8>) -> Result<(), Error> {
    if values.len() != schema.fields.len() {
        let (expected, given) = (schema.fields.len(), values.len());
        return Err(Error::ValueCount { event: schema.full_name(), expected, given });
    }
    let before = out.len();
    for (field, value) in schema.fields.iter().zip(values) {
        if put(&field.ty, value, out).is_none() {
            out.truncate(before);
            return Err(misfit(field, value));
        }
    }
    Ok(())
}

fn misfit(field: &Field, value: &Argument<'_>) -> Error {
    let value = match value {
        Argument::Integer(number) => number.to_string(),
        Argument::Float(number) => number.to_string(),
        Argument::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        Argument::List(list) => format!("a list of {}", list.len()),
    };
    Error::Value { field: field.name.clone(), value, expected: field.ty.to_string() }
}

/// Appends a value; `None` if `value` does not fit `ty`.
fn put(ty: &Type, value: &Argument<'_>, out: &mut Vec<u8>) -> Option<()> {
    match (ty, value) {
        (Type::Scalar(ty), _) => put_scalar(ty, value, out)?,
        (Type::String, Argument::Text(text)) if !text.contains(&0) => {
            out.extend_from_slice(text);
            out.push(0);
        }
        (Type::Text(room), Argument::Text(text)) => {
            let padding = (*room as usize).checked_sub(text.len())?;
            out.extend_from_slice(text);
            out.extend(std::iter::repeat_n(0, padding));
        }
        (Type::Array(element, length), Argument::List(list)) if list.len() == *length as usize => {
            list.iter().try_for_each(|value| put_scalar(element, value, out))?;
        }
        (Type::Sequence(element), Argument::List(list)) => {
            out.extend(u16::try_from(list.len()).ok()?.to_ne_bytes());
            list.iter().try_for_each(|value| put_scalar(element, value, out))?;
        }
        _ => return None,
    }
    Some(())
}

fn put_scalar(ty: &Scalar, value: &Argument<'_>, out: &mut Vec<u8>) -> Option<()> {
    match (ty, value) {
        (Scalar::Integer(ty), Argument::Integer(number)) => put_integer(*ty, *number, out),
        (Scalar::Enumeration(ty), Argument::Integer(number)) => put_integer(ty.integer, *number, out),
        (Scalar::Bool, Argument::Integer(number @ (0 | 1))) => {
            out.push(*number as u8);
            Some(())
        }
        (Scalar::Float(FloatWidth::Single), Argument::Float(number)) => {
            out.extend((*number as f32).to_ne_bytes());
            Some(())
        }
        (Scalar::Float(FloatWidth::Double), Argument::Float(number)) => {
            out.extend(number.to_ne_bytes());
            Some(())
        }
        _ => None,
    }
}

fn put_integer(ty: Integer, number: i128, out: &mut Vec<u8>) -> Option<()> {
    let bits = ty.width.bits();
    let (least, greatest) = match ty.signed {
        true => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    };
    if !(least..=greatest).contains(&number) {
        return None;
    }
    let bytes = number.to_be_bytes();
    let significant = &bytes[bytes.len() - ty.width.bytes() as usize..];
    if ty.order == ByteOrder::Network || cfg!(target_endian = "big") {
        out.extend_from_slice(significant);
    } else {
        out.extend(significant.iter().rev());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::Level;

    fn encoded(ty: &str, value: Argument<'_>) -> Result<Vec<u8>, String> {
        let fields = vec![Field { name: "f".into(), ty: ty.parse().expect("a type") }];
        let schema =
            Schema { provider: "p".into(), name: "n".into(), level: Level::Info, location: None, fields };
        let mut out = vec![9];
        match encode(&schema, &[value], &mut out) {
            Ok(()) => Ok(out[1..].to_vec()),
            Err(error) => {
                assert_eq!(out, [9], "a failure leaves nothing behind");
                Err(error.to_string())
            }
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn each_type_lies_as_the_schema_says() {
        assert_eq!(encoded("u16", 0x102.into()), Ok(vec![2, 1]));
        assert_eq!(encoded("u16n", 0x102.into()), Ok(vec![1, 2]));
        assert_eq!(encoded("i32", (-2).into()), Ok(vec![0xfe, 0xff, 0xff, 0xff]));
        assert_eq!(encoded("u64", u64::MAX.into()), Ok(vec![0xff; 8]));
        assert_eq!(encoded("bool", true.into()), Ok(vec![1]));
        assert_eq!(encoded("f32", 1.5.into()), Ok(vec![0, 0, 0xc0, 0x3f]));
        assert_eq!(encoded("enum:i8", (-1).into()), Ok(vec![0xff]));
        assert_eq!(encoded("string", "ab".into()), Ok(vec![b'a', b'b', 0]));
        assert_eq!(encoded("text:4", "ab".into()), Ok(vec![b'a', b'b', 0, 0]));
        assert_eq!(encoded("text:2", "ab".into()), Ok(vec![b'a', b'b']));
        assert_eq!(encoded("[u8;2]", Argument::List(&[1.into(), 2.into()])), Ok(vec![1, 2]));
        assert_eq!(encoded("[u8]", Argument::List(&[7.into()])), Ok(vec![1, 0, 7]));
    }

    #[test]
    fn what_a_field_cannot_hold_is_refused() {
        fn refused(ty: &str, value: Argument<'_>) -> String {
            encoded(ty, value).unwrap_err()
        }
        assert_eq!(refused("u8", 256.into()), "field f: 256 is no u8");
        assert_eq!(refused("u8", (-1).into()), "field f: -1 is no u8");
        assert_eq!(refused("i8", 128.into()), "field f: 128 is no i8");
        assert_eq!(refused("u64", "x".into()), "field f: \"x\" is no u64");
        assert_eq!(refused("f64", 1.into()), "field f: 1 is no f64");
        assert_eq!(refused("bool", 2.into()), "field f: 2 is no bool");
        assert_eq!(refused("string", "a\0b".into()), "field f: \"a\\0b\" is no string");
        assert_eq!(refused("text:1", "ab".into()), "field f: \"ab\" is no text:1");
        assert_eq!(refused("[u8;2]", Argument::List(&[1.into()])), "field f: a list of 1 is no [u8;2]");
        assert_eq!(refused("[u8;1]", Argument::List(&["x".into()])), "field f: a list of 1 is no [u8;1]");
        let long = vec![Argument::Integer(0); 65_536];
        assert_eq!(refused("[u8]", Argument::List(&long)), "field f: a list of 65536 is no [u8]");
    }

    #[test]
    fn every_field_needs_a_value() {
        let schema = Schema {
            provider: "p".into(),
            name: "n".into(),
            level: Level::Info,
            location: None,
            fields: vec![],
        };
        let error = encode(&schema, &[1.into()], &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "1 values for the 0 fields of p:n");
    }
}
