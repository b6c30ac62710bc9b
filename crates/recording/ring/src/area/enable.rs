//! The enable word of a tracepoint, pure: the sessions that enabled it.
//!
//! Most often it is one session. The word of one session leads straight to its rings, whichever slot it has: no
//! tracepoint has to search for them, and none has to multiply.

use crate::layout::{RingHeader, SLOTS};
use crate::number::SlotIndex;

/// The way in which a session enables a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnableMode {
    /// The tracepoint is not enabled.
    No,
    /// Each hit is recorded.
    Always,
    /// The tracepoint's [`Code`](crate::area::condition::Code) decides about each hit.
    If,
    /// The code decides, and the values of the thread's performance counters precede the record.
    Counted,
    /// An inline filter decides, which is all of the code: the [`InlineFilter`](crate::layout::InlineFilter) that lies
    /// so many bytes behind the word. See
    /// [`Conditions::inline_filter`](crate::area::control::Conditions::inline_filter).
    Through(u32),
}

/// A tracepoint's enable word: the sessions that enabled it.
///
/// | word | meaning |
/// |---|---|
/// | 0 | no session |
/// | bit 0 is set | one session, without a condition; bits 31..8 are the distance from slot 0's ring headers to its own, in units of 256 bytes; the others are 0 |
/// | bits 1..0 are 2 | one session, through an inline filter ([`InlineFilter`](crate::layout::InlineFilter)): bits 4..2 are its slot, bits 31..8 the distance in bytes from the word to the filter; the others are 0 |
/// | bits 1..0 are 0 | bits 15..8: the sessions, by their slots; bits 23..16: those of them for which a hit looks up a condition; bits 31..24: those of these that record the thread's counters, too |
/// | bits 2..0 are 4 | the same, and a recorder has not answered yet: bits 63..32 count the hits until it does; all ones: more than that |
///
/// Bits that no line names are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct EnableMask(pub u64);

/// A set of sessions, a bit for each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sessions {
    /// All sessions that enabled the tracepoint.
    pub all: u8,
    /// The sessions among `all` that have a condition.
    pub conditional: u8,
    /// The sessions among `conditional` that record performance counters, too.
    pub counted: u8,
}

impl Sessions {
    /// Returns true if the session in `slot` enabled the tracepoint.
    #[inline(always)]
    pub const fn has(self, slot: SlotIndex) -> bool {
        slot.is_in(self.all)
    }
}

/// Size in bytes of one slot's ring headers.
pub(crate) const fn stride(cpus: u32) -> u32 {
    (cpus + 1) * size_of::<RingHeader>() as u32
}

impl EnableMask {
    const ONE: u64 = 1;
    const INLINE: u64 = 2;
    const PENDING: u64 = 4;
    /// One hit in the count of a pending word.
    const HIT: u64 = 1 << 32;
    const OFFSET: u64 = 0xffff_ff00;

    /// The word of one session without a condition, in `slot`, given the number of CPUs that have a ring in each slot.
    pub const fn only(slot: SlotIndex, cpus: u32) -> Self {
        Self((slot.index() * stride(cpus)) as u64 | Self::ONE)
    }

    /// Returns true if no session enabled the tracepoint, and no recorder's answer is awaited.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true for one session without a condition.
    #[inline(always)]
    pub const fn is_one(self) -> bool {
        self.0 & Self::ONE != 0
    }

    /// The word of one session, in `slot`, through the inline filter `distance` bytes behind the word.
    const fn through(slot: SlotIndex, distance: u32) -> Self {
        Self((distance << 8 | slot.index() << 2) as u64 | Self::INLINE)
    }

    /// Returns true for one session through an inline filter.
    #[inline(always)]
    pub const fn has_inline_filter(self) -> bool {
        self.0 & Self::INLINE != 0
    }

    /// Returns true if the answer of a recorder is awaited.
    #[inline(always)]
    pub const fn is_pending(self) -> bool {
        self.0 & (Self::ONE | Self::INLINE | Self::PENDING) == Self::PENDING
    }

    /// The same sessions in the pending form, without hits. A pending word stays as it is.
    pub const fn pending(self, cpus: u32) -> Self {
        if self.is_pending() { self } else { Self(Self::all_of(self.sessions(cpus)).0 | Self::PENDING) }
    }

    /// The same sessions in the form without hits.
    pub const fn settled(self, cpus: u32) -> Self {
        if self.is_pending() { Self::naming(self.sessions(cpus), cpus) } else { self }
    }

    /// The word after one more hit, for a [pending](Self::is_pending) word.
    pub const fn hit(self) -> Self {
        if self.hits() == u32::MAX { self } else { Self(self.0 + Self::HIT) }
    }

    /// The hits of a [pending](Self::is_pending) word, all ones for that many or more; 0 for other words.
    pub const fn hits(self) -> u32 {
        if self.is_pending() { (self.0 >> 32) as u32 } else { 0 }
    }

    /// The distance in bytes from a [filtered](Self::has_inline_filter) word to its inline filter.
    #[inline(always)]
    pub const fn distance(self) -> usize {
        (self.0 >> 8) as usize
    }

    /// The word that a thread keeps of a CPU whose ring in slot 0 lies at `address`, for [`ring`](Self::ring). Not 0.
    ///
    /// It is one byte less than the address, so that adding an enable word with bit 0 leads to the ring: one
    /// instruction, where masking the bit would be another.
    pub const fn base(address: usize) -> usize {
        address - Self::ONE as usize
    }

    /// The address of the session's ring of that CPU, if the word is [one session's](Self::is_one).
    #[inline(always)]
    pub fn ring(self, base: usize) -> usize {
        sordino_percpu::sum(base, self.0 as usize)
    }

    /// The slot of the session, if it is one session with code that decides.
    pub const fn one_if(self) -> Option<SlotIndex> {
        let slot = (self.0 >> 8).trailing_zeros() % SLOTS as u32;
        if self.0 == 0x1_0100 << slot { SlotIndex::new(slot) } else { None }
    }

    /// The word of the same session without a condition, for one session [with code](Self::one_if) or
    /// [filtered](Self::has_inline_filter).
    pub const fn always(self, cpus: u32) -> Self {
        Self::only(SlotIndex::first_of(self.sessions(cpus).all), cpus)
    }

    /// The sessions, given the number of CPUs that have a ring in each slot.
    pub const fn sessions(self, cpus: u32) -> Sessions {
        if self.0 & (Self::ONE | Self::INLINE) == Self::INLINE {
            let all = 1 << (self.0 >> 2 & 7);
            return Sessions { all, conditional: all, counted: 0 };
        }
        if !self.is_one() {
            let all = (self.0 >> 8) as u8;
            let conditional = (self.0 >> 16) as u8 & all;
            return Sessions { all, conditional, counted: (self.0 >> 24) as u8 & conditional };
        }
        let all = match ((self.0 & Self::OFFSET) as u32).checked_div(stride(cpus)) {
            Some(slot) if slot < SLOTS as u32 => 1 << slot,
            _ => 0,
        };
        Sessions { all, conditional: 0, counted: 0 }
    }

    /// The word after the session in `slot` has enabled the tracepoint by `mode`.
    pub const fn with(self, slot: SlotIndex, mode: EnableMode, cpus: u32) -> Self {
        let (Sessions { all, conditional, counted }, bit) = (self.sessions(cpus), slot.bit());
        if matches!(mode, EnableMode::No) && all & bit == 0 {
            return self;
        }
        // The sessions without this one.
        let [all, conditional, counted] = [all & !bit, conditional & !bit, counted & !bit];
        let sessions = match mode {
            EnableMode::No => Sessions { all, conditional, counted },
            EnableMode::Always => Sessions { all: all | bit, conditional, counted },
            // If several sessions enabled it, each evaluates its code.
            EnableMode::If | EnableMode::Through(_) => {
                Sessions { all: all | bit, conditional: conditional | bit, counted }
            }
            EnableMode::Counted => {
                Sessions { all: all | bit, conditional: conditional | bit, counted: counted | bit }
            }
        };
        match mode {
            _ if self.is_pending() => {
                Self(Self::all_of(sessions).0 | self.0 & (!(Self::HIT - 1) | Self::PENDING))
            }
            EnableMode::Through(distance) if all == 0 => Self::through(slot, distance),
            _ => Self::naming(sessions, cpus),
        }
    }

    const fn naming(sessions: Sessions, cpus: u32) -> Self {
        let Sessions { all, conditional, .. } = sessions;
        if all.is_power_of_two() && conditional == 0 {
            return Self::only(SlotIndex::first_of(all), cpus);
        }
        Self::all_of(sessions)
    }

    /// The general form, with a bit for each session.
    const fn all_of(sessions: Sessions) -> Self {
        let Sessions { all, conditional, counted } = sessions;
        Self((all as u64) << 8 | (conditional as u64) << 16 | (counted as u64) << 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MAX_CPUS;

    const NOBODY: EnableMask = EnableMask(0);

    fn slot(index: u32) -> SlotIndex {
        SlotIndex::new(index).unwrap()
    }

    #[test]
    fn one_session_s_word_leads_to_its_rings_in_every_slot() {
        for cpus in [1, 2, 3, 255, MAX_CPUS] {
            for slot in SlotIndex::all() {
                let word = NOBODY.with(slot, EnableMode::Always, cpus);
                assert!(word.is_one());
                let offset = slot.index() as usize * (cpus as usize + 1) * size_of::<RingHeader>();
                assert_eq!(word.ring(EnableMask::base(0x7fff_0000_0100)), 0x7fff_0000_0100 + offset);
            }
        }
    }

    #[test]
    fn the_word_has_the_mode_of_each_of_eight_sessions_in_whatever_order_they_enabled() {
        const MODES: [EnableMode; 5] = [
            EnableMode::No,
            EnableMode::Always,
            EnableMode::If,
            EnableMode::Counted,
            EnableMode::Through(0x8004),
        ];
        for state in 0..5usize.pow(SLOTS as u32) {
            let mode = |slot: SlotIndex| MODES[state / 5usize.pow(slot.index()) % 5];
            let join = |word: EnableMask, slot: SlotIndex| word.with(slot, mode(slot), 4);
            let slots: Vec<SlotIndex> = SlotIndex::all().collect();
            let word = slots.iter().copied().fold(NOBODY, join);
            let other = slots.iter().copied().rev().fold(EnableMask(0xffff_ff00), join);
            assert_eq!(other.sessions(4), word.sessions(4));
            let Sessions { all, conditional, counted } = word.sessions(4);
            for &slot in &slots {
                let [mask, has_condition, is_counted] =
                    [all, conditional, counted].map(|slots| slot.is_in(slots));
                let expected = match mode(slot) {
                    EnableMode::No => (false, false, false),
                    EnableMode::Always => (true, false, false),
                    EnableMode::If | EnableMode::Through(_) => (true, true, false),
                    EnableMode::Counted => (true, true, true),
                };
                assert_eq!((mask, has_condition, is_counted), expected);
            }
            assert_eq!(word.is_one(), all.is_power_of_two() && conditional == 0);
            // The comparison of one integer decides alone only if nothing else is to be done.
            let one_if = all.is_power_of_two() && conditional == all && counted == 0;
            let through =
                slots.iter().filter(|slot| matches!(mode(**slot), EnableMode::Through(_))).count() == 1;
            assert_eq!(word.has_inline_filter(), one_if && through);
            assert_eq!(word.one_if(), (one_if && !through).then_some(SlotIndex::first_of(all)));
            if through {
                assert!(!one_if || word.distance() == 0x8004);
            } else {
                assert_eq!(other, word);
            }
            if one_if {
                assert_eq!(word.always(4), NOBODY.with(SlotIndex::first_of(all), EnableMode::Always, 4));
            }
        }
    }

    #[test]
    fn a_pending_word_keeps_its_hits_until_it_is_settled_whoever_joins_or_leaves() {
        const MODES: [EnableMode; 4] =
            [EnableMode::Always, EnableMode::If, EnableMode::Counted, EnableMode::Through(0x8004)];
        for first in MODES {
            let known = NOBODY.with(slot(3), first, 4);
            let pending = known.pending(4);
            assert!(pending.is_pending() && !pending.is_one() && !pending.has_inline_filter());
            assert_eq!((pending.sessions(4), pending.one_if()), (known.sessions(4), None));
            let hit = pending.hit().hit();
            assert_eq!((hit.hits(), hit.pending(4)), (2, hit));
            for second in MODES {
                let joined = hit.with(slot(5), second, 4);
                assert_eq!((joined.hits(), joined.is_pending()), (2, true));
                assert_eq!(joined.settled(4), known.with(slot(5), second, 4));
                assert_eq!(joined.with(slot(5), EnableMode::No, 4), hit);
            }
            // An inline filter is restored by the collector's next `renew`.
            let alone = if let EnableMode::Through(_) = first { EnableMode::If } else { first };
            assert_eq!(hit.settled(4), NOBODY.with(slot(3), alone, 4));
        }
        assert_eq!(NOBODY.pending(4).hit().settled(4), NOBODY);
        let full = EnableMask(NOBODY.pending(4).0 | 0xffff_fffe_0000_0000).hit();
        assert_eq!((full.hits(), full.hit()), (u32::MAX, full));
    }

    #[test]
    fn words_are_those_of_the_layout_s_page() {
        let two = NOBODY.with(slot(3), EnableMode::Always, 2).with(slot(5), EnableMode::If, 2);
        assert_eq!((NOBODY.with(slot(3), EnableMode::Always, 2).0, two.0), ((3 * 3 * 256) | 1, 0x20_2800));
        assert_eq!(two.with(slot(3), EnableMode::No, 2).0, 0x20_2000);
        assert_eq!(two.with(slot(5), EnableMode::No, 2), NOBODY.with(slot(3), EnableMode::Always, 2));
        assert_eq!(two.with(slot(5), EnableMode::Counted, 2).0, 0x2020_2800);
        assert_eq!(two.with(slot(5), EnableMode::Always, 2).0, 0x2800);
        assert_eq!(two.with(slot(3), EnableMode::No, 2).with(slot(5), EnableMode::No, 2), NOBODY);
        assert_eq!(two.pending(2).hit().hit().0, 0x2_0020_2804);
        let filtered = NOBODY.with(slot(5), EnableMode::Through(0x8040), 2);
        assert_eq!((filtered.0, filtered.with(slot(3), EnableMode::No, 2)), (0x80_4016, filtered));
        assert_eq!(filtered.with(slot(3), EnableMode::Always, 2), two);
    }

    #[test]
    fn a_word_that_nobody_made_names_no_session_that_cannot_be() {
        for word in
            [1, 0xff, 0xffff_ffff, 0xffff_ff01, 0xff_0000, 0x8000_0001, 4, 0xffff_ffff_ffff_fffc, u64::MAX]
        {
            let Sessions { all, conditional, counted } = EnableMask(word).sessions(2);
            assert_eq!((conditional & !all, counted & !conditional), (0, 0), "{word:x}");
            assert_eq!(
                EnableMask(word).with(slot(2), EnableMode::Always, 2).sessions(2).all,
                all | 4,
                "{word:x}"
            );
        }
    }
}
