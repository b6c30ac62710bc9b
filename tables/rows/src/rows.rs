//! The columns of the tables `intervals`, `latencies` and `losses`, filled row by row.

use crate::intervals::IntervalRow;
use crate::names::{Hours, NameColumn, NameForm};
use crate::schema::TableKind;
use arrow_array::builder::{Int32Builder, Int64Builder, StringViewBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use sordino_event::{Cpu, Loss, Nanos, Pid, Tid, Time};
use std::sync::Arc;

/// The common columns of spans and losses.
#[derive(Default)]
struct SpanColumns {
    from: Int64Builder,
    to: Int64Builder,
    cpu: Int32Builder,
    pid: Int32Builder,
    host: NameColumn,
    hour: Hours,
    rows: usize,
}

impl SpanColumns {
    fn push(&mut self, from: Time, to: Time, cpu: Option<Cpu>, pid: Option<Pid>, host: &Arc<str>) {
        self.from.append_value(from.0);
        self.to.append_value(to.0);
        self.cpu.append_option(cpu.and_then(|cpu| i32::try_from(cpu.0).ok()));
        self.pid.append_option(pid.map(|pid| pid.0));
        self.host.push(Some(host));
        self.rows += 1;
    }

    /// Returns begin, end, CPU and process; and host and hour, which are last in every table.
    fn finish(&mut self) -> Result<([ArrayRef; 4], [ArrayRef; 2]), ArrowError> {
        self.rows = 0;
        let columns: [ArrayRef; 4] = [
            Arc::new(self.from.finish()),
            Arc::new(self.to.finish()),
            Arc::new(self.cpu.finish()),
            Arc::new(self.pid.finish()),
        ];
        Ok((columns, [self.host.finish(NameForm::Texts)?, self.hour.finish()?]))
    }
}

/// The rows of a batch of intervals or latencies.
pub(crate) struct IntervalColumns {
    table: TableKind,
    span: SpanColumns,
    length: Int64Builder,
    tid: Int32Builder,
    comm: NameColumn,
    fiber: UInt64Builder,
    state: StringViewBuilder,
    name: NameColumn,
    by_tid: Int32Builder,
    by_comm: NameColumn,
    priority: Int32Builder,
    parts: [Int64Builder; 4],
}

impl IntervalColumns {
    /// Creates an empty batch of `intervals` or `latencies`.
    pub(crate) fn new(table: TableKind) -> Self {
        Self {
            table,
            span: SpanColumns::default(),
            length: Int64Builder::new(),
            tid: Int32Builder::new(),
            comm: NameColumn::default(),
            fiber: UInt64Builder::new(),
            state: StringViewBuilder::new(),
            name: NameColumn::default(),
            by_tid: Int32Builder::new(),
            by_comm: NameColumn::default(),
            priority: Int32Builder::new(),
            parts: Default::default(),
        }
    }

    /// Returns the table whose rows these are.
    pub(crate) fn table(&self) -> TableKind {
        self.table
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.span.rows
    }

    /// Appends an interval of the machine `host`.
    pub(crate) fn push(&mut self, interval: &IntervalRow, host: &Arc<str>) {
        let IntervalRow { from, to, cpu, pid, .. } = *interval;
        self.span.push(from, to, cpu, pid, host);
        self.span.hour.push(to.0);
        self.length.append_value((to - from).0);
        self.tid.append_option(interval.tid.map(|Tid(tid)| tid));
        self.comm.push(interval.comm.as_ref());
        let by = interval.by.as_ref();
        self.by_tid.append_option(by.map(|(Tid(tid), _)| *tid));
        self.by_comm.push(by.and_then(|(_, comm)| comm.as_ref()));
        if self.table == TableKind::Intervals {
            self.fiber.append_option(interval.fiber);
            self.state.append_value(interval.state);
            self.name.push(interval.name.as_ref());
        } else {
            self.priority.append_option(interval.priority);
            for (index, part) in self.parts.iter_mut().enumerate() {
                part.append_value(interval.parts.get(index).map_or(0, |Nanos(part)| *part));
            }
        }
    }

    /// Returns the batch, and begins the next.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let ([from, to, cpu, pid], last) = self.span.finish()?;
        let mut columns: Vec<ArrayRef> = vec![from, to, Arc::new(self.length.finish()), cpu, pid];
        columns.extend([Arc::new(self.tid.finish()) as ArrayRef, self.comm.finish(NameForm::Texts)?]);
        let by: [ArrayRef; 2] = [Arc::new(self.by_tid.finish()), self.by_comm.finish(NameForm::Texts)?];
        if self.table == TableKind::Intervals {
            columns.push(Arc::new(self.fiber.finish()));
            columns.push(Arc::new(self.state.finish()));
            columns.push(self.name.finish(NameForm::Texts)?);
            columns.extend(by);
        } else {
            columns.push(Arc::new(self.priority.finish()));
            columns.extend(by);
            columns.extend(self.parts.iter_mut().map(|part| Arc::new(part.finish()) as ArrayRef));
        }
        columns.extend(last);
        RecordBatch::try_new(self.table.schema(), columns)
    }
}

/// The rows of a batch of losses.
#[derive(Default)]
pub(crate) struct LossColumns {
    span: SpanColumns,
    count: UInt64Builder,
    cause: StringViewBuilder,
    place: StringViewBuilder,
}

impl LossColumns {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.span.rows
    }

    /// Appends a loss of the machine `host`.
    pub(crate) fn push(&mut self, loss: &Loss, host: &Arc<str>) {
        self.span.push(loss.from, loss.to, loss.cpu, loss.pid, host);
        self.span.hour.push(loss.from.0);
        self.count.append_option(loss.count);
        self.cause.append_value(loss.cause.to_string());
        self.place.append_option(loss.place.as_deref());
    }

    /// Returns the batch, and begins the next.
    pub(crate) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let ([from, to, cpu, pid], last) = self.span.finish()?;
        let mut columns = vec![from, to, cpu, pid, Arc::new(self.count.finish()) as ArrayRef];
        columns.extend([&mut self.cause, &mut self.place].map(|texts| Arc::new(texts.finish()) as ArrayRef));
        columns.extend(last);
        RecordBatch::try_new(TableKind::Losses.schema(), columns)
    }
}
