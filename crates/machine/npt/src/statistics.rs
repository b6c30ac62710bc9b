//! Statistics of a measurement, computed from the histogram.

use crate::{Bucket, Measured};
use serde::{Deserialize, Serialize};

/// A percentile: this part of all gaps was at most this long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Part of the gaps in percent.
    pub percent: f64,
    /// The percentile's gap in nanoseconds.
    pub gap_ns: f64,
}

/// Times from one loop to the next, in nanoseconds.
///
/// The mean and the maximum are exact; all other times are known to one part in 1,024, as in the histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GapStatistics {
    /// Version of this structure as JSON: 1.
    pub schema: u32,
    /// Number of counted loops.
    pub loops: u64,
    /// Shortest gap in nanoseconds.
    pub minimum_ns: f64,
    /// Arithmetic mean in nanoseconds.
    pub mean_ns: f64,
    /// Longest gap in nanoseconds.
    pub maximum_ns: f64,
    /// Variance in square nanoseconds.
    pub variance_ns2: f64,
    /// Standard deviation in nanoseconds.
    pub standard_deviation_ns: f64,
    /// Percentiles from the median to 99.9999.
    pub percentiles: Vec<Percentile>,
    /// Numbers of gaps longer than 1 us, 10 us, 100 us, 1 ms and 10 ms.
    pub longer: Vec<Longer>,
    /// Rate of the cycle counter in Hz, measured against `CLOCK_MONOTONIC_RAW`.
    pub cycles_per_second: f64,
    /// Relative uncertainty of that rate.
    pub cycles_per_second_uncertainty: f64,
}

/// Number of gaps that are longer than some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Longer {
    /// The time in nanoseconds.
    pub than_ns: u64,
    /// Number of longer gaps.
    pub count: u64,
}

/// Percentiles in millionths of the loops.
const PARTS: [u64; 7] = [500_000, 900_000, 990_000, 999_000, 999_900, 999_990, 999_999];
const LIMITS_NS: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

impl GapStatistics {
    /// Computes the statistics of a measurement.
    pub fn of(measured: &Measured) -> Self {
        let rate = measured.rate;
        let buckets: Vec<Bucket> = measured.histogram.buckets().collect();
        let loops: u64 = buckets.iter().map(|bucket| bucket.count).sum();
        let mean = measured.cycles() as f64 / (loops as f64).max(1.0);
        let variance = variance(&buckets, mean, loops);
        let square = (1e9 / rate.hertz).powi(2);
        Self {
            schema: 1,
            loops,
            minimum_ns: rate.nanoseconds(buckets.first().map_or(0, |first| first.low)),
            mean_ns: mean * 1e9 / rate.hertz,
            maximum_ns: rate.nanoseconds(measured.longest),
            variance_ns2: variance * square,
            standard_deviation_ns: (variance * square).sqrt(),
            percentiles: PARTS
                .map(|parts| Percentile {
                    percent: parts as f64 / 1e4,
                    // The bucket of the longest gap may reach beyond it.
                    gap_ns: rate.nanoseconds(percentile(&buckets, loops, parts).min(measured.longest)),
                })
                .to_vec(),
            longer: LIMITS_NS
                .map(|than_ns| {
                    let than = than_ns as f64 * rate.hertz / 1e9;
                    let over = buckets.iter().filter(|bucket| middle(bucket) > than);
                    Longer { than_ns, count: over.map(|bucket| bucket.count).sum() }
                })
                .to_vec(),
            cycles_per_second: rate.hertz,
            cycles_per_second_uncertainty: rate.uncertainty,
        }
    }
}

fn middle(bucket: &Bucket) -> f64 {
    bucket.low as f64 + (bucket.high - bucket.low) as f64 / 2.0
}

/// Variance in square cycles about the given mean.
fn variance(buckets: &[Bucket], mean: f64, loops: u64) -> f64 {
    let squares: f64 =
        buckets.iter().map(|bucket| (middle(bucket) - mean).powi(2) * bucket.count as f64).sum();
    squares / (loops as f64).max(1.0)
}

/// Least bucket, by its greatest value, up to which there are at least `parts` of a million values.
fn percentile(buckets: &[Bucket], loops: u64, parts: u64) -> u64 {
    let rank = (u128::from(parts) * u128::from(loops)).div_ceil(1_000_000).max(1) as u64;
    let mut seen = 0;
    for bucket in buckets {
        seen += bucket.count;
        if seen >= rank {
            return bucket.high;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use sordino_clock::Rate;

    fn measured(values: &[u64]) -> Measured {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        Measured {
            histogram,
            gaps: Vec::new(),
            gaps_without_room: 0,
            longest: values.iter().copied().max().unwrap_or(0),
            span: (5, 12 + values.iter().sum::<u64>()),
            waited: 7,
            hits: 0,
            rate: Rate { hertz: 2e9, uncertainty: 0.0 },
        }
    }

    #[test]
    fn small_samples_come_out_exactly() {
        let statistics = GapStatistics::of(&measured(&[10, 20, 20, 30]));
        assert_eq!((statistics.minimum_ns, statistics.mean_ns, statistics.maximum_ns), (5.0, 10.0, 15.0));
        assert_eq!(statistics.variance_ns2, 12.5);
        assert_eq!(statistics.percentiles[0], Percentile { percent: 50.0, gap_ns: 10.0 });
        assert_eq!(statistics.percentiles[6].gap_ns, 15.0);
    }

    #[test]
    fn the_longest_gap_is_exact_though_its_bucket_is_wide() {
        let statistics = GapStatistics::of(&measured(&[10, 1_234_567]));
        assert_eq!(statistics.maximum_ns, 617_283.5);
        assert_eq!(statistics.percentiles[6].gap_ns, 617_283.5);
        assert_eq!(statistics.longer.iter().map(|over| over.count).collect::<Vec<_>>(), [1, 1, 1, 0, 0]);
    }

    #[test]
    fn several_cpus_together_are_one_sample() {
        let [one, other] = [&[10, 20][..], &[30, 1_234_567]].map(measured);
        let together = GapStatistics::of(&Measured::combined(&[one, other]).unwrap());
        let all = GapStatistics::of(&measured(&[10, 20, 30, 1_234_567]));
        assert_eq!(together, all);
        assert!(Measured::combined(&[]).is_none());
    }

    #[test]
    fn percentiles_are_ranks_not_interpolations() {
        let values: Vec<u64> = (1..=1000).collect();
        let statistics = GapStatistics::of(&measured(&values));
        let gaps: Vec<f64> = statistics.percentiles.iter().map(|percentile| percentile.gap_ns).collect();
        assert_eq!(gaps, [250.0, 450.0, 495.0, 499.5, 500.0, 500.0, 500.0]);
    }

    #[test]
    fn nothing_measured_is_no_crash() {
        let statistics = GapStatistics::of(&measured(&[]));
        assert_eq!((statistics.loops, statistics.maximum_ns), (0, 0.0));
        assert!(serde_json::to_string(&statistics).unwrap().contains("\"loops\":0"));
    }
}
