//! Detection of events that happen at regular intervals.

use sordino_event::Time;

/// The intervals between events, sorted by the logarithm of their lengths.
#[derive(Clone, Debug)]
pub struct Rhythm {
    last: Option<Time>,
    counts: [u32; 64],
    times: [u64; 64],
}

/// The minimum number of intervals in a rhythm.
const FEW: u64 = 8;

impl Default for Rhythm {
    fn default() -> Self {
        Self { last: None, counts: [0; 64], times: [0; 64] }
    }
}

impl Rhythm {
    /// Adds an event; its interval begins with the event before.
    pub fn hit(&mut self, now: Time) {
        if let Some(last) = self.last.replace(now) {
            let length = (now - last).0.max(0).cast_unsigned();
            let bucket = length.checked_ilog2().unwrap_or(0) as usize;
            self.counts[bucket] = self.counts[bucket].saturating_add(1);
            self.times[bucket] = self.times[bucket].saturating_add(length);
        }
    }

    /// Returns the number of intervals.
    pub fn intervals(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns true if intervals of about the same length are the most frequent and take most of the time. A loop with
    /// a few long intervals is regular. Bursts are not: their pauses are few and take most of the time.
    pub fn is_regular(&self) -> bool {
        let by_count = median(self.counts.iter().map(|count| u64::from(*count)));
        let by_time = median(self.times.iter().copied());
        self.intervals() >= FEW && by_time.abs_diff(by_count) <= 1
    }
}

/// Returns the bucket in which half of the sum is reached.
fn median(values: impl Iterator<Item = u64> + Clone) -> usize {
    let half = values.clone().map(u128::from).sum::<u128>().div_ceil(2);
    let mut sum = 0;
    values
        .take_while(|value| {
            sum += u128::from(*value);
            sum < half
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_regular(lengths: impl IntoIterator<Item = i64>) -> bool {
        let mut rhythm = Rhythm::default();
        let mut now = 0;
        rhythm.hit(Time(0));
        for length in lengths {
            now += length;
            rhythm.hit(Time(now));
        }
        rhythm.is_regular()
    }

    #[test]
    fn a_loop_with_a_few_long_gaps_is_regular() {
        assert!(is_regular([1_000_000; 20]));
        assert!(is_regular((0..1000).map(|i| if i % 200 == 7 { 20_000_000 } else { 1_000_000 + i * 100 })));
        assert!(is_regular([1_040_000, 1_050_000].repeat(50)), "on both sides of a bucket's end");
    }

    #[test]
    fn bursts_rare_events_and_absurd_times_are_not() {
        assert!(!is_regular([1_000, 1_000, 1_000, 997_000].repeat(100)));
        assert!(!is_regular([1_000_000; 7]));
        assert!(!is_regular([]));
        assert!(!is_regular([-30, i64::MAX, -30, 3, 3, 3, 3, 3, 3]));
    }
}
