//! The program `sordino-go`: imports an execution trace of Go as a recording.
#![forbid(unsafe_code)]

mod origin;

use clap::Parser;
use rustix::rand::{GetRandomFlags, getrandom};
use sordino_command::failure::{Failure, NO};
use sordino_ctf::Uuid;
use sordino_event::text::count;
use sordino_go::{ImportSummary, TraceOrigin, import, metadata};
use sordino_terminal::remark;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Import an execution trace of Go as a recording with the events of its goroutines
///
/// The exit status is 1 if a part of the trace is damaged or missing, which is left out.
#[derive(Debug, Parser)]
#[command(version)]
struct ImportArguments {
    /// The trace: the output of runtime/trace, or a snapshot of its flight recorder
    trace: PathBuf,
    /// The directory of the recording, which is created
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// A recording of the kernel on the same machine and boot: it has the process and the relation of the clocks
    #[arg(long = "with", value_name = "RECORDING")]
    recording: Option<PathBuf>,
    /// The id of the process that wrote the trace; default: the process of its threads in RECORDING
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
}

fn main() -> ExitCode {
    match run(&ImportArguments::parse()) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn run(arguments: &ImportArguments) -> Result<ExitCode, Failure> {
    let unusable = |path: &Path, error: &dyn std::error::Error| {
        Failure::new(2, format!("{}: {}", path.display(), Failure::text_of(error)))
    };
    if arguments.recording.is_none() && arguments.pid.is_none() {
        let text = "a trace of Go does not name its process: expected --with RECORDING or --pid PID";
        return Err(Failure::new(2, text));
    }
    let (trace, output) = (&arguments.trace, &arguments.output);
    let input = File::open(trace).map_err(|error| unusable(trace, &error))?;
    fs::create_dir(output).map_err(|error| unusable(output, &error))?;
    let mut uuid = Uuid::default();
    // Fails only on kernels without getrandom; all UUIDs are equal there.
    let _ = getrandom(&mut uuid.0, GetRandomFlags::empty());
    let written = write(input, uuid, arguments).map_err(|failure| {
        // Only these two files can be in it.
        ["metadata", "goroutines"].iter().for_each(|name| _ = fs::remove_file(output.join(name)));
        let _ = fs::remove_dir(output);
        Failure::new(2, format!("{}: {}", trace.display(), failure.text()))
    });
    let (summary, origin) = written?;
    describe(arguments, &summary, &origin);
    Ok(if summary.end.is_some() || summary.moved != 0 { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

fn write(
    input: File,
    uuid: Uuid,
    arguments: &ImportArguments,
) -> Result<(ImportSummary, TraceOrigin), Failure> {
    let stream = BufWriter::new(File::create_new(arguments.output.join("goroutines"))?);
    let (summary, _) = import(input, uuid, stream)?;
    let origin = match &arguments.recording {
        Some(recording) => origin::of_recording(recording, &summary, arguments.pid)?,
        None => TraceOrigin { pid: arguments.pid.unwrap_or_default(), ..TraceOrigin::default() },
    };
    fs::write(arguments.output.join("metadata"), metadata(uuid, &summary, &origin)?)?;
    Ok((summary, origin))
}

/// Prints the contents of the recording, the relation of its clock, and its holes.
fn describe(arguments: &ImportArguments, summary: &ImportSummary, origin: &TraceOrigin) {
    let program = if origin.program.is_empty() { "process" } else { &origin.program };
    let goroutines = count(summary.made + summary.older, "goroutine");
    remark(&format!(
        "{}: {goroutines} of {program}/{}, {} of them older than the trace, on {}",
        arguments.output.display(),
        origin.pid,
        summary.older,
        count(summary.threads.len() as u64, "thread"),
    ));
    remark(&clock(summary, origin));
    if summary.contradictions != 0 {
        let events = count(summary.contradictions, "event");
        remark(&format!("{events} of the trace contradict those before them: 'sordino events' marks them"));
    }
    if summary.moved != 0 {
        let events = count(summary.moved, "event");
        remark(&format!(
            "damaged times: {events} lie over a second before earlier ones, and have their time"
        ));
    }
    if let Some(end) = &summary.end {
        remark(&format!("{}: {end}: nothing later is imported", arguments.trace.display()));
    }
}

/// Returns the sentence about the relation of the trace's clock to others.
fn clock(summary: &ImportSummary, origin: &TraceOrigin) -> String {
    match (summary.snapshots, &origin.host) {
        (Some([_, worst]), Some(_)) => format!(
            "clock: CLOCK_MONOTONIC in steps of 64 ns, of the recording's boot; the trace's clock snapshots differ from \
             it by at most {} ns",
            worst.skew()
        ),
        (None, Some(_)) => {
            "clock: CLOCK_MONOTONIC in steps of 64 ns, of the recording's boot by --with alone: Go before \
             1.25 writes no clock snapshots"
                .to_owned()
        }
        (Some(_), None) => {
            "clock: the time of day by the trace's clock snapshot, with unknown uncertainty: use --with, \
             or --align when reading"
                .to_owned()
        }
        (None, None) => {
            "clock: no known relation to the time of day, because Go before 1.25 writes no clock snapshots; \
             times count from the machine's start: use --with, or --align when reading"
                .to_owned()
        }
    }
}
