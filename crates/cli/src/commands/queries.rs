//! Queries that share a pass.

use crate::Failure;
use crate::commands::refused::refused;
use crate::recording::Recording;
use sordino_event::ClassId;
use sordino_query::{Measure, Per, Query, StatisticsTable};
use sordino_reading::AddressNames;
use sordino_timeline::{Consumer, Item};

/// Queries, with the names of the addresses in their pass.
pub(crate) struct Queries {
    names: AddressNames,
    queries: Vec<Query>,
}

impl Queries {
    pub(crate) fn new(recording: &Recording, mut queries: Vec<Query>) -> Self {
        let names = AddressNames::new(recording);
        queries.iter_mut().for_each(|query| query.set_names(names.namer()));
        Self { names, queries }
    }

    /// Returns the queries after the last item.
    pub(crate) fn finish(self) -> Vec<Query> {
        self.queries
    }
}

impl Consumer for Queries {
    fn take(&mut self, item: &Item<'_>) {
        self.names.take(item);
        self.queries.iter_mut().for_each(|query| query.take(item));
    }

    fn reads_fields(&self, class: ClassId) -> bool {
        self.names.reads(class) || self.queries.iter().any(|query| query.reads_fields(class))
    }

    fn needs_lead(&self) -> bool {
        true
    }
}

/// The tables of a page: wake-up latencies and interrupts, as far as they are recorded.
pub(crate) struct PageTables {
    titles: Vec<&'static str>,
    queries: Queries,
}

impl PageTables {
    pub(crate) fn of(recording: &Recording) -> Result<Self, Failure> {
        let recorded = recording.recorded();
        let all: [(_, _, &[Per]); 2] = [
            ("Wake-up latencies by thread", Measure::Latency, &[Per::Thread]),
            ("Interrupts by CPU", Measure::Irqs, &[Per::Irq, Per::Cpu]),
        ];
        let (mut titles, mut queries) = (Vec::new(), Vec::new());
        for (title, measure, pers) in all {
            if measure.missing(recorded).iter().all(|missing| !missing.is_needed) {
                let query = Query::new(&recording.classes, recorded, measure, pers);
                queries.push(query.map_err(|error| refused(&error, recording))?.since(recording.begin()));
                titles.push(title);
            }
        }
        Ok(Self { titles, queries: Queries::new(recording, queries) })
    }

    /// Returns the queries, as the consumer of a pass.
    pub(crate) fn queries(&mut self) -> &mut Queries {
        &mut self.queries
    }

    /// Returns the tables after the last item, with their titles.
    pub(crate) fn finish(self) -> Vec<(&'static str, StatisticsTable)> {
        let tables = self.queries.finish().into_iter().map(Query::finish);
        self.titles.into_iter().zip(tables).collect()
    }
}
