//! The sequence number of a packet in its stream.

/// The sequence number of a packet in its stream, from 0. It also counts packets that were lost, left out or
/// overwritten, so that a missing number shows a gap.
///
/// ```
/// use sordino_ctf::PacketSeqno;
/// assert_eq!(PacketSeqno(7).missing_since(PacketSeqno(4)), 2);
/// assert_eq!(PacketSeqno(4).missing_since(PacketSeqno(4)), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketSeqno(pub u64);

impl PacketSeqno {
    /// Returns the number that follows a number of packets later; the greatest one if there is none.
    #[must_use]
    pub fn after(self, packets: u64) -> Self {
        Self(self.0.saturating_add(packets))
    }

    /// Returns the number of packets between this one and `previous`, which precedes it in the file; 0 if the numbers
    /// do not increase.
    pub fn missing_since(self, previous: Self) -> u64 {
        self.0.saturating_sub(previous.after(1).0)
    }
}
