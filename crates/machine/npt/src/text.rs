//! Formats a measurement as text.

use crate::{Bucket, GapStatistics, Measured};
use sordino_event::{Nanos, fractional_span};
use std::fmt::Write;

/// Unit in which times are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// The unit that fits each time.
    #[default]
    Fitting,
    /// Nanoseconds with three decimal places.
    Nanoseconds,
    /// Picoseconds without decimal places.
    Picoseconds,
}

impl Unit {
    /// Formats a time with its unit.
    pub fn time(self, nanoseconds: f64) -> String {
        match self {
            Self::Fitting => fractional_span(nanoseconds),
            Self::Nanoseconds => format!("{nanoseconds:.3} ns"),
            Self::Picoseconds => format!("{:.0} ps", nanoseconds * 1e3),
        }
    }

    fn square(self, square_nanoseconds: f64) -> String {
        match self {
            Self::Fitting => format!("{:.3} us^2", square_nanoseconds / 1e6),
            Self::Nanoseconds => format!("{square_nanoseconds:.3} ns^2"),
            Self::Picoseconds => format!("{:.0} ps^2", square_nanoseconds * 1e6),
        }
    }
}

/// Formats the figures, one a line.
pub(crate) fn statistics(statistics: &GapStatistics, unit: Unit) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<22}{value:>16}");
    };
    line("loops", statistics.loops.to_string());
    line("min", unit.time(statistics.minimum_ns));
    line("mean", unit.time(statistics.mean_ns));
    line("max", unit.time(statistics.maximum_ns));
    line("variance", unit.square(statistics.variance_ns2));
    line("standard deviation", unit.time(statistics.standard_deviation_ns));
    for percentile in &statistics.percentiles {
        line(&format!("p{}", percentile.percent), unit.time(percentile.gap_ns));
    }
    for longer in statistics.longer.iter().filter(|longer| longer.count > 0) {
        line(&format!("longer than {}", Nanos::rounded(longer.than_ns as f64)), longer.count.to_string());
    }
    let ppm = statistics.cycles_per_second_uncertainty * 1e6;
    line("cycle counter", format!("{:.3} MHz", statistics.cycles_per_second / 1e6));
    line("  known to", format!("{ppm:.1} ppm"));
    text
}

/// Titles of the cells of [`row`].
pub const ROW_TITLES: [&str; 7] = ["loops", "min", "mean", "p50", "p99.9", "p99.999", "max"];

/// Formats the most important figures, for a table of several samples.
pub fn row(statistics: &GapStatistics, unit: Unit) -> [String; 7] {
    let percentile = |percent| {
        let found = statistics.percentiles.iter().find(|percentile| percentile.percent == percent);
        found.map_or(f64::NAN, |percentile| percentile.gap_ns)
    };
    let [p50, p99_9, p99_999] = [50.0, 99.9, 99.999].map(percentile);
    let times = [statistics.minimum_ns, statistics.mean_ns, p50, p99_9, p99_999, statistics.maximum_ns];
    let [minimum, mean, p50, p99_9, p99_999, maximum] = times.map(|time| unit.time(time));
    [statistics.loops.to_string(), minimum, mean, p50, p99_9, p99_999, maximum]
}

/// Width of the longest bar: a line has 80 columns.
const WIDTH: f64 = 47.0;

/// Formats the number of loops by duration: three rows for a factor of ten in time, and bars that grow with the
/// logarithm of the count, so that one gap among millions is visible.
pub(crate) fn histogram(measured: &Measured, unit: Unit) -> String {
    let rows = rows(measured.histogram.buckets(), |cycles| measured.rate.nanoseconds(cycles));
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1);
    let mut text = String::from("  loop took at most       loops  (each # a factor in the count)\n");
    for (limit_ns, count) in rows {
        let bar = match count {
            0 => 0,
            _ => 1 + ((count as f64).ln() / (most as f64).ln().max(1.0) * (WIDTH - 1.0)) as usize,
        };
        let _ = writeln!(text, "  {:>16} {count:>12}  {}", unit.time(limit_ns), "#".repeat(bar));
    }
    text
}

/// Counts up to 1, 2, 5, 10, 20, 50 ... nanoseconds, from the first row that is not empty to the last.
fn rows(buckets: impl Iterator<Item = Bucket>, nanoseconds: impl Fn(u64) -> f64) -> Vec<(f64, u64)> {
    let limits = (0..).flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power)));
    let mut rows: Vec<(f64, u64)> = Vec::new();
    let mut buckets = buckets.peekable();
    for limit in limits {
        let mut count = 0;
        while let Some(bucket) = buckets.next_if(|bucket| nanoseconds(bucket.low) <= limit) {
            count += bucket.count;
        }
        if count > 0 || !rows.is_empty() {
            rows.push((limit, count));
        }
        if buckets.peek().is_none() {
            return rows;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_start_and_end_where_there_is_something() {
        let bucket = |low, count| Bucket { low, high: low, count };
        let rows = rows([bucket(15, 7), bucket(18, 1), bucket(300, 2)].into_iter(), |cycles| cycles as f64);
        assert_eq!(rows, [(20.0, 8), (50.0, 0), (100.0, 0), (200.0, 0), (500.0, 2)]);
    }

    #[test]
    fn who_wants_one_unit_gets_it_everywhere() {
        assert_eq!(Unit::Nanoseconds.time(1500.25), "1500.250 ns");
        assert_eq!(Unit::Picoseconds.time(1500.25), "1500250 ps");
        assert_eq!(
            [Unit::Nanoseconds, Unit::Picoseconds].map(|unit| unit.square(2.5)),
            ["2.500 ns^2", "2500000 ps^2"]
        );
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!(
            [7.25, 1500.0, 2e6, 3e9].map(|time| Unit::Fitting.time(time)),
            ["7.25 ns", "1.50 us", "2.00 ms", "3.00 s"]
        );
    }
}
