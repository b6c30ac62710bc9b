//! The values of packets and events besides the fields.

use super::program::Register;
use crate::Uuid;

/// The values of a packet or an event besides its fields.
#[derive(Debug, Default)]
pub(super) struct Registers {
    pub(super) values: [u64; Register::COUNT],
    /// A bit for each register that has a value.
    pub(super) present: u32,
    /// The whole clock; events may have the low bits only.
    pub(super) ticks: u64,
    pub(super) uuid: Option<Uuid>,
}

impl Registers {
    /// Forgets the values of the packet before, except the clock's.
    pub(super) fn clear(&mut self) {
        (self.present, self.uuid) = (0, None);
    }

    /// Forgets the values of the event before, except the clock's.
    #[inline]
    pub(super) fn begin_event(&mut self) {
        self.present &= Register::FIRST_OF_EVENT.bit() - 1;
    }

    #[inline]
    pub(super) fn get(&self, register: Register) -> Option<u64> {
        (self.present & register.bit() != 0).then(|| self.values[register as usize])
    }

    pub(super) fn set(&mut self, register: Register, value: u64) {
        self.values[register as usize] = value;
        self.present |= register.bit();
    }

    /// Returns the first clock reading since `earlier` whose low `bits` are `low`.
    #[inline]
    pub(super) fn extend(earlier: u64, low: u64, bits: u32) -> u64 {
        let Some(span) = 1_u64.checked_shl(bits) else { return low };
        let candidate = earlier & !(span - 1) | low & (span - 1);
        if candidate < earlier { candidate.wrapping_add(span) } else { candidate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_clock_shown_in_part_never_goes_back(earlier in any::<u64>(), low in any::<u64>(), bits in 1..=64_u32) {
            let mask = u64::MAX >> (64 - bits);
            let ticks = Registers::extend(earlier, low & mask, bits);
            prop_assert_eq!(ticks & mask, low & mask);
            if bits < 64 && earlier < u64::MAX - mask {
                prop_assert!(ticks >= earlier && ticks - earlier <= mask);
            }
        }
    }
}
