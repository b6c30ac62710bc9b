//! The encoding of protobuf messages.
//!
//! Fields are written in one pass: a nested message gets its length when it is complete. It is moved only if it is
//! longer than 127 bytes.

use std::borrow::Cow;

/// A message that is being appended to a buffer.
#[derive(Debug)]
pub(crate) struct ProtobufMessage<'a>(&'a mut Vec<u8>);

/// The wire types of fields that have a length, 8 bytes, or neither.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

impl<'a> ProtobufMessage<'a> {
    /// Begins a message whose fields are appended to `out`.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self(out)
    }

    /// Appends an unsigned integer, an enumeration or a truth value.
    pub(crate) fn unsigned(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        varint(value, self.0);
    }

    /// Appends an integer of the types `int32` and `int64`.
    pub(crate) fn signed(&mut self, field: u32, value: i64) {
        self.unsigned(field, value.cast_unsigned());
    }

    /// Appends an unsigned integer of the type `fixed64`.
    pub(crate) fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, FIXED64);
        self.0.extend(value.to_le_bytes());
    }

    /// Appends a floating-point number of the type `double`.
    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// Appends a text, made [`valid`].
    pub(crate) fn text(&mut self, field: u32, text: &[u8]) {
        self.bytes(field, valid(text).as_bytes());
    }

    /// Appends bytes, or an encoded message.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH);
        varint(bytes.len() as u64, self.0);
        self.0.extend_from_slice(bytes);
    }

    /// Appends fields that are encoded already.
    pub(crate) fn encoded(&mut self, fields: &[u8]) {
        self.0.extend_from_slice(fields);
    }

    /// Appends a nested message, whose fields `fill` appends.
    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut ProtobufMessage<'_>)) {
        self.tag(field, LENGTH);
        let begin = self.0.len();
        self.0.push(0);
        fill(&mut ProtobufMessage(self.0));
        let length = self.0.len() - begin - 1;
        match u8::try_from(length) {
            Ok(short @ ..0x80) => self.0[begin] = short,
            _ => {
                let mut encoded = Vec::with_capacity(4);
                varint(length as u64, &mut encoded);
                self.0.splice(begin..=begin, encoded);
            }
        }
    }

    fn tag(&mut self, field: u32, wire: u32) {
        varint((field << 3 | wire).into(), self.0);
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Replaces invalid UTF-8 and zero bytes, which end a text for some readers, by U+FFFD.
pub(crate) fn valid(text: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(text);
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a varint from the front of `bytes`.
    fn read(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().expect("a byte");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        let mut out = Vec::new();
        let mut message = ProtobufMessage::new(&mut out);
        message.unsigned(1, 150);
        message.text(2, b"testing");
        message.message(3, |inner| inner.unsigned(1, 150));
        message.signed(1, -2);
        assert_eq!(out[..3], [0x08, 0x96, 0x01]);
        assert_eq!(out[3..12], *b"\x12\x07testing");
        assert_eq!(out[12..17], [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(out[17..], [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }

    #[test]
    fn texts_are_utf_8_without_zero_bytes() {
        let mut out = Vec::new();
        ProtobufMessage::new(&mut out).text(1, b"a\0b\xff");
        assert_eq!(out[2..], *"a\u{fffd}b\u{fffd}".as_bytes());
    }

    proptest! {
        #[test]
        fn a_nested_message_has_its_length_whatever_that_is(length in 0_usize..70_000, value: u64, number: f64) {
            let mut out = Vec::new();
            ProtobufMessage::new(&mut out).message(1, |outer| {
                outer.message(500, |inner| inner.bytes(2, &vec![7; length]));
                outer.unsigned(3, value);
                outer.double(4, number);
            });
            let mut rest = &out[..];
            assert_eq!(read(&mut rest), 1 << 3 | 2);
            assert_eq!(read(&mut rest), rest.len() as u64);
            assert_eq!(read(&mut rest), 500 << 3 | 2);
            let inner = read(&mut rest) as usize;
            let (mut nested, mut rest) = rest.split_at(inner);
            assert_eq!((read(&mut nested), read(&mut nested)), (2 << 3 | 2, length as u64));
            assert_eq!(nested, vec![7; length]);
            assert_eq!((read(&mut rest), read(&mut rest)), (3 << 3, value));
            assert_eq!(read(&mut rest), 4 << 3 | 1);
            assert_eq!(rest, number.to_le_bytes());
        }
    }
}
