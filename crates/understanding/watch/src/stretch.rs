//! The sums over one stretch of the trace.

use crate::busy::BusyTime;
use sordino_event::{Cpu, Nanos};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Number of bars of a histogram: a length in nanoseconds has at most so many bits.
pub(crate) const BARS: usize = 64;

/// The time of a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StretchTime {
    /// The time since the last stretch ended.
    pub elapsed: Nanos,
    /// The part of it whose events were read; the rest was left out.
    pub covered: Nanos,
}

/// The sums over one stretch, or over several.
#[derive(Clone, Debug)]
pub(crate) struct StretchSums {
    pub(crate) time: StretchTime,
    /// The number of events by name.
    pub(crate) events: HashMap<Arc<str>, u64>,
    /// The number of waits by the number of bits of their length.
    pub(crate) bars: [u64; BARS],
    pub(crate) cpus: BTreeMap<Cpu, CpuSums>,
    pub(crate) handlers: BTreeMap<Arc<str>, HandlerSums>,
}

/// The sums of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuSums {
    pub(crate) time: BusyTime,
    pub(crate) events: u64,
}

/// The sums of a handler of interrupts or softirqs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HandlerSums {
    pub(crate) count: u64,
    pub(crate) total: Nanos,
    pub(crate) max: Nanos,
}

impl Default for StretchSums {
    fn default() -> Self {
        Self {
            time: StretchTime::default(),
            events: HashMap::new(),
            bars: [0; BARS],
            cpus: BTreeMap::new(),
            handlers: BTreeMap::new(),
        }
    }
}

impl StretchSums {
    /// Returns the index of the bar for a length.
    pub(crate) fn bar(length: Nanos) -> usize {
        (u64::BITS - length.0.max(0).cast_unsigned().leading_zeros()).min(BARS as u32 - 1) as usize
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.time.elapsed += other.time.elapsed;
        self.time.covered += other.time.covered;
        for (name, count) in &other.events {
            *self.events.entry(Arc::clone(name)).or_default() += count;
        }
        self.bars.iter_mut().zip(other.bars).for_each(|(sum, count)| *sum += count);
        for (cpu, sums) in &other.cpus {
            let sum = self.cpus.entry(*cpu).or_default();
            sum.time.add(sums.time);
            sum.events += sums.events;
        }
        for (name, sums) in &other.handlers {
            self.handlers.entry(Arc::clone(name)).or_default().add(*sums);
        }
    }
}

impl HandlerSums {
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
        self.max = self.max.max(other.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_length_is_in_the_bar_below_the_next_power_of_two(length in 0_i64..i64::MAX) {
            let bar = StretchSums::bar(Nanos(length));
            prop_assert!(u128::from(length.unsigned_abs()) < 1_u128 << bar);
            prop_assert!(bar == 0 || length.unsigned_abs() >= 1 << (bar - 1));
        }
    }
}
