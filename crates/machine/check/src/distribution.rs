//! Distributions of measured times as reports store them: figures, percentiles, and a histogram that counts every
//! sample.

use serde::{Deserialize, Serialize};
use sordino_clock::Rate;
use sordino_npt::Bucket;
use std::collections::BTreeMap;

/// Distribution of a number of measured times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of measured times.
    pub count: u64,
    /// Shortest time in nanoseconds.
    pub minimum_ns: f64,
    /// Arithmetic mean in nanoseconds.
    pub mean_ns: f64,
    /// Longest time in nanoseconds.
    pub maximum_ns: f64,
    /// Percentiles for which there are enough samples: p99.9 takes a thousand of them.
    pub percentiles: Vec<DistributionPercentile>,
    /// Histogram of all samples, ascending. If samples over a bound were only counted, the last bin is wide and ends
    /// with the longest time.
    pub histogram: Vec<Bin>,
}

/// A percentile: this part of all samples took at most this time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DistributionPercentile {
    /// Part of the samples in percent.
    pub percent: f64,
    /// The percentile's time in nanoseconds.
    pub time_ns: f64,
}

/// Number of samples between two times, both included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Lower edge of the bin.
    pub low_ns: f64,
    /// Upper edge of the bin.
    pub high_ns: f64,
    /// Number of samples in the bin.
    pub count: u64,
}

/// Percentiles that reports store, in millionths.
const PARTS: [u64; 7] = [500_000, 900_000, 990_000, 999_000, 999_900, 999_990, 999_999];

/// Width of a report's bins relative to their times: the resolution of a plot.
const WIDTH: f64 = 0.03;

/// Samples while they are collected: bins, and figures that are known more precisely than the bins.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Bins in ascending order.
    pub bins: Vec<Bin>,
    /// Shortest time in nanoseconds.
    pub minimum_ns: f64,
    /// Arithmetic mean in nanoseconds.
    pub mean_ns: f64,
    /// Longest time in nanoseconds.
    pub maximum_ns: f64,
}

impl Samples {
    /// Counts single times, given in nanoseconds.
    pub fn of(times: impl IntoIterator<Item = u64>) -> Self {
        let mut counts = BTreeMap::<u64, u64>::new();
        times.into_iter().for_each(|time| *counts.entry(time).or_default() += 1);
        let total: u64 = counts.values().sum();
        let sum: f64 = counts.iter().map(|(time, count)| *time as f64 * *count as f64).sum();
        let bin =
            |(time, count): (&u64, &u64)| Bin { low_ns: *time as f64, high_ns: *time as f64, count: *count };
        let edge = |entry: Option<(&u64, &u64)>| entry.map_or(0.0, |(time, _)| *time as f64);
        Self {
            minimum_ns: edge(counts.first_key_value()),
            maximum_ns: edge(counts.last_key_value()),
            mean_ns: sum / (total as f64).max(1.0),
            bins: counts.iter().map(bin).collect(),
        }
    }
}

impl Samples {
    /// Converts counted cycles to times. Buckets may come from several histograms; `longest` is the exact maximum in
    /// cycles.
    pub fn of_cycles(buckets: impl IntoIterator<Item = Bucket>, longest: u64, rate: &Rate) -> Self {
        let mut counts = BTreeMap::<(u64, u64), u64>::new();
        buckets
            .into_iter()
            .for_each(|bucket| *counts.entry((bucket.low, bucket.high)).or_default() += bucket.count);
        let total: u64 = counts.values().sum();
        let middle = |low: u64, high: u64| low as f64 + (high - low) as f64 / 2.0;
        let sum: f64 = counts.iter().map(|(&(low, high), &count)| middle(low, high) * count as f64).sum();
        let ns = |cycles: u64| rate.nanoseconds(cycles.min(longest));
        let bin =
            |(&(low, high), &count): (&(u64, u64), &u64)| Bin { low_ns: ns(low), high_ns: ns(high), count };
        Self {
            minimum_ns: counts.first_key_value().map_or(0.0, |(&(low, _), _)| ns(low)),
            maximum_ns: rate.nanoseconds(longest),
            mean_ns: sum / (total as f64).max(1.0) * 1e9 / rate.hertz,
            bins: counts.iter().map(bin).collect(),
        }
    }
}

impl From<Samples> for Distribution {
    fn from(samples: Samples) -> Self {
        let count: u64 = samples.bins.iter().map(|bin| bin.count).sum();
        let percentiles =
            PARTS.into_iter().filter(|parts| u128::from(count) * u128::from(1_000_000 - parts) >= 1_000_000);
        let time = |parts| percentile(&samples.bins, count, parts).min(samples.maximum_ns);
        Self {
            count,
            minimum_ns: samples.minimum_ns,
            mean_ns: samples.mean_ns,
            maximum_ns: samples.maximum_ns,
            percentiles: percentiles
                .map(|parts| DistributionPercentile { percent: parts as f64 / 1e4, time_ns: time(parts) })
                .collect(),
            histogram: coarse(&samples.bins),
        }
    }
}

impl DistributionPercentile {
    /// Percentiles that reports store, in percent.
    pub(crate) fn kept() -> [f64; PARTS.len()] {
        PARTS.map(|parts| parts as f64 / 1e4)
    }
}

impl Distribution {
    /// Returns a percentile in nanoseconds; `None` if there were too few samples for it.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        self.percentiles.iter().find(|each| (each.percent - percent).abs() < 1e-9).map(|each| each.time_ns)
    }
}

/// Upper edge of the bin that contains the sample of this rank.
fn percentile(bins: &[Bin], count: u64, parts: u64) -> f64 {
    let rank = (u128::from(parts) * u128::from(count)).div_ceil(1_000_000);
    let mut seen = 0;
    for bin in bins {
        seen += u128::from(bin.count);
        if seen >= rank {
            return bin.high_ns;
        }
    }
    0.0
}

/// Merges neighbouring bins as long as the result is at most [`WIDTH`] wide. Every sample stays counted.
fn coarse(bins: &[Bin]) -> Vec<Bin> {
    let mut coarse: Vec<Bin> = Vec::new();
    for bin in bins {
        match coarse.last_mut() {
            Some(last) if bin.high_ns <= last.low_ns * (1.0 + WIDTH) => {
                last.high_ns = bin.high_ns;
                last.count += bin.count;
            }
            _ => coarse.push(*bin),
        }
    }
    coarse
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_are_ranks_and_only_those_that_the_samples_can_tell() {
        let times = Distribution::from(Samples::of((1..=1000).map(|n| n * 100)));
        assert_eq!(
            (times.count, times.minimum_ns, times.maximum_ns, times.mean_ns),
            (1000, 100.0, 1e5, 50_050.0)
        );
        let times_at: Vec<_> = times.percentiles.iter().map(|p| (p.percent, p.time_ns)).collect();
        assert_eq!(times_at, [(50.0, 50_000.0), (90.0, 90_000.0), (99.0, 99_000.0), (99.9, 99_900.0)]);
        assert_eq!((times.percentile(99.9), times.percentile(99.99)), (Some(99_900.0), None));
    }

    #[test]
    fn cycles_of_several_histograms_are_one_and_the_longest_is_exact() {
        let bucket = |low, high, count| Bucket { low, high, count };
        let rate = Rate { hertz: 2e9, uncertainty: 0.0 };
        let samples =
            Samples::of_cycles([bucket(20, 20, 1), bucket(100, 103, 1), bucket(20, 20, 2)], 101, &rate);
        assert_eq!(samples.bins[0], Bin { low_ns: 10.0, high_ns: 10.0, count: 3 });
        assert_eq!((samples.minimum_ns, samples.maximum_ns, samples.bins[1].high_ns), (10.0, 50.5, 50.5));
    }

    #[test]
    fn nothing_is_no_crash() {
        assert_eq!(Distribution::from(Samples::of([])), Distribution::default());
    }

    proptest! {
        #[test]
        fn coarser_bins_hold_every_sample_and_stay_narrow(times in proptest::collection::vec(0u64..100_000, 0..300)) {
            let fine = Samples::of(times.iter().copied());
            let coarse = Distribution::from(fine).histogram;
            prop_assert_eq!(coarse.iter().map(|bin| bin.count).sum::<u64>(), times.len() as u64);
            for bin in &coarse {
                prop_assert!(bin.high_ns <= bin.low_ns * 1.03 + 1e-6);
                let inside = times.iter().filter(|&&time| (bin.low_ns..=bin.high_ns).contains(&(time as f64))).count();
                prop_assert_eq!(inside as u64, bin.count);
            }
        }
    }
}
