//! The result of a query.

use crate::durations::{DurationStatistics, Durations, nanos};
use serde::Serialize;
use sordino_event::Nanos;
use std::sync::Arc;

/// The statistics of a measure, with a row for each value of the keys.
#[derive(Clone, Debug, Serialize)]
pub struct StatisticsTable {
    /// The name of the measure.
    pub measure: &'static str,
    /// The noun for one of its spans.
    #[serde(skip)]
    pub unit: &'static str,
    /// True if its spans have a length; they are points in time otherwise.
    #[serde(skip)]
    pub has_lengths: bool,
    /// True if the totals are shares of the whole time.
    #[serde(skip)]
    pub is_share_of_wall: bool,
    /// The names of the keys.
    pub keys: Vec<String>,
    /// The time from the first to the last event that the query read.
    #[serde(rename = "wall_ns", serialize_with = "nanos")]
    pub wall: Nanos,
    /// The time of the spans that recording took, if it was subtracted.
    #[serde(rename = "overhead_ns", serialize_with = "nanos", skip_serializing_if = "Nanos::is_zero")]
    pub overhead: Nanos,
    /// The rows, the greatest total first; those of waits by their maximum, those of events by their number.
    pub rows: Vec<StatisticsRow>,
    /// The statistics of all rows together; `None` if there are none.
    pub all: Option<DurationStatistics>,
    /// The spans that are in no row.
    pub apart: Apart,
    /// The number of spans that are in no row since there are too many rows.
    pub crowded: u64,
    /// The number of records that are missing from the trace, as far as they were counted.
    pub lost: u64,
}

/// The statistics for one value of the keys.
#[derive(Clone, Debug, Serialize)]
pub struct StatisticsRow {
    /// The values of the keys.
    pub labels: Vec<Arc<str>>,
    /// The statistics of the row's spans.
    pub summary: DurationStatistics,
    /// The parts that the total consists of.
    pub parts: Vec<WaitPart>,
    /// Other numbers about the row's spans.
    pub counts: Vec<RowCount>,
    /// The lengths of the row's spans.
    #[serde(skip)]
    pub distribution: Durations,
}

/// A number about the spans of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RowCount {
    /// The name of the number.
    pub name: &'static str,
    /// The value of the number.
    pub count: u64,
}

/// A part of the total of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WaitPart {
    /// The name of the part.
    pub name: &'static str,
    /// The time of all spans together.
    #[serde(rename = "time_ns", serialize_with = "nanos")]
    pub time: Nanos,
}

/// The numbers of spans whose length is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Apart {
    /// Spans that touch a loss, or whose begin was not recorded.
    pub broken: u64,
    /// Spans that the recording's begin or end cuts.
    pub cut: u64,
}
