//! Comparison of two recordings: the differences of a measure, and a test that separates them from noise.

use crate::durations::{DurationStatistics, Durations};
use crate::rank::{RankTest, rank_test};
use crate::table::{Apart, StatisticsRow, StatisticsTable};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The probability of a difference by chance, over all rows of a table, below which a difference is more than noise.
const LEVEL: f64 = 0.01;
/// The minimum difference between one half and the probability of a longer span. With a million spans, even a
/// difference too small to matter is certain.
const EFFECT: f64 = 0.06;
/// The least number of spans on each side.
const LEAST: u64 = 8;

/// The rows of a measure in two recordings.
#[derive(Clone, Debug, Serialize)]
pub struct TableComparison {
    /// The name of the measure.
    pub measure: &'static str,
    /// The names of the keys.
    pub keys: Vec<String>,
    /// The rows, those with a certain difference first, then by their total in both.
    pub rows: Vec<ComparedRow>,
    /// The missing data of the first recording and of the second.
    pub unknown: [UnknownSpans; 2],
}

/// The missing data of a recording in a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnknownSpans {
    /// The number of lost records, as far as it is known.
    pub lost: u64,
    /// The spans whose length is not known.
    pub apart: Apart,
    /// The spans that found no row.
    pub crowded: u64,
}

impl UnknownSpans {
    fn of(table: &StatisticsTable) -> Self {
        Self { lost: table.lost, apart: table.apart, crowded: table.crowded }
    }

    /// Returns true if missing data may be the reason for a difference.
    pub fn is_any(&self) -> bool {
        self.lost > 0 || self.apart.broken > 0 || self.crowded > 0
    }
}

/// A row in two recordings.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    /// The values of the keys.
    pub labels: Vec<Arc<str>>,
    /// The statistics in the first recording, if it has the row.
    pub before: Option<DurationStatistics>,
    /// The statistics in the second recording, if it has the row.
    pub after: Option<DurationStatistics>,
    /// The test of the difference, if both have the row.
    pub test: Option<RankTest>,
    /// The judgement on the difference.
    pub difference: Difference,
    /// The lengths of the spans in the first recording and in the second; `None` without the row.
    #[serde(skip)]
    pub distributions: [Option<Durations>; 2],
}

/// A judgement on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The spans of the second recording are longer.
    Longer,
    /// The spans of the second recording are shorter.
    Shorter,
    /// The difference may be chance, or is too small to matter.
    Noise,
    /// One of the recordings has fewer than eight spans.
    TooFew,
    /// The second recording alone has the row.
    OnlyAfter,
    /// The first recording alone has the row.
    OnlyBefore,
}

impl TableComparison {
    /// Compares the tables of one measure and the same keys.
    pub fn of(before: StatisticsTable, after: StatisticsTable) -> Self {
        let mut rows: BTreeMap<Vec<Arc<str>>, [Option<StatisticsRow>; 2]> = BTreeMap::new();
        let unknown = [&before, &after].map(UnknownSpans::of);
        let (measure, keys) = (before.measure, before.keys);
        for (side, table) in [before.rows, after.rows].into_iter().enumerate() {
            for row in table {
                let labels = row.labels.clone();
                rows.entry(labels).or_default()[side] = Some(row);
            }
        }
        let level = LEVEL / rows.len().max(1) as f64;
        let mut rows: Vec<ComparedRow> = rows
            .into_iter()
            .map(|(labels, [before, after])| compared(labels, before, after, level))
            .collect();
        let total = |row: &ComparedRow| {
            let both = [&row.before, &row.after].into_iter().flatten();
            both.fold(0_i64, |sum, statistics| sum.saturating_add(statistics.total.0))
        };
        rows.sort_by_key(|row| (row.difference, std::cmp::Reverse(total(row))));
        Self { measure, keys, rows, unknown }
    }

    /// Returns true if the spans of some row are longer in the second recording, by more than noise.
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(|row| row.difference == Difference::Longer)
    }
}

fn compared(
    labels: Vec<Arc<str>>,
    before: Option<StatisticsRow>,
    after: Option<StatisticsRow>,
    level: f64,
) -> ComparedRow {
    let test = before.as_ref().zip(after.as_ref()).map(|(before, after)| {
        let [before, after] = Durations::values_of_both(&before.distribution, &after.distribution);
        rank_test(&before, &after)
    });
    let count = |row: &Option<StatisticsRow>| row.as_ref().map(|row| row.summary.count);
    let difference = match (count(&before), count(&after), test) {
        (None, ..) => Difference::OnlyAfter,
        (_, None, _) => Difference::OnlyBefore,
        (Some(a), Some(b), _) if a.min(b) < LEAST => Difference::TooFew,
        (.., Some(test)) if test.p < level && test.longer > 0.5 + EFFECT => Difference::Longer,
        (.., Some(test)) if test.p < level && test.longer < 0.5 - EFFECT => Difference::Shorter,
        _ => Difference::Noise,
    };
    let parts = |row: Option<StatisticsRow>| row.map(|row| (row.summary, row.distribution)).unzip();
    let ((before, first), (after, second)) = (parts(before), parts(after));
    ComparedRow { labels, before, after, test, difference, distributions: [first, second] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::{Nanos, Time};

    fn table(rows: &[(&str, &[i64])]) -> StatisticsTable {
        let row = |(name, values): &(&str, &[i64])| {
            let mut distribution = Durations::default();
            values.iter().for_each(|value| distribution.add(Nanos(*value), Time(0)));
            let summary = distribution.summary().expect("values");
            let labels = vec![(*name).into()];
            StatisticsRow { labels, summary, parts: Vec::new(), counts: Vec::new(), distribution }
        };
        StatisticsTable {
            measure: "latency",
            unit: "wake-up",
            has_lengths: true,
            is_share_of_wall: false,
            keys: vec!["comm".to_owned()],
            overhead: Nanos::ZERO,
            wall: Nanos(1),
            rows: rows.iter().map(row).collect(),
            all: None,
            apart: Apart::default(),
            crowded: 0,
            lost: 0,
        }
    }

    /// Many values are kept roughly, few exactly: the same loop is the same in both.
    #[test]
    fn a_short_and_a_long_recording_of_one_loop_differ_by_noise() {
        let few: Vec<i64> = (0..400).map(|at| 1_000_000 + at % 1000).collect();
        let many: Vec<i64> = (0..1000).map(|at| 1_000_000 + at).collect();
        for (before, after) in [(&few, &many), (&many, &few)] {
            let compared = TableComparison::of(table(&[("a", before)]), table(&[("a", after)]));
            assert_eq!(compared.rows[0].difference, Difference::Noise, "{:?}", compared.rows[0].test);
        }
    }

    #[test]
    fn losses_of_both_sides_are_kept() {
        let lossy = StatisticsTable { lost: 3, crowded: 1, ..table(&[("a", &[1])]) };
        let compared = TableComparison::of(table(&[("a", &[1])]), lossy);
        assert!(!compared.unknown[0].is_any() && compared.unknown[1].is_any());
    }

    #[test]
    fn each_row_has_its_judgement_and_certain_ones_come_first() {
        let short: Vec<i64> = (100..200).collect();
        let long: Vec<i64> = (150..250).collect();
        let before = table(&[("a", &short), ("b", &long), ("c", &short), ("d", &[1]), ("e", &short)]);
        let after = table(&[("a", &long), ("b", &short), ("c", &short), ("d", &[9]), ("f", &short)]);
        let compared = TableComparison::of(before, after);
        let all: Vec<_> = compared.rows.iter().map(|row| (&*row.labels[0], row.difference)).collect();
        use Difference::*;
        let expected =
            [("a", Longer), ("b", Shorter), ("c", Noise), ("d", TooFew), ("f", OnlyAfter), ("e", OnlyBefore)];
        assert_eq!(all, expected);
        assert!(compared.is_worse());
    }
}
