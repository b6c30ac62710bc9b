//! The command `sordino export`.

use crate::Failure;
use crate::commands::sql;
use crate::failure::UNUSABLE;
use crate::privilege::target;
use crate::recording::{AlignOptions, Recording};
use crate::terminal::answer;
use clap::{Args, ValueEnum};
use sordino_event::Time;
use sordino_event::text::count;
use sordino_export::{
    Chrome, Csv, Ctf, CtfVersion, DirectoryExporter, Exporter, Files, Json, Origin, Paje, Perfetto, TraceDat,
};
use sordino_handover::{ExportParts, ExportStream, ExportedItems};
use sordino_otf2::Otf2;
use sordino_reading::AddressNames;
use sordino_selection::{EventFilter, EventOptions, TimeOptions};
use sordino_timeline::Item;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Size at which the export is written, in bytes.
const PORTION: usize = 1 << 18;
const BEFORE_1970: &str = "the format has no times before 1970-01-01 00:00 UTC, where the recording begins: export to \
    chrome, csv, ctf, json, paje or parquet, or later events with --from";

/// Write a recording in the format of another tool
///
/// The export has the selected events, and lost records in their place. docs/export.md describes what each format keeps
/// and what it can't have. The file appears under its name when it is complete.
#[derive(Args, Debug)]
// `--to` is the format here.
#[command(mut_arg("to", |until| until.visible_alias(None)))]
#[command(after_help = "\
Examples:
  sordino export --to perfetto -o motor.pftrace     # open it at https://ui.perfetto.dev
  sordino export sordino-20260131-120000 --to perfetto -o motor.pftrace --event 'sched_*, motor:*'
  sordino export --to csv --event motor:period -o motor.csv
  sordino export --to parquet -o motor.tables
  sordino export --to perfetto --around 14:03:27.512384±2ms -o peak.pftrace
  sordino export --to perfetto | gzip > motor.pftrace.gz")]
pub(crate) struct Options {
    /// Directories of the recordings, which are merged [default: the newest in the current directory]
    #[arg(value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    align: AlignOptions,
    /// Format of the export
    #[arg(long = "to", value_enum, value_name = "FORMAT")]
    format: ExportFormat,
    /// File to write, or directory to make [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists; a directory is never replaced
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    selection: EventOptions,
    #[command(flatten)]
    within: TimeOptions,
    /// Print the summary as JSON
    #[arg(long, requires = "output")]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Protobuf for Perfetto: scheduling, interrupts, events, wake-ups
    Perfetto,
    /// JSON of trace events for chrome://tracing and others: running threads, interrupts, events
    Chrome,
    /// Text for pj_dump and ViTE: running threads, interrupts, states of threads and fibers, wake-ups, events
    Paje,
    /// File of trace-cmd, version 7: the kernel's events, for 'trace-cmd report' and KernelShark
    TraceDat,
    /// Open Trace Format 2, a directory: for VAMPIR and otf2-print; needs OTF2's library
    Otf2,
    /// Common Trace Format 1.8, a directory: for babeltrace2, Trace Compass and sordino itself
    Ctf,
    /// Common Trace Format 2, a directory: for babeltrace2 2.1
    Ctf2,
    /// Comma-separated values, one line for each event, with its fields as JSON
    Csv,
    /// JSON lines, as 'sordino events --json' prints them
    Json,
    /// Tables in Parquet files, a directory: for DuckDB, pandas, Spark and 'sordino sql'; needs the program sordino-sql
    Parquet,
}

/// A writer of one file, of a directory, or of a file in parts.
enum ExportWriter {
    File(Box<dyn Exporter>),
    Directory(Box<dyn DirectoryExporter>),
    Parts(Box<dyn DirectoryExporter>),
    Otf2,
}

impl ExportFormat {
    fn writer(self, recording: &Recording) -> Result<ExportWriter, Failure> {
        // The type of the format's times.
        let is_unsigned = matches!(self, Self::Perfetto | Self::TraceDat | Self::Otf2);
        if is_unsigned && recording.span().0.max(recording.within().0) < Time(0) {
            return Err(recording.failing(Failure::new(UNUSABLE, BEFORE_1970)));
        }
        let [kernel_release, machine] = recording.kernel.clone();
        let (host, priorities) = (recording.host.clone(), recording.priorities);
        let origin = Origin { begin: recording.span().0, kernel_release, machine, host, priorities };
        let classes = &recording.classes;
        let ctf = |version, origin| ExportWriter::Directory(Box::new(Ctf::new(version, classes, origin)));
        Ok(ExportWriter::File(match self {
            Self::Perfetto => Box::new(Perfetto::new(classes, origin)),
            Self::Chrome => Box::new(Chrome::new(classes, origin)),
            Self::Paje => Box::new(Paje::new(classes, &origin)),
            Self::TraceDat => return Ok(ExportWriter::Parts(Box::new(TraceDat::new(classes, &origin)))),
            Self::Otf2 => return Ok(ExportWriter::Otf2),
            Self::Ctf => return Ok(ctf(CtfVersion::V1, origin)),
            Self::Ctf2 => return Ok(ctf(CtfVersion::V2, origin)),
            Self::Csv => Box::new(Csv::new(classes)),
            Self::Json => {
                Box::new(Json::new(classes).of_several(&recording.host_labels(), recording.clocks()))
            }
            Self::Parquet => return Err(sql::export()),
        }))
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.format == ExportFormat::Parquet {
        return Err(sql::export());
    }
    let rules = options.selection.rules()?;
    let mut recording = Recording::open_all(&options.directories, &options.align)?;
    if options.format != ExportFormat::Json {
        recording.require_one_host("this format")?;
    }
    rules.check(&recording.classes).map_err(|failure| recording.failing(failure))?;
    recording.limit(&options.within).map_err(|failure| recording.failing(failure))?;
    rules.condition().into_iter().for_each(|condition| recording.limit_to(condition));
    let mut sieve = rules.filter_of(&recording.classes, recording.facts.clone());
    let mut exported = ExportedItems::default();
    let parts = |is_file| ExportParts::create(options.output.as_deref(), options.force, is_file);
    let written = match options.format.writer(&recording)? {
        ExportWriter::File(exporter) => {
            to_file(options, exporter, &mut recording, &mut sieve, &mut exported)?
        }
        ExportWriter::Directory(exporter) => {
            Some(to_parts(parts(false)?, exporter, &mut recording, &mut sieve, &mut exported)?)
        }
        ExportWriter::Parts(exporter) => {
            Some(to_parts(parts(true)?, exporter, &mut recording, &mut sieve, &mut exported)?)
        }
        ExportWriter::Otf2 => Some(to_otf2(parts(false)?, &mut recording, &mut sieve, &mut exported)?),
    };
    recording.close()?;
    if let Some((path, bytes)) = written {
        answer(&exported.summary(&path.to_string_lossy(), bytes, options.json), options.json)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file or standard output. Returns the path and the bytes of the file.
fn to_file(
    options: &Options,
    mut exporter: Box<dyn Exporter>,
    recording: &mut Recording,
    sieve: &mut EventFilter,
    exported: &mut ExportedItems,
) -> Result<Option<(PathBuf, u64)>, Failure> {
    let is_text = options.format != ExportFormat::Perfetto;
    let mut out = ExportStream::open(options.output.as_deref(), options.force, is_text)?;
    let mut bytes = 0;
    let mut is_selected = |item: &Item<'_>| {
        let passes = sieve.passes(item);
        if passes {
            exported.add(item);
        }
        ControlFlow::Continue(passes)
    };
    let is_read = convert(recording, &mut *exporter, &mut is_selected, &mut |portion| {
        bytes += portion.len() as u64;
        Ok(out.write(portion)?)
    })?;
    let written = out.close(owner()?)?;
    if is_read {
        sieve.report();
    }
    Ok(written.map(|path| (path, bytes)))
}

/// Passes the selected items of the recording to the exporter, and its output to `write`. Returns false if
/// `is_selected` stopped it, or if `write` returned false.
fn convert(
    recording: &mut Recording,
    exporter: &mut dyn Exporter,
    is_selected: &mut dyn FnMut(&Item<'_>) -> ControlFlow<(), bool>,
    write: &mut dyn FnMut(Vec<u8>) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let (mut buffer, mut is_read) = (Vec::new(), true);
    let names = AddressNames::new(recording);
    exporter.name_functions(names.namer());
    exporter.begin(&mut buffer);
    recording.pass(Some("exporting"), |item| {
        names.take(item);
        let ControlFlow::Continue(is_selected) = is_selected(item) else {
            is_read = false;
            return Ok(false);
        };
        if is_selected {
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

/// Writes the recording in a format to a file. Returns false if `is_stopped` returned true for an item before the end.
pub(crate) fn write_to(
    file: &mut File,
    format: ExportFormat,
    recording: &mut Recording,
    mut is_stopped: impl FnMut(&Item<'_>) -> bool,
) -> Result<bool, Failure> {
    let ExportWriter::File(mut exporter) = format.writer(recording)? else {
        return Err(Failure::new(UNUSABLE, "this format has no form of one stream"));
    };
    let mut is_selected =
        |item: &Item<'_>| if is_stopped(item) { ControlFlow::Break(()) } else { ControlFlow::Continue(true) };
    convert(recording, &mut *exporter, &mut is_selected, &mut |portion| {
        file.write_all(&portion)?;
        Ok(true)
    })
}

/// Writes the recording to a new file, in a format that is written in parts.
pub(crate) fn write_parts(
    path: &Path,
    format: ExportFormat,
    recording: &mut Recording,
) -> Result<(), Failure> {
    let ExportWriter::Parts(exporter) = format.writer(recording)? else {
        return Err(Failure::new(UNUSABLE, "this format is not written in parts"));
    };
    let mut sieve = EventOptions::default().rules()?.filter_of(&recording.classes, recording.facts.clone());
    let out = ExportParts::create(Some(path), false, true)?;
    to_parts(out, exporter, recording, &mut sieve, &mut ExportedItems::default())?;
    Ok(())
}

/// Writes a directory or a file in parts. Returns its path and bytes.
fn to_parts(
    mut out: ExportParts,
    mut exporter: Box<dyn DirectoryExporter>,
    recording: &mut Recording,
    sieve: &mut EventFilter,
    exported: &mut ExportedItems,
) -> Result<(PathBuf, u64), Failure> {
    let (mut files, mut left_out) = (Files::default(), 0_u64);
    recording.pass(Some("exporting"), |item| {
        if !sieve.passes(item) {
            return Ok(true);
        }
        if !exporter.can_take(item) {
            left_out += u64::from(matches!(item, Item::Event(_)));
            return Ok(true);
        }
        exported.add(item);
        exporter.take(item, &mut files);
        if files.bytes() >= PORTION {
            out.write(&mut files)?;
        }
        Ok(true)
    })?;
    exporter.end(&mut files);
    out.write(&mut files)?;
    sieve.report();
    if left_out > 0 {
        message!("sordino: {} left out: this format has the kernel's alone", count(left_out, "event"));
    }
    Ok(out.close(owner()?)?)
}

/// Writes an archive of OTF2. Returns its path and bytes.
fn to_otf2(
    out: ExportParts,
    recording: &mut Recording,
    sieve: &mut EventFilter,
    exported: &mut ExportedItems,
) -> Result<(PathBuf, u64), Failure> {
    let failed = |error: sordino_otf2::Error| match error {
        sordino_otf2::Error::System(error) => out.failure(&error).into(),
        other => Failure::new(UNUSABLE, Failure::text_of(&other)),
    };
    let begin = recording.span().0;
    let mut exporter = Otf2::create(&out.directory(), &recording.classes, begin).map_err(failed)?;
    recording.pass(Some("exporting"), |item| {
        if sieve.passes(item) {
            exported.add(item);
            exporter.take(item).map_err(failed)?;
        }
        Ok(true)
    })?;
    let left_out = exporter.end().map_err(failed)?;
    sieve.report();
    if left_out > 0 {
        message!("sordino: {} replaced by '...': there are too many", count(left_out, "text"));
    }
    Ok(out.close(owner()?)?)
}

/// Returns the user who called sudo and that user's group: they own the output.
fn owner() -> Result<Option<(u32, u32)>, Failure> {
    Ok(target(None)?.map(|reader| reader.ids()))
}
