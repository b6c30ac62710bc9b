//! The tables of queries and comparisons as charts.

use crate::distributions::{DistributionChart, DistributionStrip, LengthSample};
use sordino_event::text::{count, printable};
use sordino_query::{
    Apart, ComparedRow, Difference, DurationStatistics, Durations, StatisticsTable, TableComparison,
};
use std::sync::Arc;

/// The maximum number of strips of a chart.
const MOST: usize = 20;

/// Returns the first `top` rows of a table as a chart, at most 20.
pub fn statistics_chart(table: &StatisticsTable, top: usize) -> DistributionChart {
    let rows = table.rows.iter().take(top.min(MOST));
    let strip = |row: &sordino_query::StatisticsRow| DistributionStrip {
        name: name(&row.labels),
        remark: String::new(),
        samples: vec![Some(sample(&row.summary, &row.distribution))],
    };
    let spans = count(table.all.as_ref().map_or(0, |all| all.count), table.unit);
    DistributionChart {
        title: format!("{} per {}: {spans} in {}", table.measure, table.keys.join(", "), table.wall),
        strips: rows.map(strip).collect(),
        notes: notes(table.rows.len(), top, [("the recording", table.lost, table.apart, table.crowded)]),
    }
}

/// Returns the first `top` rows of a comparison as a chart, at most 20; each strip has both recordings.
pub fn comparison_chart(comparison: &TableComparison, top: usize) -> DistributionChart {
    let rows = comparison.rows.iter().take(top.min(MOST));
    let strip = |row: &ComparedRow| {
        let summaries = [&row.before, &row.after].into_iter();
        let both = summaries.zip(&row.distributions);
        let samples = both.map(|(summary, lengths)| Some(sample(summary.as_ref()?, lengths.as_ref()?)));
        DistributionStrip {
            name: name(&row.labels),
            remark: verdict(row.difference),
            samples: samples.collect(),
        }
    };
    let [first, second] = comparison.unknown;
    let unknown = [("the first recording", first), ("the second recording", second)];
    DistributionChart {
        title: format!("{} per {}", comparison.measure, comparison.keys.join(", ")),
        strips: rows.map(strip).collect(),
        notes: notes(
            comparison.rows.len(),
            top,
            unknown.map(|(name, of)| (name, of.lost, of.apart, of.crowded)),
        ),
    }
}

fn name(labels: &[Arc<str>]) -> String {
    labels.iter().map(|label| printable(label).into_owned()).collect::<Vec<_>>().join("  ")
}

fn sample(summary: &DurationStatistics, lengths: &Durations) -> LengthSample {
    LengthSample {
        lengths: lengths.values().into_iter().map(|(length, count)| (length as f64, count)).collect(),
        resolution: if lengths.is_exact() { 0.0 } else { 0.01 },
        count: summary.count,
        median: summary.median,
        p99: summary.p99,
        longest: summary.max,
    }
}

fn verdict(difference: Difference) -> String {
    let words = match difference {
        Difference::Longer => "longer",
        Difference::Shorter => "shorter",
        Difference::Noise => "no difference beyond noise",
        Difference::TooFew => "too few to judge",
        Difference::OnlyAfter => "only in the second",
        Difference::OnlyBefore => "only in the first",
    };
    words.to_owned()
}

/// Returns a line about data that are not drawn: rows after the first ones, and data that the recordings lack.
fn notes<const N: usize>(rows: usize, top: usize, unknown: [(&str, u64, Apart, u64); N]) -> Vec<String> {
    let more = rows.saturating_sub(top.min(MOST));
    let more = (more > 0).then(|| format!("{} left out", count(more, "more row")));
    let unknown = unknown.into_iter().filter_map(|(name, lost, apart, crowded)| {
        let uncertain = apart.broken.saturating_add(crowded);
        let lost = if lost > 0 { format!("{name} lost {}; ", count(lost, "record")) } else { String::new() };
        (uncertain > 0 || !lost.is_empty()).then(|| {
            format!("{lost}{} of {name} of unknown length or without a row", count(uncertain, "span"))
        })
    });
    more.into_iter().chain(unknown).collect()
}
