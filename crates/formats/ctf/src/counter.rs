//! Corrections of the readings of CPUs' counters, which are a little apart.

use sordino_event::{Cpu, Ticks};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The offset of a CPU's counter at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSample {
    /// The reading of the CPU's counter.
    pub at: Ticks,
    /// The number of ticks by which it is ahead of the trace's clock.
    pub offset: i64,
}

/// The offsets of CPUs' counters from the trace's clock, which the reader subtracts from timestamps.
///
/// Between two samples the offset changes evenly, and before the first and behind the last it does not change. The
/// timestamps of a CPU keep their order: samples between which an offset changes by more than half of the time are
/// [rejected](Self::set).
///
/// Timestamps without a CPU in their packet's header, such as those of a ring that several CPUs share, are left alone:
/// they have an order of their own, which corrections of different CPUs would break.
///
/// ```
/// use sordino_ctf::{CounterCorrections, CounterSample};
/// use sordino_event::{Cpu, Ticks};
///
/// let mut corrections = CounterCorrections::default();
/// let sample = |at, offset| CounterSample { at: Ticks(at), offset };
/// assert!(corrections.set(Cpu(1), vec![sample(1_000, 40), sample(2_000, 60)]));
/// assert_eq!(corrections.corrected(Ticks(1_500), Some(Cpu(1))), Ticks(1_450));
/// assert_eq!(corrections.corrected(Ticks(1_500), Some(Cpu(0))), Ticks(1_500));
/// assert!(!corrections.set(Cpu(2), vec![sample(1_000, 0), sample(1_001, 1_000_000)]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterCorrections(Option<Arc<BTreeMap<Cpu, Vec<CounterSample>>>>);

impl CounterCorrections {
    /// Sets the offsets of a CPU's counter. Returns false, and sets none, if they change by more than half of the time
    /// between two samples.
    pub fn set(&mut self, cpu: Cpu, mut samples: Vec<CounterSample>) -> bool {
        samples.sort_unstable_by_key(|sample| (sample.at.0, sample.offset));
        let is_gentle = |pair: &[CounterSample]| {
            pair[1].offset.abs_diff(pair[0].offset) <= (pair[1].at.0 - pair[0].at.0) / 2
        };
        let is_usable = samples.windows(2).all(is_gentle);
        if is_usable && !samples.is_empty() {
            Arc::make_mut(self.0.get_or_insert_default()).insert(cpu, samples);
        }
        is_usable
    }

    /// Returns the trace clock's reading when the counter of `cpu` showed `ticks`.
    #[inline]
    pub fn corrected(&self, ticks: Ticks, cpu: Option<Cpu>) -> Ticks {
        match &self.0 {
            None => ticks,
            Some(offsets) => {
                let samples = cpu.and_then(|cpu| offsets.get(&cpu));
                samples.map_or(ticks, |samples| subtract(ticks, offset_at(samples, ticks)))
            }
        }
    }

    /// Returns true if no CPU has an offset.
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_none()
    }
}

/// Returns the nearest reading to `ticks` without the offset.
fn subtract(ticks: Ticks, offset: i64) -> Ticks {
    let corrected = i128::from(ticks.0) - i128::from(offset);
    Ticks(corrected.clamp(0, u64::MAX.into()) as u64)
}

/// Returns the offset when the counter shows `ticks`. With each tick it grows by at most one, since it is rounded down
/// and its slope is at most a half.
fn offset_at(samples: &[CounterSample], ticks: Ticks) -> i64 {
    let next = samples.partition_point(|sample| sample.at.0 <= ticks.0);
    match (next.checked_sub(1).map(|last| samples[last]), samples.get(next)) {
        (Some(from), Some(to)) => {
            let change = i128::from(to.offset) - i128::from(from.offset);
            let passed = i128::from(ticks.0 - from.at.0);
            from.offset + (change * passed).div_euclid((to.at.0 - from.at.0).into()) as i64
        }
        (Some(only), None) => only.offset,
        (None, Some(only)) => only.offset,
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(at: u64, offset: i64) -> CounterSample {
        CounterSample { at: Ticks(at), offset }
    }

    #[test]
    fn what_no_counter_can_show_becomes_the_nearest() {
        let mut corrections = CounterCorrections::default();
        assert!(corrections.are_none() && corrections.set(Cpu(0), Vec::new()) && corrections.are_none());
        assert!(corrections.set(Cpu(1), vec![sample(5, i64::MAX)]));
        assert!(corrections.set(Cpu(2), vec![sample(5, i64::MIN)]));
        let corrected = |ticks, cpu| corrections.corrected(Ticks(ticks), Some(Cpu(cpu))).0;
        assert_eq!((corrected(7, 1), corrected(u64::MAX, 2)), (0, u64::MAX));
        assert_eq!(corrections.corrected(Ticks(7), None), Ticks(7));
    }

    proptest! {
        #[test]
        fn a_cpus_timestamps_keep_their_order(
            samples in prop::collection::vec((0..2_000_u64, -500..500_i64), 1..8),
            mut times in prop::collection::vec(0..2_100_u64, 2..60),
        ) {
            let mut corrections = CounterCorrections::default();
            let samples: Vec<_> = samples.iter().map(|&(at, offset)| sample(at, offset)).collect();
            prop_assume!(corrections.set(Cpu(3), samples.clone()));
            // Behind the epoch, so that none becomes the nearest that a counter can show.
            times.sort_unstable();
            let corrected = times.iter().map(|time| corrections.corrected(Ticks(*time), Some(Cpu(3))).0);
            prop_assert!(corrected.is_sorted());
            for CounterSample { at, offset } in samples.iter().filter(|sample| sample.at.0 > 500) {
                let back = corrections.corrected(*at, Some(Cpu(3)));
                prop_assert_eq!(back.0.cast_signed(), at.0.cast_signed() - offset);
            }
        }
    }
}
