//! Arithmetic of a ring's offsets, pure: the head, the size of records, the placement of the next one.

use crate::layout::{Geometry, PACKET_HEADER, RECORD_HEADER};
use crate::number::{RingOffset, Seqno};

/// The offset of a ring's writers, in one word.
///
/// | bits | meaning |
/// |---|---|
/// | 63..32 | the sub-buffer sequence number: the sub-buffers that were entered before this one, modulo 2^32 |
/// | 31..3 | the offset of the next record, in units of 8 bytes from the ring's first sub-buffer |
/// | 2..0 | the bytes of padding before it |
///
/// So one store publishes the sub-buffer that the writers are in, the offset there, and the end of its content without
/// padding. The first field is different in every attachment: a writer that slept through a detach and an attach never
/// takes a new head for the one that it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(pub u64);

impl Head {
    /// The head at the start of the sub-buffer with sequence number `seqno`, which lies at offset `offset`.
    #[inline(always)]
    pub const fn entering(seqno: Seqno, offset: RingOffset) -> Self {
        Self(((seqno.0 as u64) << 32) + offset.after(PACKET_HEADER as u32).0 as u64)
    }

    /// The head of a ring that no session uses. It equals no other head: a record never starts in a packet's header.
    pub const CLOSED: Self = Self(0);

    /// Returns true if no session uses the ring.
    pub const fn is_closed(self) -> bool {
        self.0 == Self::CLOSED.0
    }

    /// The sub-buffer sequence number.
    pub const fn seqno(self) -> Seqno {
        Seqno((self.0 >> 32) as u32)
    }

    /// The offset of the next record, in bytes from the ring's first sub-buffer.
    pub const fn start(self) -> RingOffset {
        RingOffset(self.0 as u32 & !7)
    }

    /// The offset of the sub-buffer that the head is in. `other_bits` are the geometry's.
    #[inline(always)]
    pub const fn sub_buffer(self, other_bits: u64) -> RingOffset {
        RingOffset(self.0 as u32 & other_bits as u32)
    }

    /// Bytes of content in the sub-buffer; any number for an impossible head.
    pub const fn content_end(self, geometry: Geometry) -> u32 {
        self.start().within(geometry.size() as u32).wrapping_sub(self.0 as u32 & 7)
    }

    /// The head behind a record of `record_size`, which fits here.
    #[inline(always)]
    pub const fn behind(self, record_size: RecordSize) -> Self {
        Self((self.0 & !7) + record_size.0)
    }
}

/// The record size: header and payload rounded up to 8 bytes, plus the number of padding bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSize(pub u64);

impl RecordSize {
    /// The size of a record with `payload` bytes behind a header of `header` bytes, a multiple of 8.
    #[inline(always)]
    pub const fn of(header: usize, payload: usize) -> Self {
        let padding = payload.wrapping_neg() & 7;
        Self((header + payload + 2 * padding) as u64)
    }

    /// The rounded size in bytes.
    pub const fn size(self) -> u32 {
        self.0 as u32 & !7
    }
}

/// The encoded length of a payload, in one word, so that it is a constant if the length is.
///
/// The low half is the [`RecordSize`] of the record, the high half the number of bytes that are copied: whole words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedLength(pub u64);

impl EncodedLength {
    /// The encoded length of a payload of so many bytes. Lengths beyond [`Self::MAX`] are encoded as that.
    #[inline(always)]
    pub const fn of(payload: usize) -> Self {
        let payload = if payload > Self::MAX { Self::MAX } else { payload };
        Self(RecordSize::of(RECORD_HEADER, payload).0 | (payload.next_multiple_of(8) as u64) << 32)
    }

    /// The longest payload that can be encoded; no ring has room for it.
    pub const MAX: usize = 1 << 30;

    /// The size of the record in a CPU's ring.
    #[inline(always)]
    pub const fn record_size(self) -> RecordSize {
        RecordSize(self.0 & 0xffff_ffff)
    }

    /// Bytes of payload that are copied, a multiple of 8.
    #[inline(always)]
    pub const fn copied(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// The payload's length in bytes.
    pub const fn payload(self) -> usize {
        self.copied() - (self.0 & 7) as usize
    }
}

/// Returns true if the record that moves a head from `from` to `to` stays inside the sub-buffer.
///
/// `other_bits` are those that are the same within a sub-buffer. A record that would end with the last byte of the
/// sub-buffer does not stay: so every head identifies its sub-buffer.
#[inline(always)]
pub const fn stays(from: Head, to: Head, other_bits: u64) -> bool {
    ((from.0 & !7) ^ to.0) & other_bits == 0
}

/// The destination of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The present sub-buffer, at the head.
    Fit,
    /// The start of the next sub-buffer, by a sub-buffer switch.
    Switch,
    /// None: no sub-buffer has room for it.
    TooLarge,
}

/// Returns true if a record of `record_size` fits into an empty sub-buffer of a ring with these `other_bits`.
#[inline(always)]
pub const fn fits_alone(record_size: RecordSize, other_bits: u64) -> bool {
    // Not with the sub-buffer's last byte: see `stays`. These bits are the size's negative.
    (other_bits as u32) < (PACKET_HEADER as u32 + record_size.size()).wrapping_neg()
}

/// Plans a record of `record_size` at `head`.
pub const fn plan(head: Head, record_size: RecordSize, other_bits: u64) -> Placement {
    if !fits_alone(record_size, other_bits) {
        Placement::TooLarge
    } else if stays(head, head.behind(record_size), other_bits) {
        Placement::Fit
    } else {
        Placement::Switch
    }
}

/// Returns true if writers may not use the sub-buffer with sequence number `seqno`. They may use `count` of them from
/// [`consumed`](crate::layout::RingHeader::consumed) on.
#[inline(always)]
pub const fn is_full(seqno: Seqno, consumed: Seqno, count: u32) -> bool {
    // The difference is negative if the head is old and the reader is past it; publishing will refuse that head. It is
    // more than `count` if an open sub-buffer was revoked before the writer, which had not seen that, went on.
    seqno.since(consumed) as i32 >= count as i32
}

/// The largest payload for which a sub-buffer has room, in a record with `RECORD_HEADER` bytes of header.
pub const fn max_payload(geometry: Geometry) -> usize {
    geometry.size() - PACKET_HEADER - RECORD_HEADER - 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Geometry = Geometry { bits: 14, count: 4, overwrite: false };

    #[test]
    fn a_head_has_the_end_of_the_content_without_padding() {
        let head = Head::entering(Seqno(7), RingOffset(3 << 14));
        assert_eq!((head.seqno().0, head.start().0), (7, (3 << 14) + 80));
        assert_eq!(head.content_end(SMALL), 80);
        let head = head.behind(RecordSize::of(16, 13));
        assert_eq!((head.seqno().0, head.start().0, head.content_end(SMALL)), (7, (3 << 14) + 112, 109));
        let head = head.behind(RecordSize::of(16, 8));
        assert_eq!((head.start().0, head.content_end(SMALL)), ((3 << 14) + 136, 136));
    }

    #[test]
    fn an_encoded_length_has_the_payload_s_length_and_the_record_s_size() {
        for payload in [0, 1, 7, 8, 9, 16, 4095, 32_000] {
            let encoded_length = EncodedLength::of(payload);
            assert_eq!(
                (encoded_length.payload(), encoded_length.record_size()),
                (payload, RecordSize::of(16, payload))
            );
            assert_eq!(encoded_length.copied(), payload.next_multiple_of(8));
        }
        assert_eq!(EncodedLength::of(usize::MAX), EncodedLength::of(EncodedLength::MAX));
    }

    #[test]
    fn the_fast_path_s_check_and_the_plan_agree() {
        let other_bits = SMALL.other_bits();
        for start in (80..SMALL.size() as u32).step_by(8) {
            for payload in [0, 1, 8, 100, 4000, 16_200] {
                let head = Head(u64::from(start) + (5 << 32));
                let record_size = RecordSize::of(16, payload);
                let plan = plan(head, record_size, other_bits);
                let stays_inside = stays(head, head.behind(record_size), other_bits);
                assert_eq!(stays_inside, plan == Placement::Fit, "{start} {payload}");
                assert_eq!(
                    !stays_inside && fits_alone(record_size, other_bits),
                    plan == Placement::Switch,
                    "{start} {payload}"
                );
                if stays_inside {
                    assert!(start + record_size.size() < SMALL.size() as u32);
                }
            }
        }
    }

    #[test]
    fn a_ring_is_full_when_the_reader_holds_all_but_the_current_sub_buffer() {
        assert!(!is_full(Seqno(11), Seqno(10), 4));
        assert!(!is_full(Seqno(11), Seqno(8), 4));
        assert!(is_full(Seqno(11), Seqno(7), 4));
    }

    #[test]
    fn a_head_that_the_reader_is_past_does_not_make_the_ring_full() {
        assert!(!is_full(Seqno(11), Seqno(12), 4));
    }

    #[test]
    fn a_ring_whose_room_was_revoked_is_full_to_a_writer_that_is_beyond_it() {
        assert!(is_full(Seqno(13), Seqno(7), 4) && is_full(Seqno(2), Seqno(u32::MAX - 7), 4));
    }

    #[test]
    fn sequence_numbers_count_on_through_their_overflow() {
        assert!(!is_full(Seqno(0), Seqno(u32::MAX - 2), 4));
        assert!(is_full(Seqno(0), Seqno(u32::MAX - 3), 4));
    }

    #[test]
    fn what_no_sub_buffer_takes_is_too_large() {
        let (head, bits, largest) =
            (Head::entering(Seqno(0), RingOffset(0)), SMALL.other_bits(), max_payload(SMALL));
        assert_eq!(plan(head, RecordSize::of(16, largest), bits), Placement::Fit);
        assert_eq!(plan(head, RecordSize::of(16, largest + 1), bits), Placement::TooLarge);
    }

    #[test]
    fn a_record_of_any_size_never_changes_the_sequence_number_unnoticed() {
        let last = Head((1 << 32) + 0xffff_fff8);
        assert!(!stays(last, last.behind(RecordSize::of(16, 0)), SMALL.other_bits()));
    }
}
