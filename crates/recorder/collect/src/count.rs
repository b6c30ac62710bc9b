//! Counts the events of a recording.

use crate::directory::{Directory, USER};
use crate::files::is_in_recording;
use crate::summary::Summary;
use crate::watch::Watch;
use sordino_ctf::read::{Stream, Trace};
use sordino_event::{Classes, Event, LossCause, Step};
use std::path::Path;

/// Maximum size of the programs' traces for which events are counted, in bytes: counting more takes a minute.
const MOST: u64 = 4 << 30;

/// Counts the programs' events, stream by stream, by reading the traces back. This also detects invalid records of a
/// faulty program.
pub(crate) fn count_events(directory: &Directory, summary: &mut Summary, watch: &mut dyn Watch) {
    let total: u64 =
        summary.programs.iter().flat_map(|program| &program.streams).map(|stream| stream.bytes).sum();
    if total > MOST {
        summary.notes.push(format!(
            "the programs' events are not counted: {} MiB are more than is worth the wait",
            total >> 20
        ));
        return;
    }
    let mut done = 0;
    for program in &mut summary.programs {
        if program.streams.is_empty() || !is_in_recording(&program.trace) {
            continue;
        }
        let trace = Trace::open(directory.trace_path(&program.trace), &mut Classes::default());
        let trace = trace.map_err(|error| directory.reader_error(&error));
        for stream in &mut program.streams {
            let file = stream.file_name();
            let mut advance = |bytes| watch.working("counting events", done + bytes, total);
            match trace.as_ref().map_err(String::clone).and_then(|trace| count(trace, &file, &mut advance)) {
                Ok(events) => stream.events = Some(events),
                Err(problem) => {
                    stream.problem.get_or_insert(problem);
                }
            }
            done += stream.bytes;
        }
    }
}

/// The same limit for a request of the status, in bytes.
const MOST_SO_FAR: u64 = 256 << 20;

/// Returns the number of the programs' events on disk in a recording in progress, up to each ring's last complete
/// sub-buffer; `None` if the traces are too large to be counted at once, or a program's metadata is just being written.
/// Reads the files only and makes no request to the recorder.
pub fn user_events_so_far(directory: &Directory) -> Option<u64> {
    let user = directory.part(USER).ok()?;
    if user.bytes() > MOST_SO_FAR {
        return None;
    }
    let traces = user.names().ok()?;
    traces.iter().map(|trace| whole_events(&user.proc_path().join(trace))).sum()
}

/// Counts the events of a trace in progress.
fn whole_events(trace: &Path) -> Option<u64> {
    let trace = Trace::open(trace, &mut Classes::default()).ok()?;
    Some(trace.streams().iter().map(events_before_an_error).sum())
}

/// Counts the events of one file of a trace, up to the first error.
pub(crate) fn whole_events_of(trace: &Trace, file: &str) -> u64 {
    stream_of(trace, file).map_or(0, events_before_an_error)
}

/// Counts events up to the first error: the last complete packet may be followed by a partial one.
fn events_before_an_error(stream: &Stream) -> u64 {
    let (mut events, mut event, mut count) = (stream.events(), Event::default(), 0);
    while let Ok(step @ (Step::Event | Step::Loss(_))) = events.next(&mut event) {
        count += u64::from(step == Step::Event);
    }
    count
}

fn stream_of<'a>(trace: &'a Trace, file: &str) -> Option<&'a Stream> {
    let is_it = |path: &Path| path.file_name().is_some_and(|name| name == file);
    trace.streams().iter().find(|stream| stream.files().any(is_it))
}

/// Counts the events of one stream's file.
fn count(trace: &Trace, file: &str, advance: &mut dyn FnMut(u64)) -> Result<u64, String> {
    let Some(stream) = stream_of(trace, file) else { return Ok(0) };
    let (mut events, mut event, mut count) = (stream.events(), Event::default(), 0u64);
    loop {
        match events.next(&mut event).map_err(|error| error.to_string())? {
            Step::Event => count += 1,
            // Discarded records include those that could not be written, which have no count.
            Step::Loss(loss) if loss.count.is_none() && loss.cause != LossCause::Discarded => {
                return Err(format!("{file}: the program wrote records that make no sense ({})", loss.cause));
            }
            Step::Loss(_) => {}
            Step::End => return Ok(count),
        }
        if count.is_multiple_of(1 << 20) {
            advance(count * 32);
        }
    }
}
