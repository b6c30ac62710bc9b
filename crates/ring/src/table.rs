//! The table of sub-buffers: which one a turn uses, and whose it is. Pure.
//!
//! In a ring that overwrites, the reader owns one sub-buffer more than the writers take turns with, and exchanges it against the
//! oldest complete one: the flight recorder's exchange of Desnoyers, Dagenais and Toupin, "Highly-Scalable Wait-Free
//! Buffering Scheme for Multi-Core System Tracing". Their bit for "no writer refers to it" is here the turn: writers claim an
//! entry for a turn before they enter it, and the head says for which turns they are done. So nothing has to be
//! done after a record is published, and a claim that is repeated, or that nobody follows up, does no harm.

/// One entry of the table.
///
/// | bits | meaning |
/// |---|---|
/// | 63..32 | the turn it was last claimed for |
/// | 31..16 | how often its sub-buffer has been claimed, modulo 2^16 |
/// | 15..0 | the number of its sub-buffer: its place in the ring |
///
/// When the reader exchanges the sub-buffer, the turn stays: a writer that read the entry before fails to claim it, since the
/// number changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub u64);

/// A sub-buffer that changes hands: its number, and how often it has been claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Its number.
    pub number: u32,
    /// See [`Entry`].
    pub uses: u16,
}

impl Entry {
    /// Of `spare`, to be claimed `count` turns after `turn`.
    pub const fn of(turn: u32, spare: Spare) -> Self {
        Self((turn as u64) << 32 | (spare.uses as u64) << 16 | (spare.number & 0xffff) as u64)
    }

    /// The turn it was last claimed for.
    pub const fn turn(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Its sub-buffer.
    pub const fn spare(self) -> Spare {
        Spare { number: self.0 as u32 & 0xffff, uses: (self.0 >> 16) as u16 }
    }

    /// As it is when writers have claimed it for `turn`.
    #[inline(always)]
    pub const fn claimed(self, turn: u32) -> Self {
        // The count of uses overflows out of the lower half.
        Self((turn as u64) << 32 | (self.0 as u32).wrapping_add(1 << 16) as u64)
    }

    /// What a writer has to do to enter `turn`, in a ring where `count` sub-buffers take turns.
    #[inline(always)]
    pub const fn entering(self, turn: u32, count: u32) -> Entering {
        if self.turn().wrapping_add(count) == turn {
            Entering::Claim
        } else if self.turn() == turn {
            Entering::Claimed
        } else {
            Entering::Stale
        }
    }
}

/// See [`Entry::entering`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entering {
    /// Claim it.
    Claim,
    /// Nothing: another did, who has not come to publishing.
    Claimed,
    /// Look at the head again: it is no longer what it was.
    Stale,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_claimed_once_for_each_turn_and_keeps_its_sub_buffer() {
        let entry = Entry::of(3, Spare { number: 4096, uses: u16::MAX });
        assert_eq!((entry.turn(), entry.spare().number), (3, 4096));
        assert_eq!(entry.entering(7, 4), Entering::Claim);
        let claimed = entry.claimed(7);
        assert_eq!(claimed.spare(), Spare { number: 4096, uses: 0 });
        assert_eq!(claimed.turn(), 7);
        assert_eq!(claimed.entering(7, 4), Entering::Claimed);
        assert_eq!(claimed.entering(3, 4), Entering::Stale);
        assert_eq!(claimed.entering(15, 4), Entering::Stale);
    }

    #[test]
    fn turns_count_on_through_their_overflow() {
        let entry = Entry::of(u32::MAX - 1, Spare { number: 0, uses: 0 });
        assert_eq!(entry.entering(2, 4), Entering::Claim);
    }
}
