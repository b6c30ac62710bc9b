//! The table of sub-buffers, pure: it maps sub-buffer sequence numbers to sub-buffers and their owners.
//!
//! In a ring that overwrites, the reader owns one sub-buffer more than the writers use in turn, and exchanges it
//! against the oldest complete one: the flight recorder's exchange of Desnoyers, Dagenais and Toupin, "Highly-Scalable
//! Wait-Free Buffering Scheme for Multi-Core System Tracing". Their bit for "no writer refers to it" is here the
//! sequence number: writers claim an entry for a sequence number before they enter it, and the head shows which ones
//! are complete. So nothing has to be done after a record is published, and a claim that is repeated, or that no record
//! follows, does no harm.

use crate::number::Seqno;

/// One entry of the table.
///
/// | bits | meaning |
/// |---|---|
/// | 63..32 | the sequence number for which it was last claimed |
/// | 31..16 | the number of claims of its sub-buffer, modulo 2^16 |
/// | 15..0 | the index of its sub-buffer in the ring |
///
/// When the reader exchanges the sub-buffer, the sequence number stays: a writer that read the entry before fails to
/// claim it, since the index changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

/// A sub-buffer that changes its owner: its index, and the number of its claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The sub-buffer's index in the ring.
    pub number: u32,
    /// The number of claims of the sub-buffer, modulo 2^16.
    pub uses: u16,
}

impl Entry {
    /// The entry of `spare`, to be claimed for the sequence number `seqno + count`.
    pub const fn of(seqno: Seqno, spare: Spare) -> Self {
        Self((seqno.0 as u64) << 32 | (spare.uses as u64) << 16 | (spare.number & 0xffff) as u64)
    }

    /// The sequence number for which it was last claimed.
    pub const fn seqno(self) -> Seqno {
        Seqno((self.0 >> 32) as u32)
    }

    /// The entry's sub-buffer and its claims.
    pub const fn spare(self) -> Spare {
        Spare { number: self.0 as u32 & 0xffff, uses: (self.0 >> 16) as u16 }
    }

    /// The entry after writers have claimed it for sequence number `seqno`.
    #[inline(always)]
    pub const fn claimed(self, seqno: Seqno) -> Self {
        // The count of uses overflows out of the lower half.
        Self((seqno.0 as u64) << 32 | (self.0 as u32).wrapping_add(1 << 16) as u64)
    }

    /// The step by which a writer enters sequence number `seqno`, in a ring whose writers use `count` sub-buffers.
    #[inline(always)]
    pub const fn entering(self, seqno: Seqno, count: u32) -> Entering {
        if self.seqno().after(count).0 == seqno.0 {
            Entering::Claim
        } else if self.seqno().0 == seqno.0 {
            Entering::Claimed
        } else {
            Entering::Stale
        }
    }
}

/// The result of [`Entry::entering`]: the next step of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entering {
    /// Claim the entry's sub-buffer.
    Claim,
    /// Nothing: another writer has claimed it, but has not published a record.
    Claimed,
    /// Read the head again, since it has changed.
    Stale,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_claimed_once_for_each_sequence_number_and_keeps_its_sub_buffer() {
        let entry = Entry::of(Seqno(3), Spare { number: 4096, uses: u16::MAX });
        assert_eq!((entry.seqno().0, entry.spare().number), (3, 4096));
        assert_eq!(entry.entering(Seqno(7), 4), Entering::Claim);
        let claimed = entry.claimed(Seqno(7));
        assert_eq!(claimed.spare(), Spare { number: 4096, uses: 0 });
        assert_eq!(claimed.seqno(), Seqno(7));
        assert_eq!(claimed.entering(Seqno(7), 4), Entering::Claimed);
        assert_eq!(claimed.entering(Seqno(3), 4), Entering::Stale);
        assert_eq!(claimed.entering(Seqno(15), 4), Entering::Stale);
    }

    #[test]
    fn sequence_numbers_count_on_through_their_overflow() {
        let entry = Entry::of(Seqno(u32::MAX - 1), Spare { number: 0, uses: 0 });
        assert_eq!(entry.entering(Seqno(2), 4), Entering::Claim);
    }
}
