//! The tables of a recording for DataFusion: batches that are read from the trace while the query runs.

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use sordino_ctf::read::Stream;
use sordino_event::Time;
use sordino_tables::{PassLimits, RecordingSource, TableKind, is_plain};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of batches that are read ahead.
const AHEAD: usize = 4;

/// A table of a recording.
#[derive(Debug)]
pub(crate) struct RecordedTable {
    source: Arc<RecordingSource>,
    table: TableKind,
    schema: SchemaRef,
}

impl RecordedTable {
    /// Creates a table of the recording.
    pub(crate) fn new(source: Arc<RecordingSource>, table: TableKind) -> Self {
        Self { source, table, schema: table.schema() }
    }
}

#[async_trait]
impl TableProvider for RecordedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Limits the pass to the names and the times that the filters allow; DataFusion applies the filters to the rows.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.table == TableKind::Events && Bound::of(filter).is_some() {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&projection)?);
        let mut limits = PassLimits::NONE;
        filters.iter().filter_map(Bound::of).for_each(|bound| bound.narrow(&mut limits));
        let names_are_plain = schema.fields().iter().all(|field| is_plain(field.name()));
        let is_plain = self.table == TableKind::Events && self.source.is_whole() && names_are_plain;
        let groups: Vec<Option<Vec<Stream>>> = match is_plain {
            true => {
                let groups = self.source.groups(state.config().target_partitions());
                groups.into_iter().map(Some).collect()
            }
            false => vec![None],
        };
        let partition = |streams| -> Arc<dyn PartitionStream> {
            Arc::new(Partition {
                source: Arc::clone(&self.source),
                table: self.table,
                projection: projection.clone(),
                schema: Arc::clone(&schema),
                limits: limits.clone(),
                streams,
            })
        };
        let time = schema.index_of(self.table.time()).ok().filter(|_| !is_plain);
        let order = time.and_then(|index| {
            let column = Column::new(self.table.time(), index);
            LexOrdering::new([PhysicalSortExpr::new_default(Arc::new(column)).asc()])
        });
        let partitions = groups.into_iter().map(partition).collect();
        let exec = StreamingTableExec::try_new(Arc::clone(&schema), partitions, None, order, false, limit)?;
        Ok(Arc::new(exec))
    }
}

/// A part of a table that one thread reads.
#[derive(Debug)]
struct Partition {
    source: Arc<RecordingSource>,
    table: TableKind,
    projection: Vec<usize>,
    schema: SchemaRef,
    limits: PassLimits,
    /// The streams that are read one after the other; `None` for all of them merged.
    streams: Option<Vec<Stream>>,
}

impl PartitionStream for Partition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), AHEAD);
        let sender = builder.tx();
        let (source, table, limits) = (Arc::clone(&self.source), self.table, self.limits.clone());
        let (projection, streams) = (self.projection.clone(), self.streams.clone());
        builder.spawn_blocking(move || {
            let send = |batch: Result<RecordBatch>| sender.blocking_send(batch).is_ok();
            match (table, streams) {
                (_, Some(streams)) => {
                    source.pass_plainly(&streams, &projection, &limits, |_, batch| send(Ok(batch)))?;
                }
                (TableKind::Events, None) => {
                    source.pass(&[table], &projection, &limits, |_, batch| send(Ok(batch)))?;
                }
                (_, None) => {
                    let project = |batch: RecordBatch| Ok(batch.project(&projection)?);
                    source.pass(&[table], &[], &limits, |_, batch| send(project(batch)))?;
                }
            }
            Ok(())
        });
        builder.build()
    }
}

/// A bound of events that a filter sets.
enum Bound {
    Names(BTreeSet<String>),
    From(Time),
    To(Time),
}

impl Bound {
    /// Returns the bound that a filter sets, if it sets one.
    fn of(filter: &Expr) -> Option<Self> {
        match filter {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
                (Expr::Column(column), Expr::Literal(value, _)) => Self::compared(&column.name, *op, value),
                (Expr::Literal(value, _), Expr::Column(column)) => {
                    Self::compared(&column.name, op.swap()?, value)
                }
                _ => None,
            },
            Expr::InList(InList { expr, list, negated: false }) => {
                let Expr::Column(column) = &**expr else { return None };
                let names = list.iter().map(|item| match item {
                    Expr::Literal(value, _) => text(value),
                    _ => None,
                });
                (column.name == "name").then(|| names.collect::<Option<_>>().map(Self::Names))?
            }
            _ => None,
        }
    }

    fn compared(column: &str, op: Operator, value: &ScalarValue) -> Option<Self> {
        let time = || match value {
            ScalarValue::Int64(time) => time.map(Time),
            _ => None,
        };
        match (column, op) {
            ("name", Operator::Eq) => Some(Self::Names(BTreeSet::from([text(value)?]))),
            ("time_ns", Operator::Gt | Operator::GtEq) => Some(Self::From(time()?)),
            ("time_ns", Operator::Lt | Operator::LtEq) => Some(Self::To(time()?)),
            _ => None,
        }
    }

    fn narrow(self, limits: &mut PassLimits) {
        match self {
            Self::Names(names) => {
                limits.names = Some(match limits.names.take() {
                    Some(known) => known.intersection(&names).cloned().collect(),
                    None => names,
                });
            }
            Self::From(time) => limits.within.0 = limits.within.0.max(time),
            Self::To(time) => limits.within.1 = limits.within.1.min(time),
        }
    }
}

fn text(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => text.clone(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    fn limits(filters: &[Expr]) -> PassLimits {
        let mut limits = PassLimits::NONE;
        filters.iter().filter_map(Bound::of).for_each(|bound| bound.narrow(&mut limits));
        limits
    }

    #[test]
    fn filters_limit_names_and_times_and_nothing_else() {
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let found = limits(&[
            col("name").in_list(vec![lit("a"), lit("b")], false),
            lit("b").eq(col("name")),
            col("time_ns").gt_eq(lit(5_i64)),
            lit(9_i64).gt(col("time_ns")),
        ]);
        assert_eq!((found.names, found.within), (names(&["b"]), (Time(5), Time(9))));
        let none = [
            col("name").not_eq(lit("a")),
            col("name").in_list(vec![lit("a")], true),
            col("comm").eq(lit("a")),
            col("time_ns").gt(col("cpu")),
        ];
        let found = limits(&none);
        assert_eq!((found.names, found.within), (None, (Time::MIN, Time::MAX)));
    }
}
