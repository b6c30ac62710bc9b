//! Statistics of intervals' lengths, their distribution for plots, and their regularity, in bounded memory.
//!
//! ```
//! use sordino_event::{Nanos, Time};
//! use sordino_lengths::Lengths;
//!
//! let mut lengths = Lengths::default();
//! (1..=9).for_each(|length| lengths.add(Time(100 * length), Nanos(length)));
//! assert_eq!((lengths.statistics().count, lengths.statistics().median), (9, Nanos(5)));
//! ```
#![forbid(unsafe_code)]

mod course;
mod rhythm;

use course::Course;
pub use course::Stretch;
use hdrhistogram::Histogram;
pub use rhythm::Rhythm;
use serde::{Serialize, Serializer};
use sordino_event::{Nanos, Time};

/// The number of buckets between a length and its double.
const PER_OCTAVE: f64 = 4.0;

/// The statistics of the intervals' lengths. All but `count`, `min` and `max` are exact to three digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// The number of intervals.
    pub count: u64,
    /// The length of the shortest.
    #[serde(rename = "min_ns", serialize_with = "nanoseconds")]
    pub min: Nanos,
    /// The median: half of the intervals are at most as long.
    #[serde(rename = "median_ns", serialize_with = "nanoseconds")]
    pub median: Nanos,
    /// The 99th percentile: 99 in 100 are at most as long.
    #[serde(rename = "p99_ns", serialize_with = "nanoseconds")]
    pub p99: Nanos,
    /// The 99.9th percentile: 999 in 1000 are at most as long.
    #[serde(rename = "p99_9_ns", serialize_with = "nanoseconds")]
    pub p99_9: Nanos,
    /// The length of the longest.
    #[serde(rename = "max_ns", serialize_with = "nanoseconds")]
    pub max: Nanos,
}

/// The lengths of all intervals, as data for plots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LengthDistribution {
    /// The buckets with at least one interval, shortest lengths first. Bounds grow by a factor of 2^(1/4).
    pub buckets: Vec<LengthBucket>,
    /// The stretches of time with at least one interval, in order of time.
    pub course: Vec<Stretch>,
    /// The length of each stretch.
    pub stretch: Nanos,
}

/// The intervals of about the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthBucket {
    /// The length from which on intervals belong to the bucket.
    pub from: Nanos,
    /// The length before which intervals belong to it.
    pub to: Nanos,
    /// The number of intervals.
    pub count: u64,
}

/// The lengths of intervals whose number is not known in advance.
#[derive(Debug)]
pub struct Lengths {
    histogram: Histogram<u64>,
    min: Nanos,
    max: Nanos,
    course: Course,
}

impl Default for Lengths {
    fn default() -> Self {
        let histogram = Histogram::new(3).expect("three digits are allowed");
        Self { histogram, min: Nanos(i64::MAX), max: Nanos::ZERO, course: Course::default() }
    }
}

impl Lengths {
    /// Adds the length of an interval, which ends at this time.
    pub fn add(&mut self, end: Time, length: Nanos) {
        (self.min, self.max) = (self.min.min(length), self.max.max(length));
        self.histogram.record(length.0.max(0).cast_unsigned()).expect("it grows with its values");
        self.course.add(end, length);
    }

    /// Returns the statistics of all lengths.
    pub fn statistics(&self) -> Statistics {
        if self.histogram.is_empty() {
            return Statistics::default();
        }
        // The sketch returns the upper bound of a range of values, which may lie above the longest.
        let at = |quantile| {
            let value = self.histogram.value_at_quantile(quantile);
            Nanos(i64::try_from(value).unwrap_or(i64::MAX)).clamp(self.min, self.max)
        };
        Statistics {
            count: self.histogram.len(),
            min: self.min,
            median: at(0.5),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.max,
        }
    }

    /// Returns the distribution of all lengths, and their course over time.
    pub fn distribution(&self) -> LengthDistribution {
        let (course, stretch) = self.course.finish();
        LengthDistribution { buckets: buckets(&self.histogram), course, stretch }
    }
}

/// Returns the buckets of a histogram of lengths.
fn buckets(histogram: &Histogram<u64>) -> Vec<LengthBucket> {
    let mut buckets: Vec<LengthBucket> = Vec::new();
    for step in histogram.iter_recorded() {
        let length = step.value_iterated_to();
        let index = ((length.max(1) as f64).log2() * PER_OCTAVE).floor();
        let bound = |index: f64| Nanos((index / PER_OCTAVE).exp2().round() as i64);
        let (from, count) = (bound(index), step.count_since_last_iteration());
        match buckets.last_mut() {
            Some(last) if last.from == from => last.count += count,
            _ => buckets.push(LengthBucket { from, to: bound(index + 1.0), count }),
        }
    }
    buckets
}

fn nanoseconds<S: Serializer>(span: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(span.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_interval_is_in_its_stretch_and_in_its_bucket(
            steps in proptest::collection::vec((0_i64..1 << 40, 1_i64..1 << 40), 1..300),
        ) {
            let mut all = Lengths::default();
            let mut end = 1 << 41;
            let mut ends = Vec::new();
            for (step, length) in steps {
                end += step;
                ends.push((end, length));
                all.add(Time(end), Nanos(length));
            }
            let LengthDistribution { buckets, course: stretches, stretch: width } = all.distribution();
            prop_assert!(stretches.len() <= course::STRETCHES);
            for stretch in &stretches {
                let inside = ends.iter().filter(|(end, _)| {
                    stretch.from.0 <= *end && *end < stretch.from.0.saturating_add(width.0)
                });
                let lengths: Vec<i64> = inside.map(|(_, length)| *length).collect();
                prop_assert_eq!(stretch.count, lengths.len() as u64);
                prop_assert_eq!(Some(stretch.longest.0), lengths.into_iter().max());
            }
            prop_assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), ends.len() as u64);
            prop_assert!(buckets.is_sorted_by(|one, next| one.to <= next.from));
        }
    }

    #[test]
    fn statistics_are_those_of_the_sorted_lengths() {
        let mut lengths = Lengths::default();
        for length in 1..=10_000 {
            lengths.add(Time(0), Nanos(length * 100));
        }
        let statistics = lengths.statistics();
        let close = |Nanos(value): Nanos, expected: i64| (value - expected).abs() * 1000 <= expected;
        assert_eq!(
            (statistics.count, statistics.min, statistics.max),
            (10_000, Nanos(100), Nanos(1_000_000))
        );
        assert!(close(statistics.median, 500_000) && close(statistics.p99, 990_000), "{statistics:?}");
        assert!(close(statistics.p99_9, 999_000), "{statistics:?}");
    }

    #[test]
    fn no_intervals_and_absurd_ones_have_statistics() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.statistics(), Statistics::default());
        lengths.add(Time::MAX, Nanos(i64::MAX));
        assert_eq!(lengths.statistics().median, Nanos(i64::MAX));
    }
}
