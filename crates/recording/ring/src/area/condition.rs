//! Conditions, pure: the offset and the lengths of the code that selects the hits to record, and of the code that
//! selects the hits that request a snapshot.
//!
//! A session's region ends with a pool of code and a table that leads to it, with a word for each tracepoint. The
//! collector only appends to the pool: if a load sees a word, it sees its code. This crate does not interpret the code.

use std::ops::Range;

/// The longest code of a filter, and of a trigger, in bytes.
pub const MAX_CODE: usize = 512;

/// The hits at which an action happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When<T> {
    /// It happens at each hit.
    Always,
    /// It happens at no hit.
    Never,
    /// It happens if this holds.
    If(T),
}

/// The conditions of a session for one tracepoint's hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code<'a> {
    /// The hits that are recorded.
    pub filter: When<&'a [u8]>,
    /// The hits that request a snapshot, after they were recorded or not.
    pub trigger: When<&'a [u8]>,
}

/// The offset and the lengths of one tracepoint's code: its word in the table.
///
/// | bits | meaning |
/// |---|---|
/// | 31..20 | the offset in the pool of the filter's code, in units of 16 bytes; the trigger's follows at the next multiple of 8 |
/// | 19..10 | the length of the trigger's code; 0: never; all ones: always |
/// | 9..0 | the length of the filter's code; 0: always; all ones: never |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRange(pub u32);

impl CodeRange {
    /// Alignment in bytes of the collector's code.
    pub const UNIT: usize = 16;
    /// The bits of a length, all set: the one of `Always` and `Never` that 0 does not stand for.
    const OTHER: u32 = 0x3ff;

    /// The word for code that begins `start` bytes into the pool, a multiple of [`UNIT`](Self::UNIT); the lengths are
    /// at most [`MAX_CODE`] and not 0.
    pub fn of(start: usize, filter: When<usize>, trigger: When<usize>) -> Self {
        let length = |when, usual| match when {
            When::If(length) => length as u32,
            when if when == usual => 0,
            _ => Self::OTHER,
        };
        let (filter, trigger) = (length(filter, When::Always), length(trigger, When::Never));
        Self(((start / Self::UNIT) as u32) << 20 | trigger << 10 | filter)
    }

    /// The filter's code, as a range of the pool's bytes.
    #[inline(always)]
    pub fn filter(self) -> When<Range<usize>> {
        match self.length(0) {
            0 => When::Always,
            Self::OTHER => When::Never,
            length => When::If(self.code(0, length)),
        }
    }

    /// The trigger's code, as a range of the pool's bytes.
    #[inline(always)]
    pub fn trigger(self) -> When<Range<usize>> {
        match self.length(10) {
            0 => When::Never,
            Self::OTHER => When::Always,
            length => {
                let filter = self.filter();
                let before = if let When::If(code) = filter { code.len().next_multiple_of(8) } else { 0 };
                When::If(self.code(before, length))
            }
        }
    }

    #[inline(always)]
    fn length(self, shift: u32) -> u32 {
        self.0 >> shift & Self::OTHER
    }

    #[inline(always)]
    fn code(self, before: usize, length: u32) -> Range<usize> {
        let start = (self.0 >> 20) as usize * Self::UNIT + before;
        start..start + (length as usize).min(MAX_CODE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{CONDITION_POOL, PAGE};

    #[test]
    fn a_place_says_what_it_was_made_of() {
        let ifs = [When::Always, When::Never, When::If(1), When::If(9), When::If(MAX_CODE)];
        for start in [0, 16, CONDITION_POOL - 16] {
            for (filter, trigger) in ifs.into_iter().flat_map(|filter| ifs.map(|trigger| (filter, trigger))) {
                let range = CodeRange::of(start, filter, trigger);
                let length = |when| match when {
                    When::If(code) => When::If(Range::len(&code)),
                    When::Always => When::Always,
                    When::Never => When::Never,
                };
                assert_eq!((length(range.filter()), length(range.trigger())), (filter, trigger));
                if let (When::If(filter), When::If(trigger)) = (range.filter(), range.trigger()) {
                    assert!(filter.start == start && trigger.start == filter.end.next_multiple_of(8));
                }
            }
        }
    }

    #[test]
    fn no_word_is_a_tracepoint_without_conditions() {
        assert_eq!(CodeRange::of(0, When::Always, When::Never), CodeRange(0));
        assert_eq!((CodeRange(0).filter(), CodeRange(0).trigger()), (When::Always, When::Never));
    }

    #[test]
    fn a_word_that_nobody_made_leads_no_further_than_the_region_s_last_page() {
        for word in (0..u32::MAX).step_by(9973).chain([u32::MAX, u32::MAX << 20 | 0xf_fbfe]) {
            for when in [CodeRange(word).filter(), CodeRange(word).trigger()] {
                let When::If(code) = when else { continue };
                assert!(code.len() <= MAX_CODE && code.end <= CONDITION_POOL + PAGE, "{word:x}: {code:?}");
                assert!(code.start.is_multiple_of(8));
            }
        }
    }
}
