//! Protobuf, decoded field by field.
#![allow(dead_code, reason = "no test uses all of it")]

/// A decoded message: its fields in order.
#[derive(Debug)]
pub(crate) struct DecodedMessage(pub(crate) Vec<(u32, WireValue)>);

/// The value of a field.
#[derive(Debug)]
pub(crate) enum WireValue {
    Number(u64),
    Bytes(Vec<u8>),
}

impl DecodedMessage {
    pub(crate) fn read(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let field = match tag & 7 {
                0 => WireValue::Number(varint(&mut bytes)),
                1 => WireValue::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    WireValue::Bytes(take(&mut bytes, length).to_vec())
                }
                wire => panic!("wire type {wire}"),
            };
            fields.push(((tag >> 3) as u32, field));
        }
        Self(fields)
    }

    pub(crate) fn number(&self, field: u32) -> Option<u64> {
        self.0.iter().find_map(|(number, value)| match value {
            WireValue::Number(value) if *number == field => Some(*value),
            _ => None,
        })
    }

    pub(crate) fn all(&self, field: u32) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter_map(move |(number, value)| match value {
            WireValue::Bytes(bytes) if *number == field => Some(&bytes[..]),
            _ => None,
        })
    }

    pub(crate) fn messages(&self, field: u32) -> impl Iterator<Item = Self> {
        self.all(field).map(Self::read)
    }

    pub(crate) fn text(&self, field: u32) -> Option<&str> {
        self.all(field).next().map(|bytes| std::str::from_utf8(bytes).expect("UTF-8"))
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}
