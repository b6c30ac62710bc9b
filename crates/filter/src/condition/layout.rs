//! The places of a tracepoint's fields in its records.

use super::plan::{Calculation, Element, ValueLocation};
use crate::Invalid;
use sordino_event::{ByteOrder, Enumeration, Field, Scalar, Schema, Type};
use sordino_filter_vm::{Encoding, Number, UP_TO_ZERO};
use std::ops::Range;

/// The places of a tracepoint's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The place of each field; `None` where it lies too far behind for an offset.
    places: Vec<Option<ValueLocation>>,
    /// The fields of variable length, in order.
    pub(super) varying: Vec<Varying>,
}

/// A field whose length differs from record to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Varying {
    /// The offset from the end of the previous field of variable length.
    pub(super) offset: u16,
    /// The size of a sequence's elements in bytes; `None` for a string.
    pub(super) size: Option<u8>,
}

impl Layout {
    /// Returns the layout of this tracepoint's records.
    pub(super) fn of(schema: &Schema) -> Self {
        let (mut places, mut varying) = (Vec::new(), Vec::new());
        let mut next = Some(0_u16);
        for field in &schema.fields {
            places.push(next.map(|offset| ValueLocation { varying: varying.len(), offset, element: None }));
            let size = match &field.ty {
                Type::String => None,
                Type::Sequence(scalar) => Some(scalar.bytes() as u8),
                fixed => {
                    let bytes = fixed.bytes().and_then(|bytes| u16::try_from(bytes).ok());
                    next = next.zip(bytes).and_then(|(offset, bytes)| offset.checked_add(bytes));
                    continue;
                }
            };
            varying.extend(next.map(|offset| Varying { offset, size }));
            next = next.and(Some(0));
        }
        Self { places, varying }
    }

    /// Returns, for each field, its constant distance from the payload's first byte in bytes, if it has one.
    pub(super) fn fixed(&self) -> impl Iterator<Item = Option<u16>> {
        self.places.iter().map(|place| place.filter(|place| place.varying == 0).map(|place| place.offset))
    }

    fn place(&self, index: usize, field: &Field, at: &Range<usize>) -> Result<ValueLocation, Invalid> {
        self.places.get(index).copied().flatten().ok_or_else(|| too_far(field, at))
    }

    /// Returns the place and the length of the text in the field with this index; `None` if the field is no text.
    pub(super) fn text(
        &self,
        index: usize,
        field: &Field,
        at: &Range<usize>,
    ) -> Result<Option<(ValueLocation, u16)>, Invalid> {
        let length = match field.ty {
            Type::String => UP_TO_ZERO,
            Type::Text(length) => match u16::try_from(length) {
                Ok(length) if length != UP_TO_ZERO => length,
                _ => return Err(too_far(field, at)),
            },
            _ => return Ok(None),
        };
        self.place(index, field, at).map(|place| Some((place, length)))
    }

    /// Returns the number in the field with this index, or in the requested element of it.
    pub(super) fn number<'a>(
        &self,
        index: usize,
        field: &'a Field,
        element: Option<i128>,
        at: &Range<usize>,
    ) -> Result<(Calculation, &'a Scalar), Invalid> {
        let Field { name, ty } = field;
        let place = self.place(index, field, at)?;
        let (scalar, place) = match (ty, element) {
            (Type::Scalar(scalar), None) => (scalar, Some(place)),
            (Type::Array(scalar, length), Some(element)) if element < i128::from(*length) => {
                let offset = i128::from(place.offset) + element * i128::from(scalar.bytes());
                let offset = u16::try_from(offset).map_err(|_| too_far(field, at))?;
                (scalar, Some(ValueLocation { offset, ..place }))
            }
            (Type::Array(scalar, _), Some(_)) => (scalar, None),
            (Type::Sequence(scalar), Some(element)) => {
                let size = scalar.bytes() as u8;
                let element = u16::try_from(element).ok().map(|index| Element { size, index });
                (scalar, element.map(|element| ValueLocation { element: Some(element), ..place }))
            }
            (Type::Array(..) | Type::Sequence(_), None) => {
                let message = format!("'{name}' ({ty}) is many values: choose one, as in {name}[0]");
                return Err(Invalid::new(at.clone(), message));
            }
            (_, Some(_)) => return Err(Invalid::new(at.clone(), format!("'{name}' ({ty}) has no elements"))),
            (Type::String | Type::Text(_), None) => {
                return Err(Invalid::new(at.clone(), format!("'{name}' ({ty}) is no number")));
            }
        };
        let load = |place| Calculation::Load(place, encoding_of(scalar));
        Ok((place.map_or(Calculation::Constant(Number::Nothing), load), scalar))
    }
}

/// Returns the encoding of a scalar's values.
pub(super) fn encoding_of(scalar: &Scalar) -> Encoding {
    match scalar {
        Scalar::Integer(integer) | Scalar::Enumeration(Enumeration { integer, .. }) => {
            Encoding::integer(scalar.bytes(), integer.signed, integer.order == ByteOrder::Network)
        }
        Scalar::Float(_) => Encoding::float(scalar.bytes()),
        Scalar::Bool => Encoding::BOOL,
    }
}

fn too_far(field: &Field, at: &Range<usize>) -> Invalid {
    Invalid::new(at.clone(), format!("'{}' does not lie within the first {} bytes", field.name, u16::MAX))
}
