//! Summarises a program whose rings were read to their end.

use sordino_collect::drain::StreamEnd;
use sordino_collect::output::Output;
use sordino_collect::program::ProgramTrace;
use sordino_collect::summary::{ProgramSummary, StreamSummary};

/// Returns a program's summary, and the files that do not show yet that their end is missing.
pub(super) fn summarise(
    trace: &ProgramTrace,
    notes: Vec<String>,
    streams: Vec<StreamEnd>,
) -> (ProgramSummary, Vec<Output>) {
    let summary = ProgramSummary {
        pid: trace.pid,
        name: trace.identity.name.clone(),
        executable: trace.identity.executable.clone(),
        trace: trace.name().to_owned(),
        taken_up_ns: trace.taken_up_ns(),
        streams: streams.iter().filter(|stream| is_worth_a_line(stream)).map(stream).collect(),
        unanswered: trace.unanswered(),
        notes,
    };
    (summary, streams.into_iter().filter_map(|stream| stream.output?.unclosed()).collect())
}

/// Returns true if a stream has data, losses or an error.
pub(super) fn is_worth_a_line(stream: &StreamEnd) -> bool {
    stream.bytes() > 0 || stream.lost.total > 0 || stream.corrupt.is_some() || stream.failure.is_some()
}

fn stream(end: &StreamEnd) -> StreamSummary {
    let corrupt = end.corrupt.map(|corrupt| format!("the program spoilt its ring: {corrupt}"));
    StreamSummary {
        cpu: end.cpu.map(|cpu| cpu.0),
        bytes: end.bytes(),
        events: None,
        ring_full: end.lost.total - end.lost.too_large,
        too_large: end.lost.too_large,
        unfinished: end.unfinished,
        overwritten: end.overwritten,
        unwritten: end.unwritten().packets,
        unwritten_bytes: end.unwritten().bytes,
        unreceived: 0,
        problem: corrupt.or_else(|| end.failure.clone()),
    }
}
