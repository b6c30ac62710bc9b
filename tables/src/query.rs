//! Queries: the tables of a recording or of an export, and the results of SQL on them.

use crate::functions;
use crate::output::ResultWriter;
use crate::progress::ShownProgress;
use crate::provider::RecordedTable;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Int64Type, Schema};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingOptions;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use futures::StreamExt;
use sordino_command::failure::{Failure, UNUSABLE};
use sordino_event::Time;
use sordino_handover::ExportStream;
use sordino_selection::ResultFormat;
use sordino_tables::{PARTITIONS, RecordingSource, TableKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum memory of sorting, grouping and joining, in bytes; the rest is in temporary files.
const MEMORY: usize = 256 << 20;

/// The tables that queries can use.
pub(crate) struct Tables {
    context: SessionContext,
    /// The recording, unless the tables are Parquet files.
    source: Option<Arc<RecordingSource>>,
}

/// The destination of results.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) format: ResultFormat,
    pub(crate) file: Option<PathBuf>,
    pub(crate) may_replace: bool,
    pub(crate) owner: Option<(u32, u32)>,
}

/// Returns true if the directory has tables in Parquet files, as an export makes them.
pub(crate) fn is_dataset(path: &Path) -> bool {
    path.join(TableKind::Events.name()).is_dir()
        && !path.join("kernel").exists()
        && !path.join("metadata").exists()
}

impl Tables {
    /// Opens the tables of a recording.
    pub(crate) fn of_recording(source: RecordingSource) -> Result<Self, Failure> {
        let (context, source) = (context()?, Arc::new(source));
        for table in TableKind::ALL {
            let provider = RecordedTable::new(Arc::clone(&source), table);
            context.register_table(table.name(), Arc::new(provider))?;
        }
        functions::register(&context, source.span());
        Ok(Self { context, source: Some(source) })
    }

    /// Opens the tables in a directory of Parquet files.
    pub(crate) async fn of_dataset(path: &Path) -> Result<Self, Failure> {
        let context = context()?;
        let path = path.canonicalize()?;
        for table in TableKind::ALL {
            let columns = PARTITIONS.map(|name| (name.to_owned(), DataType::Utf8)).to_vec();
            let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
                .with_file_extension(".parquet")
                .with_table_partition_cols(columns);
            let schema = table.schema();
            let fields = schema.fields().iter().filter(|field| !PARTITIONS.contains(&field.name().as_str()));
            let schema = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
            let place = format!("{}/", path.join(table.name()).display());
            context.register_listing_table(table.name(), place, options, Some(schema), None).await?;
        }
        let tables = Self { context, source: None };
        functions::register(&tables.context, tables.span().await?);
        Ok(tables)
    }

    /// Returns the first and the last time of an export, from its files' statistics.
    async fn span(&self) -> Result<(Time, Time), Failure> {
        let batches =
            self.context.sql("SELECT min(time_ns), max(time_ns) FROM events").await?.collect().await?;
        let time = |column: usize| {
            let row = batches.first().filter(|batch| batch.num_rows() > 0)?;
            let times = row.column(column).as_primitive_opt::<Int64Type>()?;
            times.iter().next().flatten().map(Time)
        };
        Ok((time(0).unwrap_or_default(), time(1).unwrap_or_default()))
    }

    /// Runs statements, and writes the result of each.
    pub(crate) async fn run(&self, sql: &str, destination: &Destination) -> Result<(), Failure> {
        let options = SQLOptions::new().with_allow_dml(false);
        let frame = self.context.sql_with_options(sql, options).await.map_err(|error| refused(&error))?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let mut shown = Some(match &self.source {
            Some(source) => ShownProgress::of_reading("reading", source),
            None => ShownProgress::without_length("reading"),
        });
        let mut batches = frame.execute_stream().await.map_err(|error| refused(&error))?;
        let mut writer = None;
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(|error| refused(&error))?;
            // Rows and progress may be on the same terminal.
            if destination.file.is_none() {
                shown = None;
            }
            if !self.writer(&mut writer, &schema, destination)?.write(&batch)? {
                break;
            }
        }
        drop(shown);
        self.writer(&mut writer, &schema, destination)?;
        if let Some(writer) = writer {
            writer.close(destination.owner)?;
        }
        Ok(())
    }

    /// Returns the writer, which is made with the first batch: a query that fails before leaves no output.
    fn writer<'a>(
        &self,
        writer: &'a mut Option<ResultWriter>,
        schema: &Arc<Schema>,
        destination: &Destination,
    ) -> Result<&'a mut ResultWriter, Failure> {
        if writer.is_none() {
            let Destination { format, file, may_replace, .. } = destination;
            let out = ExportStream::open(file.as_deref(), *may_replace, *format != ResultFormat::Parquet)?;
            *writer = Some(ResultWriter::new(*format, out, schema)?);
        }
        writer.as_mut().ok_or_else(|| Failure::new(UNUSABLE, "no output"))
    }

    /// Returns the problems of reading so far, and the losses that queries have passed.
    pub(crate) fn findings(&self) -> (Vec<String>, Option<(u64, u64)>) {
        self.source.as_ref().map_or((Vec::new(), None), |source| source.findings())
    }
}

fn context() -> Result<SessionContext, Failure> {
    let runtime =
        RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(MEMORY))).build_arc()?;
    let config = SessionConfig::new().with_information_schema(true).with_collect_statistics(true);
    Ok(SessionContext::new_with_config_rt(config, runtime))
}

/// Returns the failure of a query: the message without the prefixes of the libraries that pass it on.
fn refused(error: &DataFusionError) -> Failure {
    // Of a join, the rows of the first table are kept.
    let remedy = match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => {
            ": select fewer rows before, or name the smaller table first in the join"
        }
        _ => "",
    };
    Failure::new(UNUSABLE, format!("SQL: {}{remedy}", error.strip_backtrace()))
}
