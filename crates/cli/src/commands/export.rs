//! The command `sordino export`.

mod output;

use crate::Failure;
use crate::commands::events::Selection;
use crate::terminal::answer;
use crate::trace::{Recording, TimeOptions};
use clap::{Args, ValueEnum};
use output::Destination;
use serde_json::json;
use sordino_event::text::{count, printable};
use sordino_event::{Classes, Domain};
use sordino_export::{Chrome, Csv, Exporter, Json, Origin, Paje, Perfetto};
use sordino_timeline::Item;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Size at which the export is written, in bytes.
const PORTION: usize = 1 << 18;

/// Write a recording in the format of another tool
///
/// The export has the selected events, and lost records in their place. docs/export.md says what each format keeps and
/// what it can't have. A file gets its name when it is whole.
#[derive(Args, Debug)]
// `--to` is the format here.
#[command(mut_arg("to", |until| until.visible_alias(None)))]
#[command(after_help = "\
Examples:
  sordino export --to perfetto -o motor.pftrace     # open it at https://ui.perfetto.dev
  sordino export sordino-20260131-120000 --to perfetto -o motor.pftrace --event 'sched_*, motor:*'
  sordino export --to csv --event motor:period -o motor.csv
  sordino export --to perfetto --around 14:03:27.512384±2ms -o peak.pftrace
  sordino export --to perfetto | gzip > motor.pftrace.gz")]
pub(crate) struct Options {
    /// Directory of the recording [default: the newest in the current directory]
    directory: Option<PathBuf>,
    /// Format of the export
    #[arg(long = "to", value_enum, value_name = "FORMAT")]
    format: Format,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    within: TimeOptions,
    /// Print the summary as JSON
    #[arg(long, requires = "output")]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Protobuf for Perfetto: scheduling, interrupts, events, wake-ups
    Perfetto,
    /// JSON of trace events for chrome://tracing and others: runs, interrupts, events
    Chrome,
    /// Text for pj_dump and ViTE: runs, interrupts, states of threads and fibers, wake-ups, events
    Paje,
    /// Comma-separated values, one line for each event, with its fields as JSON
    Csv,
    /// JSON lines, as 'sordino events --json' prints them
    Json,
}

impl Format {
    fn exporter_of(self, recording: &Recording) -> Box<dyn Exporter> {
        let [kernel_release, machine] = recording.kernel.clone();
        self.exporter(&recording.classes, Origin { begin: recording.span().0, kernel_release, machine })
    }

    fn exporter(self, classes: &Classes, origin: Origin) -> Box<dyn Exporter> {
        match self {
            Self::Perfetto => Box::new(Perfetto::new(classes, origin)),
            Self::Chrome => Box::new(Chrome::new(classes, origin)),
            Self::Paje => Box::new(Paje::new(classes, &origin)),
            Self::Csv => Box::new(Csv::new(classes)),
            Self::Json => Box::new(Json::new(classes)),
        }
    }
}

/// Numbers of exported items.
#[derive(Debug, Default)]
struct Exported {
    user: u64,
    kernel: u64,
    /// Places where records are missing.
    losses: u64,
    lost: u64,
}

impl Exported {
    fn add(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(moment) if moment.domain == Domain::User => self.user += 1,
            Item::Event(_) => self.kernel += 1,
            Item::Loss(loss) => {
                self.losses += 1;
                self.lost = self.lost.saturating_add(loss.count.unwrap_or(0));
            }
            Item::Disorder(_) => {}
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let wanted = options.selection.wanted()?;
    let mut recording = Recording::open(options.directory.as_deref())?;
    wanted.check(&recording.classes).map_err(|failure| recording.failing(failure))?;
    recording.limit(&options.within).map_err(|failure| recording.failing(failure))?;
    wanted.condition().into_iter().for_each(|condition| recording.limit_to(condition));
    let mut sieve = wanted.sieve(&recording.classes, recording.facts.clone());
    let mut exporter = options.format.exporter_of(&recording);
    let mut out =
        Destination::open(options.output.as_deref(), options.force, options.format != Format::Perfetto)?;
    let (mut exported, mut bytes) = (Exported::default(), 0);
    let wanted = |item: &Item<'_>| {
        let passes = sieve.passes(item);
        if passes {
            exported.add(item);
        }
        passes
    };
    let is_read = convert(&mut recording, &mut *exporter, wanted, |portion| {
        bytes += portion.len() as u64;
        out.write(portion)
    })?;
    let written = out.close()?;
    if is_read {
        sieve.report();
    }
    recording.close()?;
    if let Some(path) = written {
        answer(&summary(&exported, &path.to_string_lossy(), bytes, options.json), options.json)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Passes wanted items of the recording to the exporter, and its output to `write`, which returns false to end it.
/// Returns false if it was ended.
fn convert(
    recording: &mut Recording,
    exporter: &mut dyn Exporter,
    mut is_wanted: impl FnMut(&Item<'_>) -> bool,
    mut write: impl FnMut(Vec<u8>) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let (mut buffer, mut is_read) = (Vec::new(), true);
    exporter.begin(&mut buffer);
    recording.pass(Some("exporting"), |item| {
        if is_wanted(item) {
            exporter.take(item, &mut buffer);
            if buffer.len() >= PORTION {
                is_read = write(std::mem::replace(&mut buffer, Vec::with_capacity(2 * PORTION)))?;
            }
        }
        Ok(is_read)
    })?;
    if is_read {
        exporter.end(&mut buffer);
        is_read = write(buffer)?;
    }
    Ok(is_read)
}

/// Writes the recording in a format to a file, and returns the number of bytes.
pub(crate) fn write_to(file: &mut File, format: Format, recording: &mut Recording) -> Result<u64, Failure> {
    let mut exporter = format.exporter_of(recording);
    let mut bytes = 0;
    convert(
        recording,
        &mut *exporter,
        |_| true,
        |portion| {
            bytes += portion.len() as u64;
            file.write_all(&portion)?;
            Ok(true)
        },
    )?;
    Ok(bytes)
}

fn summary(exported: &Exported, path: &str, bytes: u64, is_json: bool) -> String {
    let Exported { user, kernel, losses, lost } = exported;
    if is_json {
        let summary = json!({
            "output": path, "bytes": bytes, "user_events": user, "kernel_events": kernel,
            "losses": losses, "lost": lost,
        });
        return format!("{summary}\n");
    }
    let missing = match losses {
        0 => "nothing lost".to_owned(),
        losses => format!("{} lost in {}", count(*lost, "record"), count(*losses, "place")),
    };
    let size = sordino_event::quantity::bytes(bytes);
    format!("exported {user} user + {kernel} kernel events, {missing}: {}, {size}\n", printable(path))
}
