//! The export to Parquet: one pass over the recording, while another thread writes the files.

use crate::dataset::Dataset;
use crate::progress::ShownProgress;
use crate::report;
use clap::Args;
use datafusion::arrow::array::RecordBatch;
use sordino_command::failure::{Failure, UNUSABLE};
use sordino_command::privilege::target;
use sordino_command::recording::{AlignOptions, Recording};
use sordino_event::text::{count, printable};
use sordino_selection::{EventOptions, TimeOptions};
use sordino_tables::{PassLimits, RecordingSource, TableKind};
use sordino_terminal::answer;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Number of batches that wait for the thread that writes them.
const WAITING: usize = 8;

/// Write a recording as tables in Parquet files
#[derive(Args, Debug)]
// `--to` is the format here, as for 'sordino export'.
#[command(mut_arg("to", |until| until.visible_alias(None)))]
pub(crate) struct ParquetOptions {
    /// Directories of the recordings, which are merged [default: the newest in the current directory]
    #[arg(value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    align: AlignOptions,
    /// Directory to make, which must not exist
    #[arg(short, long, value_name = "DIRECTORY")]
    output: PathBuf,
    #[command(flatten)]
    selection: EventOptions,
    #[command(flatten)]
    within: TimeOptions,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    /// Format of the export: parquet
    #[arg(long = "to", value_name = "FORMAT", value_parser = ["parquet"], hide = true)]
    _format: Option<String>,
    /// Accepted as for other formats; a directory is never replaced
    #[arg(long = "force", hide = true)]
    _force: bool,
}

pub(crate) fn run(options: &ParquetOptions) -> Result<ExitCode, Failure> {
    let rules = options.selection.rules()?;
    let mut recording = Recording::open_all(&options.directories, &options.align)?;
    recording.require_one_host("this format")?;
    recording.limit(&options.within)?;
    let source = RecordingSource::new(recording.into(), rules)?;
    let dataset = Dataset::create(&options.output)?;
    let source = Arc::new(source.with_dictionaries());
    let shown = ShownProgress::of_reading("exporting", &source);
    let (sender, received) = sync_channel(WAITING);
    let writer = thread::spawn(move || write(dataset, &received));
    let schema = TableKind::Events.schema();
    // The hour is in the time, too.
    let projection = (0..schema.fields().len()).filter(|column| schema.field(*column).name() != "hour");
    let projection: Vec<usize> = projection.collect();
    let send = |table, batch| sender.send((table, batch)).is_ok();
    let filter = source.pass(&TableKind::ALL, &projection, &PassLimits::NONE, send);
    drop(sender);
    let written =
        writer.join().map_err(|_| Failure::new(UNUSABLE, "the thread that writes the files panicked"))??;
    drop(shown);
    let filter = filter?;
    let (dataset, rows) = written;
    let bytes = dataset.close(source.host(), source.span().0, target(None)?.map(|user| user.ids()))?;
    filter.report();
    answer(&summary(options, rows, bytes), options.json)?;
    Ok(report(source.findings()))
}

/// Writes all batches. Returns the numbers of rows of the tables.
fn write(
    mut dataset: Dataset,
    received: &Receiver<(TableKind, RecordBatch)>,
) -> Result<(Dataset, [usize; 4]), Failure> {
    let mut rows = [0; 4];
    for (table, batch) in received {
        dataset.write(table, &batch)?;
        rows[table as usize] += batch.num_rows();
    }
    Ok((dataset, rows))
}

fn summary(
    options: &ParquetOptions,
    [events, intervals, latencies, losses]: [usize; 4],
    bytes: u64,
) -> String {
    let path = options.output.to_string_lossy();
    if options.json {
        let mut name = Vec::new();
        sordino_report::json_text(path.as_bytes(), &mut name);
        let name = String::from_utf8_lossy(&name);
        return format!(
            "{{\"output\":{name},\"bytes\":{bytes},\"events\":{events},\"intervals\":{intervals},\
             \"latencies\":{latencies},\"losses\":{losses}}}\n"
        );
    }
    let counts = [
        count(events, "event"),
        count(intervals, "interval"),
        format!("{latencies} {}", if latencies == 1 { "latency" } else { "latencies" }),
        count(losses, "loss"),
    ];
    format!("exported {}: {}, {}\n", counts.join(", "), printable(&path), sordino_quantity::bytes(bytes))
}
