//! Conversion of a trace clock's ticks to time.

use crate::{CounterCorrections, Uuid};
use sordino_event::{Cpu, Nanos, Ticks, Time};

const NANOS: u64 = 1_000_000_000;

/// The clock of a trace and the relation of its ticks to the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockDescription {
    /// The name by which fields refer to it; an identifier.
    pub name: String,
    /// The clock's identity. Traces with clocks of the same identity can be merged.
    pub uuid: Option<Uuid>,
    /// A description for people.
    pub description: String,
    /// Ticks per second; not 0.
    pub frequency: u64,
    /// The seconds from the epoch to a point of time that lies `offset_ticks` before the clock's zero.
    pub offset_seconds: i64,
    /// The number of ticks from that point of time to the clock's zero.
    pub offset_ticks: u64,
    /// True if the clock is absolute: it can be compared with the absolute clocks of other traces.
    pub absolute: bool,
    /// The offsets of CPUs' counters from it. No metadata has them.
    pub corrections: CounterCorrections,
}

impl ClockDescription {
    /// Creates a clock of nanoseconds since the epoch.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            uuid: None,
            description: String::new(),
            frequency: NANOS,
            offset_seconds: 0,
            offset_ticks: 0,
            absolute: true,
            corrections: CounterCorrections::default(),
        }
    }

    /// Returns the time of `ticks`, rounded down to a nanosecond, or the nearest time that [`Time`] can represent.
    pub fn time(&self, ticks: Ticks) -> Time {
        TickConversion::new(self).time(ticks)
    }

    /// Moves the clock's zero by this time, to a tick, or as far as the offset can represent.
    pub fn shift(&mut self, by: Nanos) {
        let frequency = i128::from(self.frequency.max(1));
        let ticks = i128::from(by.0) * frequency / i128::from(NANOS) + i128::from(self.offset_ticks);
        let seconds = i128::from(self.offset_seconds) + ticks.div_euclid(frequency);
        self.offset_seconds = seconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        self.offset_ticks = ticks.rem_euclid(frequency) as u64;
    }
}

/// A [`ClockDescription`] prepared for converting many ticks.
///
/// A trace can have ticks of 0.4 ns that started at boot or at the epoch, so the product of ticks and 10^9 needs 128
/// bits, and its division takes longer than decoding an event. A multiplication with the nanoseconds of a tick, in
/// units of 2^-64, replaces it; values that do not fit, which are rare, take the slow path.
#[derive(Clone, Debug)]
pub(crate) struct TickConversion {
    frequency: u64,
    /// The nanoseconds of a tick: the whole part, and the rest in units of 1 / `frequency` and of 2^-64, rounded down.
    whole: u64,
    part: u64,
    fraction: u64,
    /// The whole seconds of the offset, in nanoseconds.
    base: i128,
    /// The same, if the fast path can be used.
    fast_base: Option<i64>,
    /// The rest of the offset, in ticks: below `frequency`.
    rest: u64,
    corrections: CounterCorrections,
}

impl TickConversion {
    pub(crate) fn new(clock: &ClockDescription) -> Self {
        let frequency = clock.frequency.max(1);
        let seconds = i128::from(clock.offset_seconds) + i128::from(clock.offset_ticks / frequency);
        let (part, base) = (NANOS % frequency, seconds * i128::from(NANOS));
        Self {
            frequency,
            whole: NANOS / frequency,
            part,
            fraction: ((u128::from(part) << 64) / u128::from(frequency)) as u64,
            base,
            fast_base: i64::try_from(base).ok().filter(|_| frequency <= u64::MAX / 2),
            rest: clock.offset_ticks % frequency,
            corrections: clock.corrections.clone(),
        }
    }

    /// Returns the time when the counter of a CPU showed `ticks`.
    #[inline]
    pub(crate) fn time_on(&self, ticks: Ticks, cpu: impl FnOnce() -> Option<Cpu>) -> Time {
        let are_none = self.corrections.are_none();
        self.time(if are_none { ticks } else { self.corrections.corrected(ticks, cpu()) })
    }

    #[inline]
    pub(crate) fn time(&self, Ticks(ticks): Ticks) -> Time {
        self.fast(ticks).unwrap_or_else(|| self.exact(ticks))
    }

    /// Returns the time, unless a number does not fit.
    ///
    /// `fraction` falls short of its true value by less than 2^-64, and there are fewer than 2^64 ticks. So `nanos`
    /// falls short of the true quotient `ticks * part / frequency` by less than 1 before it is rounded down, and by at
    /// most 1 afterwards. The remainder, below twice the frequency, shows which. It fits 64 bits; its terms may wrap.
    #[inline]
    fn fast(&self, ticks: u64) -> Option<Time> {
        let (base, ticks) = (self.fast_base?, ticks.checked_add(self.rest)?);
        let nanos = ((u128::from(ticks) * u128::from(self.fraction)) >> 64) as u64;
        let remainder = ticks.wrapping_mul(self.part).wrapping_sub(nanos.wrapping_mul(self.frequency));
        let nanos = nanos + u64::from(remainder >= self.frequency);
        let nanos = ticks.checked_mul(self.whole)?.checked_add(nanos)?;
        base.checked_add_unsigned(nanos).map(Time)
    }

    #[cold]
    fn exact(&self, ticks: u64) -> Time {
        let ticks = i128::from(ticks) + i128::from(self.rest);
        let nanos = self.base + ticks * i128::from(NANOS) / i128::from(self.frequency);
        Time(nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clock(frequency: u64, offset_seconds: i64, offset_ticks: u64) -> ClockDescription {
        ClockDescription { frequency, offset_seconds, offset_ticks, ..ClockDescription::new("c") }
    }

    #[test]
    fn offsets_count_before_rounding() {
        // The sum of 2 ticks of offset and 2 of time is 4/3 s; rounding each separately would lose a nanosecond.
        assert_eq!(clock(3, 0, 2).time(Ticks(2)), Time(1_333_333_333));
        assert_eq!(clock(1, -5, 0).time(Ticks(2)), Time(-3_000_000_000));
        assert_eq!(
            clock(NANOS, 0, 1_450_192_743_562_703_624).time(Ticks(1)),
            Time(1_450_192_743_562_703_625)
        );
    }

    #[test]
    fn what_time_cannot_hold_becomes_the_nearest_it_can() {
        assert_eq!(clock(1, 0, 0).time(Ticks(u64::MAX)), Time::MAX);
        assert_eq!(clock(1, i64::MIN, 0).time(Ticks(0)), Time::MIN);
        assert_eq!(clock(NANOS, 0, u64::MAX).time(Ticks(u64::MAX)), Time::MAX);
    }

    #[test]
    fn clocks_in_use_take_the_fast_path() {
        for frequency in [1, 1_000_000, 999_999_999, NANOS, 2_299_999_917, 5_000_000_000] {
            let conversion = TickConversion::new(&clock(frequency, 1_795_822_988, frequency - 1));
            let days = 100 * 86_400 * frequency;
            for ticks in [0, 1, frequency, days, days + 1] {
                assert_eq!(
                    conversion.fast(ticks),
                    Some(conversion.exact(ticks)),
                    "{ticks} at {frequency} Hz"
                );
            }
        }
    }

    #[test]
    fn a_shift_that_no_offset_can_hold_is_the_nearest() {
        let mut last = clock(1, i64::MAX, u64::MAX);
        last.shift(Nanos(i64::MAX));
        assert_eq!(last.time(Ticks(0)), Time::MAX);
    }

    proptest! {
        #[test]
        fn a_shift_moves_all_times_alike_to_a_tick(
            frequency in 1_000_000..10_000_000_000_u64,
            seconds in -2_000_000_000..2_000_000_000_i64,
            // At 1 MHz, too, all times lie within what `Time` represents.
            offset in 0..1_000_000_000_000_000_u64,
            ticks in 0..10_000_000_000_000_u64,
            by in -1_000_000_000_000_000_000..1_000_000_000_000_000_000_i64,
        ) {
            let (mut shifted, tick) = (clock(frequency, seconds, offset), (NANOS / frequency) as i64 + 1);
            let before = shifted.time(Ticks(ticks));
            shifted.shift(Nanos(by));
            prop_assert!(((shifted.time(Ticks(ticks)) - before).0 - by).abs() <= tick);
        }

        #[test]
        fn the_fast_way_is_the_exact_way(
            frequency in prop_oneof![1..100_u64, 999_999_990..1_000_000_010_u64, 1..=u64::MAX, u64::MAX - 9..=u64::MAX],
            seconds in prop_oneof![0..2_000_000_000_i64, any::<i64>()],
            offset in prop_oneof![0..4_000_000_000_000_000_000_u64, any::<u64>()],
            ticks in prop_oneof![Just(0), 0..10_000_000_000_000_u64, any::<u64>(), Just(u64::MAX)],
        ) {
            let conversion = TickConversion::new(&clock(frequency, seconds, offset));
            prop_assert_eq!(conversion.time(Ticks(ticks)), conversion.exact(ticks));
        }
    }
}
