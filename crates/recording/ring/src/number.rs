//! The numbers of the shared memory, each a type of its own, so that the compiler rejects one in place of another.

use crate::layout::SLOTS;
use std::fmt;

/// The index of a session's slot in a program's area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SlotIndex(u32);

impl SlotIndex {
    /// The first slot of an area.
    pub const FIRST: Self = Self(0);

    /// Returns the slot with this index, if there is one.
    #[inline(always)]
    pub const fn new(index: u32) -> Option<Self> {
        if index < SLOTS as u32 { Some(Self(index)) } else { None }
    }

    /// Returns all slots of an area, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLOTS as u32).map(Self)
    }

    /// Returns the first slot of a set with a bit for each, which is not empty.
    #[inline(always)]
    pub const fn first_of(slots: u8) -> Self {
        Self(slots.trailing_zeros())
    }

    /// The index as a number, from 0.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0
    }

    /// Returns true if the slot is in a set with a bit for each.
    #[inline(always)]
    pub const fn is_in(self, slots: u8) -> bool {
        slots >> self.0 & 1 != 0
    }

    /// The set of this slot alone, with a bit for each.
    #[inline(always)]
    pub const fn bit(self) -> u8 {
        1 << self.0
    }
}

/// The number of a tracepoint in its program, in the order of registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PointId(pub u16);

impl PointId {
    /// The index of its enable word.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The tag of a record, which is its second word, or a part of the tag.
///
/// | bits | meaning |
/// |---|---|
/// | 63..32 | the thread's id |
/// | 31..16 | the tracepoint's number |
/// | 15..0 | the low bits of the count of lost records, which writing adds |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Tag(pub u64);

impl Tag {
    /// The part of a tag that names the thread.
    #[inline(always)]
    pub const fn of_thread(tid: u32) -> Self {
        Self((tid as u64) << 32)
    }

    /// The part of a tag that names the tracepoint.
    #[inline(always)]
    pub const fn of_point(id: PointId) -> Self {
        Self((id.0 as u64) << 16)
    }

    /// The tag of both parts, which have no field in common.
    #[inline(always)]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The tag of a record before which `lost` records were lost; this one has no count.
    #[inline(always)]
    pub const fn with_lost(self, lost: u64) -> Self {
        Self(self.0 | lost & 0xffff)
    }

    /// The tag without the count of lost records.
    #[inline(always)]
    pub const fn without_lost(self) -> Self {
        Self(self.0 & !0xffff)
    }

    /// The part of the tag that names the thread.
    #[inline(always)]
    pub const fn thread(self) -> Self {
        Self(self.0 & !0xffff_ffff)
    }

    /// The id of the thread that wrote the record.
    #[inline(always)]
    pub const fn tid(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The number of the record's tracepoint.
    #[inline(always)]
    pub const fn point(self) -> PointId {
        PointId((self.0 >> 16) as u16)
    }
}

/// A sub-buffer sequence number: the sub-buffers that were entered before this one, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Seqno(pub u32);

impl Seqno {
    /// The sequence number `count` after this one.
    #[inline(always)]
    pub const fn after(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The sequence number `count` before this one.
    #[inline(always)]
    pub const fn before(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }

    /// The distance from an earlier sequence number, modulo 2^32.
    #[inline(always)]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The index of its entry among `count`, which is a power of two; any index if `count` is 0, as in a closed ring.
    #[inline(always)]
    pub const fn entry(self, count: u32) -> u32 {
        self.0 & count.wrapping_sub(1)
    }
}

impl fmt::Display for Seqno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An offset in bytes from a ring's first sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct RingOffset(pub u32);

impl RingOffset {
    /// The offset of the sub-buffer with this index, of `2^bits` bytes.
    #[inline(always)]
    pub const fn of_sub_buffer(index: u32, bits: u32) -> Self {
        Self(index << bits)
    }

    /// The offset `bytes` behind this one.
    #[inline(always)]
    pub const fn after(self, bytes: u32) -> Self {
        Self(self.0 + bytes)
    }

    /// The index of its sub-buffer, of `2^bits` bytes.
    #[inline(always)]
    pub const fn sub_buffer(self, bits: u32) -> u32 {
        self.0 >> bits
    }

    /// The bytes between the start of its sub-buffer, of `size` bytes, and this offset.
    #[inline(always)]
    pub const fn within(self, size: u32) -> u32 {
        self.0 & (size - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_in_its_own_set_and_in_no_other() {
        let slots: Vec<SlotIndex> = SlotIndex::all().collect();
        assert_eq!(slots.len(), SLOTS);
        for &slot in &slots {
            assert_eq!(SlotIndex::new(slot.index()), Some(slot));
            assert_eq!(SlotIndex::first_of(slot.bit()), slot);
            assert!(slots.iter().all(|other| other.is_in(slot.bit()) == (*other == slot)));
        }
        assert_eq!(SlotIndex::new(SLOTS as u32), None);
    }

    #[test]
    fn a_tag_names_its_tracepoint_whatever_the_thread_and_the_losses() {
        for id in [0, 1, 0x0102, u16::MAX].map(PointId) {
            let tag = Tag::of_thread(u32::MAX - 1).with(Tag::of_point(id));
            assert_eq!(
                (tag.point(), tag.tid(), tag.thread()),
                (id, u32::MAX - 1, Tag::of_thread(u32::MAX - 1))
            );
            let counted = tag.with_lost(0x7_ffff);
            assert_eq!((counted.0 & 0xffff, counted.point(), counted.without_lost()), (0xffff, id, tag));
        }
    }

    #[test]
    fn sequence_numbers_have_distances_and_entries_across_their_overflow() {
        for (from, steps) in [(0, 3), (7, 0), (u32::MAX, 1), (u32::MAX - 2, 9), (5, u32::MAX)] {
            let (from, to) = (Seqno(from), Seqno(from).after(steps));
            assert_eq!((to.since(from), to.before(steps)), (steps, from));
            assert_eq!(to.entry(4), from.entry(4).wrapping_add(steps) % 4);
        }
        assert_eq!(Seqno(9).entry(0), 9, "a closed ring has no entries");
    }

    #[test]
    fn an_offset_lies_within_its_sub_buffer() {
        let offset = RingOffset::of_sub_buffer(3, 14).after(80);
        assert_eq!((offset.0, offset.sub_buffer(14), offset.within(1 << 14)), ((3 << 14) + 80, 3, 80));
    }
}
