//! The record `sordino:counters`, which precedes an event's.

use super::kind::{LABELS, MOST};
use crate::point::{Description, FieldDescription, Tracepoint};
use sordino_event::Level;
use sordino_ring::number::PointId;
use sordino_ring::offset::EncodedLength;
use sordino_ring::write::Staged;

/// The tracepoint of `sordino:counters`.
pub(super) static POINT: Tracepoint = Tracepoint::new(&DESCRIPTION);
static DESCRIPTION: Description = Description {
    provider: c"sordino".as_ptr(),
    name: c"counters".as_ptr(),
    file: c"".as_ptr(),
    line: 0,
    level: Level::Info as u32,
    fields: FIELDS.as_ptr(),
    field_count: FIELDS.len(),
};
/// The number of the event's tracepoint, the numbers of the counters, and their values.
static FIELDS: [FieldDescription; 3] = [
    FieldDescription::of::<u16>("tracepoint\0"),
    FieldDescription {
        scalar: c"enum:u8".as_ptr(),
        labels: LABELS.as_ptr(),
        label_count: LABELS.len(),
        ..FieldDescription::of::<&[u8]>("counters\0")
    },
    FieldDescription::of::<&[u64]>("values\0"),
];

/// A payload of `sordino:counters`.
#[derive(Debug)]
#[repr(align(8))]
pub(crate) struct CountersPayload {
    bytes: [u8; Self::LONGEST.next_multiple_of(8)],
    length: usize,
}

impl CountersPayload {
    /// The length of a number, then of two sequences, each with its length.
    const LONGEST: usize = 2 + (2 + MOST) + (2 + 8 * MOST);

    pub(super) fn of(event: PointId, numbers: &[u8], values: &[u64]) -> Self {
        let mut payload = Self { bytes: [0; _], length: 0 };
        payload.put(&event.0.to_ne_bytes());
        payload.put(&(numbers.len() as u16).to_ne_bytes());
        payload.put(numbers);
        payload.put(&(values.len() as u16).to_ne_bytes());
        values.iter().for_each(|value| payload.put(&value.to_ne_bytes()));
        payload
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    pub(crate) fn staged(&self) -> Staged {
        Staged { from: self.bytes.as_ptr(), encoded_length: EncodedLength::of(self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_laid_out_as_the_fields_are_declared() {
        let payload = CountersPayload::of(PointId(0x0102), &[10, 128], &[3, 4]);
        let staged = payload.staged();
        // SAFETY: `payload`, whose bytes are staged, is still alive and unchanged.
        let bytes = unsafe { staged.payload() }.unwrap();
        assert_eq!(bytes[..8], [2, 1, 2, 0, 10, 128, 2, 0]);
        assert_eq!(bytes[8..], [3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        let longest = CountersPayload::of(PointId(1), &[0; MOST], &[0; MOST]);
        assert_eq!(longest.length, CountersPayload::LONGEST);
    }
}
