//! The numbers of the shared memory, each a type of its own, so that the compiler tells them apart.

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
    /// The tracepoint that a record's tag names.
    #[inline(always)]
    pub const fn of_tag(tag: u64) -> Self {
        Self((tag >> 16) as u16)
    }

    /// The part of a record's tag that names the tracepoint: bits 16 to 31.
    #[inline(always)]
    pub const fn in_tag(self) -> u64 {
        (self.0 as u64) << 16
    }

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

    /// The index of its entry among `count`, a power of two, or 0 in a closed ring.
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

/// A timestamp of a trace's clock, in its ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The timestamp so many ticks before this one; the first one if there is none.
    pub const fn before(self, ticks: u64) -> Self {
        Self(self.0.saturating_sub(ticks))
    }

    /// The timestamp so many ticks after this one; the last one if there is none.
    pub const fn after(self, ticks: u64) -> Self {
        Self(self.0.saturating_add(ticks))
    }
}
