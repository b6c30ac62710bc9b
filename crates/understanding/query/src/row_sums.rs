//! The sums of a table's rows while a query runs.

use crate::durations::Durations;
use crate::fiber_names::FiberNames;
use crate::key::KeyValue;
use crate::span::Span;
use crate::table::{RowCount, StatisticsRow, WaitPart};
use sordino_event::Nanos;
use std::sync::Arc;

/// The sums of a row, and its labels.
#[derive(Debug)]
pub(crate) struct RowSums {
    labels: Vec<Arc<str>>,
    distribution: Durations,
    parts: Vec<Nanos>,
    /// The number of missed events and the longest run of late ones, of a periodic event.
    regularity: Option<[u64; 2]>,
}

impl RowSums {
    pub(crate) fn new(labels: Vec<Arc<str>>) -> Self {
        Self { labels, distribution: Durations::default(), parts: Vec::new(), regularity: None }
    }

    pub(crate) fn add(&mut self, span: &Span) {
        self.distribution.add(span.length(), span.from);
        self.parts.resize(span.parts.len().max(self.parts.len()), Nanos::ZERO);
        self.parts.iter_mut().zip(&span.parts).for_each(|(sum, part)| *sum += *part);
        if let Some(regularity) = span.regularity {
            let [missed, late] = self.regularity.get_or_insert_default();
            (*missed, *late) = (missed.saturating_add(regularity.missed), regularity.late.max(*late));
        }
    }

    /// Replaces the labels of fibers that got their name, or shared their number with another fiber, after their first
    /// span.
    pub(crate) fn rename(&mut self, values: &[KeyValue], names: &[FiberNames]) {
        let host = values.iter().find_map(|value| match value {
            KeyValue::Host(host) => Some(usize::from(host.0)),
            _ => None,
        });
        let Some(names) = names.get(host.unwrap_or(0)) else { return };
        for (label, value) in self.labels.iter_mut().zip(values) {
            if let KeyValue::Fiber(fiber) = value
                && let Some(name) = names.label(*fiber)
            {
                *label = name;
            }
        }
    }

    pub(crate) fn close(mut self, names: &'static [&'static str]) -> Option<StatisticsRow> {
        let parts = names.iter().zip(self.parts).map(|(name, time)| WaitPart { name, time }).collect();
        let numbers = self.regularity.map(|[missed, late]| [("missed", missed), ("late in a row", late)]);
        let counts = numbers.into_iter().flatten().map(|(name, count)| RowCount { name, count }).collect();
        let summary = self.distribution.summary()?;
        Some(StatisticsRow { labels: self.labels, summary, parts, counts, distribution: self.distribution })
    }
}
