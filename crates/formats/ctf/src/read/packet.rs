//! The packet that a reader is in, and the items in it.

use sordino_event::Time;

/// The packet that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentPacket {
    pub(super) class: usize,
    /// The begin of the next packet: no event of this one is later.
    pub(super) limit: Option<Time>,
    /// The number of lost records in the packet's count whose place is not yet known.
    pub(super) unplaced: u64,
    /// The number of lost records that were too large.
    pub(super) too_large: u64,
    /// The low bits of the count in the last event.
    pub(super) lost: u16,
}

/// The result of decoding in the place of an event.
pub(super) enum DecodedItem {
    Event(Time),
    /// The event was rejected.
    Rejected(Time),
    /// Records were lost before the event.
    Gap(Time, u16),
}
