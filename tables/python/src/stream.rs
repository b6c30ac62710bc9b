//! A pass over a recording as a stream of batches, made by a thread of its own.

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use sordino_tables::{PassLimits, RecordingSource, TableKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};

/// Number of batches that are read ahead.
const AHEAD: usize = 4;

/// The rows of a table. The pass ends early if this is dropped.
pub(crate) struct Rows {
    schema: SchemaRef,
    source: Arc<RecordingSource>,
    batches: Receiver<RecordBatch>,
    /// The thread of the pass, until its end has been reported.
    pass: Option<JoinHandle<Result<(), ArrowError>>>,
    /// True if problems of reading are no error at the end.
    is_partial: bool,
}

impl Rows {
    /// Begins a pass over the table.
    pub(crate) fn begin(
        source: Arc<RecordingSource>,
        table: TableKind,
        projection: Vec<usize>,
        is_partial: bool,
    ) -> Result<Self, ArrowError> {
        let schema = Arc::new(table.schema().project(&projection)?);
        let (sender, batches) = sync_channel(AHEAD);
        let reading = Arc::clone(&source);
        let pass = move || {
            // Of other tables, all columns are made: they are few.
            let of_events = if table == TableKind::Events { &*projection } else { &[] };
            let mut failed = None;
            reading.pass(&[table], of_events, &PassLimits::NONE, |_, batch| {
                let batch = match table {
                    TableKind::Events => Ok(batch),
                    _ => batch.project(&projection),
                };
                batch.map(|batch| sender.send(batch).is_ok()).unwrap_or_else(|error| {
                    failed = Some(error);
                    false
                })
            })?;
            failed.map_or(Ok(()), Err)
        };
        let pass = thread::Builder::new().name("sordino".to_owned()).spawn(pass)?;
        Ok(Self { schema, source, batches, pass: Some(pass), is_partial })
    }

    /// Returns the error with which the pass ended, once.
    fn end(&mut self) -> Option<ArrowError> {
        match self.pass.take()?.join() {
            Err(_) => {
                Some(ArrowError::ComputeError("the thread that reads the recording panicked".to_owned()))
            }
            Ok(Err(error)) => Some(error),
            Ok(Ok(())) => {
                let (problems, _) = self.source.findings();
                let is_whole = problems.is_empty() || self.is_partial;
                (!is_whole).then(|| ArrowError::ExternalError(problems.join("; ").into()))
            }
        }
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.batches.recv() {
            Ok(batch) => Some(Ok(batch)),
            Err(_) => self.end().map(Err),
        }
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
