//! Samples of all clocks, and the cycle counter's rate between two samples.

use crate::{Clock, cycles_in_order, nanoseconds};
use std::time::Duration;

/// Readings of all clocks, as close together as possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Value of the cycle counter.
    pub cycles: u64,
    /// Number of cycles that passed while the clocks were read: the sample's uncertainty.
    pub width: u64,
    /// Time of `CLOCK_MONOTONIC` in nanoseconds.
    pub monotonic: u64,
    /// Time of `CLOCK_MONOTONIC_RAW` in nanoseconds.
    pub monotonic_raw: u64,
    /// Time of `CLOCK_REALTIME` in nanoseconds.
    pub realtime: u64,
    /// Time of `CLOCK_BOOTTIME` in nanoseconds.
    pub boottime: u64,
}

impl Sample {
    /// Takes 20 samples and returns the narrowest, which was most probably not interrupted.
    pub fn take() -> Self {
        (0..20).map(|_| Self::once()).min_by_key(|sample| sample.width).unwrap_or_default()
    }

    fn once() -> Self {
        let before = cycles_in_order();
        let monotonic = nanoseconds(Clock::Monotonic);
        let realtime = nanoseconds(Clock::Realtime);
        let monotonic_raw = nanoseconds(Clock::MonotonicRaw);
        let boottime = nanoseconds(Clock::Boottime);
        let width = cycles_in_order().wrapping_sub(before);
        Self { cycles: before + width / 2, width, monotonic, monotonic_raw, realtime, boottime }
    }
}

/// Frequency of the cycle counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Cycles per second of `CLOCK_MONOTONIC_RAW`.
    pub hertz: f64,
    /// Relative uncertainty of `hertz`.
    pub uncertainty: f64,
}

impl Rate {
    /// Computes the rate from two samples, the earlier first; `None` if no time passed between them.
    pub fn between(earlier: &Sample, later: &Sample) -> Option<Self> {
        let cycles = later.cycles.checked_sub(earlier.cycles)? as f64;
        let seconds = later.monotonic_raw.checked_sub(earlier.monotonic_raw)? as f64 / 1e9;
        if seconds <= 0.0 || cycles <= 0.0 {
            return None;
        }
        let uncertainty = (earlier.width + later.width) as f64 / 2.0 / cycles;
        Some(Self { hertz: cycles / seconds, uncertainty })
    }

    /// Measures the rate for about `time`, during which the calling thread sleeps.
    pub fn measure(time: Duration) -> Option<Self> {
        let earlier = Sample::take();
        std::thread::sleep(time);
        Self::between(&earlier, &Sample::take())
    }

    /// Converts cycles to nanoseconds.
    pub fn nanoseconds(&self, cycles: u64) -> f64 {
        cycles as f64 * 1e9 / self.hertz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_cycles_by_raw_seconds() {
        let earlier = Sample { cycles: 1_000, width: 100, monotonic_raw: 5_000, ..Sample::default() };
        let later = Sample { cycles: 3_001_000, width: 300, monotonic_raw: 1_005_000, ..Sample::default() };
        let rate = Rate::between(&earlier, &later).unwrap();
        assert_eq!(rate.hertz, 3e9);
        assert_eq!(rate.nanoseconds(3), 1.0);
        assert!((rate.uncertainty - 200.0 / 3e6).abs() < 1e-12);
        assert_eq!(Rate::between(&later, &earlier), None);
        assert_eq!(Rate::between(&later, &later), None);
    }

    #[test]
    fn all_clocks_go_forward() {
        let (first, second) = (Sample::take(), Sample::take());
        assert!(second.cycles > first.cycles && second.monotonic >= first.monotonic);
        assert!(second.monotonic_raw >= first.monotonic_raw && second.boottime >= first.boottime);
        let rate = Rate::measure(Duration::from_millis(20)).unwrap();
        assert!(rate.hertz > 1e6 && rate.hertz < 1e10, "{rate:?}");
    }
}
