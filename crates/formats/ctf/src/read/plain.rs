//! Fields that are read from a payload without the rest of it.
//!
//! A filter that needs one field of an event decides before the event is decoded.

use super::number::{float, integer_at, until_zero};
use super::program::{DecodeOp, Int, PlainField, PlainType, Times};
use sordino_event::{FieldValues, View};

/// The fields of an event that is not decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainFields<'a> {
    pub(super) fields: &'a [PlainField],
    /// The window from the first byte of the payload on.
    pub(super) payload: &'a [u8],
}

/// Returns the fields that `ops` show, if all are plain.
pub(super) fn plain_fields(ops: &[DecodeOp]) -> Option<Box<[PlainField]>> {
    let (mut bits, mut fields) = (0_u64, Vec::new());
    for op in ops {
        let byte = usize::try_from(bits / 8).ok()?;
        let ty = match op {
            DecodeOp::Integer(int, base) => Some(PlainType::Integer(*int, *base)),
            DecodeOp::Float(int) => Some(PlainType::Float(*int)),
            DecodeOp::Text(Times::Fixed(length)) => Some(PlainType::Text(usize::try_from(*length).ok()?)),
            DecodeOp::SkipBytes(_) | DecodeOp::Align(_) => None,
            _ => return None,
        };
        fields.extend(ty.map(|ty| PlainField { byte, ty }));
        bits = bits.checked_add(op.fixed_bits()?)?;
    }
    Some(fields.into())
}

impl PlainFields<'_> {
    #[inline]
    fn integer_of(&self, field: &PlainField, int: &Int) -> u64 {
        integer_at(self.payload, field.byte, 0, int)
    }
}

impl FieldValues for PlainFields<'_> {
    fn value(&self, field: usize) -> Option<View<'_>> {
        let field = self.fields.get(field)?;
        Some(match &field.ty {
            PlainType::Integer(int, base) if int.signed => {
                View::Signed(self.integer_of(field, int) as i64, *base)
            }
            PlainType::Integer(int, base) => View::Unsigned(self.integer_of(field, int), *base),
            PlainType::Float(int) => View::Float(float(self.integer_of(field, int), int)),
            PlainType::Text(length) => {
                View::Text(until_zero(self.payload.get(field.byte..)?.get(..*length)?))
            }
        })
    }

    #[inline]
    fn integer(&self, field: usize) -> Option<i64> {
        let field = self.fields.get(field)?;
        match &field.ty {
            PlainType::Integer(int, _) if int.signed => Some(self.integer_of(field, int) as i64),
            PlainType::Integer(int, _) => i64::try_from(self.integer_of(field, int)).ok(),
            PlainType::Float(_) | PlainType::Text(_) => None,
        }
    }
}
