//! The distribution of many spans of time, in bounded memory.

use hdrhistogram::Histogram;
use serde::Serialize;
use sordino_event::{Nanos, Time};

/// The number of values that are kept as they are. Beyond it, quantiles are exact to 1 %.
const EXACT: usize = 512;

/// The distribution of values, with their exact number, total, minimum and maximum.
#[derive(Clone, Debug)]
pub struct Durations {
    count: u64,
    total: i128,
    min: Nanos,
    max: Nanos,
    worst_at: Time,
    values: DurationValues,
}

#[derive(Clone, Debug)]
enum DurationValues {
    Exact(Vec<u64>),
    Rough(Box<Histogram<u32>>),
}

/// The statistics of a distribution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DurationStatistics {
    /// The number of values.
    pub count: u64,
    /// The sum of all values.
    #[serde(rename = "total_ns", serialize_with = "nanos")]
    pub total: Nanos,
    /// The least of all values.
    #[serde(rename = "min_ns", serialize_with = "nanos")]
    pub min: Nanos,
    /// The arithmetic mean of all values.
    #[serde(rename = "mean_ns", serialize_with = "nanos")]
    pub mean: Nanos,
    /// The value that half of the values do not exceed.
    #[serde(rename = "median_ns", serialize_with = "nanos")]
    pub median: Nanos,
    /// The value that 90 % do not exceed.
    #[serde(rename = "p90_ns", serialize_with = "nanos")]
    pub p90: Nanos,
    /// The value that 99 % do not exceed.
    #[serde(rename = "p99_ns", serialize_with = "nanos")]
    pub p99: Nanos,
    /// The value that 99.9 % do not exceed.
    #[serde(rename = "p999_ns", serialize_with = "nanos")]
    pub p999: Nanos,
    /// The greatest of all values.
    #[serde(rename = "max_ns", serialize_with = "nanos")]
    pub max: Nanos,
    /// The time at which the greatest value began; the first, if there are several.
    #[serde(rename = "worst_at_ns", serialize_with = "time")]
    pub worst_at: Time,
    /// The number of values by size; each bar has twice the limit of the one before.
    pub histogram: Vec<Bar>,
}

/// The number of values from the limit of the bar before up to this bar's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// The limit: a power of two.
    #[serde(rename = "below_ns", serialize_with = "nanos")]
    pub below: Nanos,
    /// The number of values.
    pub count: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn nanos<S: serde::Serializer>(span: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(span.0)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn time<S: serde::Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(time.0)
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            count: 0,
            total: 0,
            min: Nanos(i64::MAX),
            max: Nanos(i64::MIN),
            worst_at: Time::MIN,
            values: DurationValues::Exact(Vec::new()),
        }
    }
}

impl Durations {
    /// Adds a span of time that began at `at`.
    pub fn add(&mut self, value: Nanos, at: Time) {
        self.count += 1;
        self.total += i128::from(value.0);
        self.min = self.min.min(value);
        if value > self.max {
            (self.max, self.worst_at) = (value, at);
        }
        let value = value.0.max(0).cast_unsigned();
        match &mut self.values {
            DurationValues::Exact(values) if values.len() < EXACT => values.push(value),
            DurationValues::Exact(values) => {
                let mut rough = Histogram::new(2).expect("two digits are allowed");
                values.drain(..).chain([value]).for_each(|value| record(&mut rough, value));
                self.values = DurationValues::Rough(Box::new(rough));
            }
            DurationValues::Rough(rough) => record(rough, value),
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all values.
    pub fn total(&self) -> Nanos {
        Nanos(self.total.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// Returns the greatest value; the least possible span if there are no values.
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// Returns the statistics; `None` if there are no values.
    pub fn summary(&mut self) -> Option<DurationStatistics> {
        let count = self.count;
        if count == 0 {
            return None;
        }
        if let DurationValues::Exact(values) = &mut self.values {
            values.sort_unstable();
        }
        let [median, p90, p99, p999] = [500, 900, 990, 999].map(|per_mille| self.quantile(per_mille));
        Some(DurationStatistics {
            count,
            total: self.total(),
            min: self.min,
            mean: Nanos((self.total / i128::from(count)) as i64),
            median,
            p90,
            p99,
            p999,
            max: self.max,
            worst_at: self.worst_at,
            histogram: self.bars(),
        })
    }

    /// Returns the least of the sorted values that so many per mille of them do not exceed.
    fn quantile(&self, per_mille: u64) -> Nanos {
        let value = match &self.values {
            DurationValues::Exact(values) => {
                let rank = (values.len() as u64 * per_mille).div_ceil(1000).max(1);
                values.get(rank as usize - 1).copied().unwrap_or_default()
            }
            DurationValues::Rough(rough) => rough.value_at_quantile(per_mille as f64 / 1000.0),
        };
        Nanos(i64::try_from(value).unwrap_or(i64::MAX)).clamp(self.min, self.max)
    }

    /// Returns the distinct values of the two distributions in order, each with its number in both. If one distribution
    /// is exact to 1 % only, the values of the other are rounded in the same way: the top of such a range is greater
    /// than most values in it.
    pub(crate) fn values_of_both(one: &Self, other: &Self) -> [Vec<(u64, u64)>; 2] {
        let is_rough = [one, other].iter().any(|all| matches!(all.values, DurationValues::Rough(_)));
        [one, other].map(|all| match &all.values {
            DurationValues::Exact(values) if is_rough => {
                let mut rough = Histogram::new(2).expect("two digits are allowed");
                values.iter().for_each(|value| record(&mut rough, *value));
                steps(&rough)
            }
            _ => all.values(),
        })
    }

    /// Returns true if the distinct [`values`](Self::values) are exact, and not to 1 %.
    pub fn is_exact(&self) -> bool {
        matches!(self.values, DurationValues::Exact(_))
    }

    /// Returns the distinct values in nanoseconds, each with its number, in ascending order.
    pub fn values(&self) -> Vec<(u64, u64)> {
        match &self.values {
            DurationValues::Exact(values) => {
                let mut values = values.clone();
                values.sort_unstable();
                values.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64)).collect()
            }
            DurationValues::Rough(rough) => steps(rough),
        }
    }

    fn bars(&self) -> Vec<Bar> {
        let mut counts = [0; 64];
        let mut count =
            |value: u64, times: u64| counts[(64 - value.leading_zeros()).min(63) as usize] += times;
        match &self.values {
            DurationValues::Exact(values) => values.iter().for_each(|value| count(*value, 1)),
            DurationValues::Rough(rough) => {
                rough.iter_recorded().for_each(|step| {
                    count(step.value_iterated_to(), step.count_since_last_iteration());
                });
            }
        }
        let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
        let last = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        let bar = |power: usize| Bar {
            below: Nanos(1_i64.checked_shl(power as u32).filter(|bound| *bound > 0).unwrap_or(i64::MAX)),
            count: counts[power],
        };
        (first..=last).map(bar).collect()
    }
}

/// Returns the ranges that have values, by their tops, with the number of values.
fn steps(rough: &Histogram<u32>) -> Vec<(u64, u64)> {
    let steps = rough.iter_recorded();
    steps.map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect()
}

/// Adds a value; the histogram grows to hold it.
fn record(rough: &mut Histogram<u32>, value: u64) {
    if rough.record(value).is_err() {
        rough.saturating_record(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn few_values_have_exact_statistics_and_many_have_quantiles_to_one_percent(
            values in prop::collection::vec(0_i64..100_000_000_000, 1..2000),
        ) {
            let mut distribution = Durations::default();
            for (at, value) in values.iter().enumerate() {
                distribution.add(Nanos(*value), Time(at as i64));
            }
            let summary = distribution.summary().unwrap();
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let total: i64 = values.iter().sum();
            prop_assert_eq!((summary.count, summary.total.0), (values.len() as u64, total));
            prop_assert_eq!((summary.min.0, summary.max.0), (sorted[0], sorted[sorted.len() - 1]));
            prop_assert_eq!(values[summary.worst_at.0 as usize], summary.max.0);
            let all = [(500, summary.median), (900, summary.p90), (990, summary.p99), (999, summary.p999)];
            for (per_mille, found) in all {
                let exact = sorted[(sorted.len() * per_mille).div_ceil(1000).max(1) - 1];
                let tolerance = if values.len() <= EXACT { 0 } else { exact / 100 + 1 };
                prop_assert!((found.0 - exact).abs() <= tolerance, "{}: {} is not {}", per_mille, found.0, exact);
            }
            let counted: u64 = summary.histogram.iter().map(|bar| bar.count).sum();
            prop_assert_eq!(counted, summary.count);
        }
    }
}
