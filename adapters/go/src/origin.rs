//! The process of a Go trace and its machine, by a recording of the kernel.

use sordino_command::failure::Failure;
use sordino_ctf::{ClockDescription, Environment, read};
use sordino_event::text::with_causes;
use sordino_event::{Classes, Pid, Tid};
use sordino_go::{ImportSummary, TraceOrigin};
use sordino_reading::OpenRecording;
use sordino_timeline::Item;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;

/// The difference in nanoseconds between two measurements of the time at which `CLOCK_MONOTONIC` was 0: the time of day
/// may be corrected in between.
const CORRECTED: u64 = 1_000_000_000;

/// Returns the origin of a trace by a recording of the same machine and boot.
///
/// # Errors
/// The recording has another boot by the trace's clock snapshot, or names no boot; its threads do not show the process,
/// and `pid` does not, either.
pub(crate) fn of_recording(
    path: &Path,
    summary: &ImportSummary,
    pid: Option<i32>,
) -> Result<TraceOrigin, Failure> {
    let failed = |text: String| Failure::new(2, format!("--with {}: {text}", path.display()));
    let (host, monotonic_zero) = machine(path)
        .map_err(&failed)?
        .ok_or_else(|| failed("no boot in its traces: expected a recording of sordino".to_owned()))?;
    if let Some([first, _]) = summary.snapshots {
        let distance = first.monotonic_zero().abs_diff(monotonic_zero);
        if distance > CORRECTED {
            let seconds = distance / 1_000_000_000;
            return Err(failed(format!(
                "another boot than the trace's: their CLOCK_MONOTONIC began {seconds} s apart, expected less than 1 s"
            )));
        }
    }
    let processes = processes(path, summary)?;
    let (pid, program) = match (pid, processes.len()) {
        (Some(pid), 1..) if !processes.contains_key(&Pid(pid)) => {
            return Err(failed(format!(
                "the trace's threads are not in process {pid} there: leave --pid out"
            )));
        }
        (Some(pid), _) => (pid, processes.get(&Pid(pid)).cloned().unwrap_or_default()),
        (None, 1) => processes.into_iter().next().map(|(pid, name)| (pid.0, name)).unwrap_or_default(),
        (None, 0) => return Err(failed("none of the trace's threads is in it: use --pid".to_owned())),
        (None, count) => {
            return Err(failed(format!("the trace's threads belong to {count} processes in it: use --pid")));
        }
    };
    Ok(TraceOrigin { pid, program, host: Some(host), monotonic_zero: Some(monotonic_zero) })
}

/// The boot of a machine and its name, and the time of day at which `CLOCK_MONOTONIC` was 0 on it.
type RecordedMachine = ((String, String), i64);

/// Returns the machine of a recording, by the first trace that names its boot.
fn machine(path: &Path) -> Result<Option<RecordedMachine>, String> {
    for trace in read::find(path).map_err(|error| with_causes(&error))? {
        let mut found = None;
        let look = |environment: &Environment, _: &mut ClockDescription| {
            let text = |name| environment.text(name).filter(|text| !text.is_empty()).map(str::to_owned);
            let zero = environment.integer("monotonic_offset_ns");
            found = text("boot_id")
                .zip(zero)
                .map(|(boot, zero)| ((boot, text("hostname").unwrap_or_default()), zero));
        };
        // A trace that can't be read names no boot.
        let _ = read::Trace::open_with(&trace, &mut Classes::default(), look);
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns the processes to which the trace's threads belong in a recording, and their programs' names.
fn processes(path: &Path, summary: &ImportSummary) -> Result<BTreeMap<Pid, String>, Failure> {
    let mut recording = OpenRecording::open(Some(path))?;
    let mut found = BTreeMap::new();
    recording.pass(None, |item| -> Result<bool, Infallible> {
        if let Item::Event(moment) = item
            && let Some(Tid(tid)) = moment.tid
            && summary.threads.contains(&tid)
            && let Some(pid) = moment.pid()
        {
            let program = moment.program().or_else(|| moment.comm());
            found.insert(pid, program.map_or_else(String::new, |name| name.to_string()));
        }
        Ok(true)
    })?;
    Ok(found)
}
