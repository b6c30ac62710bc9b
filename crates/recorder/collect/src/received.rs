//! Recordings that arrive as a stream: a summary at the start, and the parts that did not arrive.

use crate::convert::unconverted;
use crate::count::whole_events_of;
use crate::cut::cut_trace;
use crate::directory::page_name;
use crate::directory::{Directory, KERNEL, SUMMARY};
use crate::error::Error;
use crate::summary::{KernelStream, ProgramSummary, SCHEMA, State, StreamSummary, Summary};
use sordino_ctf::read::Trace;
use sordino_dirfd::Dir;
use sordino_event::{Classes, Cpu};
use std::collections::{BTreeMap, HashMap};

/// Makes a directory a recording that is being received, with the summary that its sender `announced`. From now on it
/// can be recovered.
///
/// # Errors
/// If the summary can't be written.
pub fn expect_recording(dir: &Dir, announced: Option<&[u8]>) -> Result<(), Error> {
    // An invalid summary gives no information.
    let announced = announced.and_then(|text| serde_json::from_slice::<Summary>(text).ok());
    let summary = Summary {
        schema: SCHEMA,
        state: State::Recording,
        recorder: std::process::id(),
        received: true,
        ..announced.unwrap_or_default()
    };
    let text =
        serde_json::to_vec_pretty(&summary).map_err(|error| Error::output(dir.path())(error.into()))?;
    dir.replace(SUMMARY, &text).map_err(Error::output(dir.path().join(SUMMARY)))
}

/// Truncates the received files of the kernel's trace, and counts their events.
pub(crate) fn recover_kernel(directory: &Directory, announced: &mut Vec<KernelStream>) -> Result<(), Error> {
    // A CPU that is announced repeatedly counts once.
    announced.sort_by_key(|stream| stream.cpu);
    announced.dedup_by_key(|stream| stream.cpu);
    let Ok(kernel) = directory.part(KERNEL) else {
        announced.iter_mut().for_each(|stream| kernel_stream(stream, 0, 0));
        return Ok(());
    };
    let cut: HashMap<String, u64> =
        cut_trace(&kernel)?.into_iter().map(|file| (file.name, file.bytes)).collect();
    let trace = Trace::open(directory.trace_path(KERNEL), &mut Classes::default()).ok();
    for stream in announced {
        let name = page_name(stream.cpu);
        let came = cut.get(&name).copied();
        let events = |_| trace.as_ref().map_or(0, |trace| whole_events_of(trace, &name));
        kernel_stream(stream, came.map_or(0, events), came.unwrap_or(0));
    }
    Ok(())
}

fn kernel_stream(stream: &mut KernelStream, events: u64, bytes: u64) {
    stream.unreceived = stream.events.saturating_sub(events);
    (stream.events, stream.bytes) = (events, bytes);
}

/// Returns the CPUs whose announced pages did not arrive completely.
pub(crate) fn short_pages(directory: &Directory, summary: &Summary) -> Vec<Cpu> {
    if !summary.received {
        return Vec::new();
    }
    let came: HashMap<Cpu, u64> =
        unconverted(directory).iter().map(|stream| (stream.cpu, stream.unconverted)).collect();
    let is_short = |stream: &&KernelStream| stream.unconverted > came.get(&stream.cpu).copied().unwrap_or(0);
    summary.kernel.iter().filter(is_short).map(|stream| stream.cpu).collect()
}

/// Compares the received programs with the announced ones, and adds those that did not arrive at all.
pub(crate) fn account(came: &mut Vec<ProgramSummary>, announced: Vec<ProgramSummary>) {
    let mut here: BTreeMap<String, ProgramSummary> =
        came.drain(..).map(|program| (program.trace.clone(), program)).collect();
    for program in announced {
        let came = here.remove(&program.trace).unwrap_or_default();
        let mut streams: HashMap<Option<u32>, StreamSummary> =
            came.streams.into_iter().map(|stream| (stream.cpu, stream)).collect();
        let merged = program.streams.into_iter().map(|stream| {
            let nothing = StreamSummary { events: Some(0), ..StreamSummary::default() };
            merge(&streams.remove(&stream.cpu).unwrap_or(nothing), stream)
        });
        let merged = merged.collect();
        let notes = [program.notes, came.notes].concat();
        here.insert(program.trace.clone(), ProgramSummary { streams: merged, notes, ..program });
    }
    came.extend(here.into_values());
}

/// Combines a stream as its sender described it with the part that arrived.
fn merge(here: &StreamSummary, announced: StreamSummary) -> StreamSummary {
    let unreceived = announced.events.unwrap_or(0).saturating_sub(here.events.unwrap_or(0));
    let is_uncounted = announced.events.is_none() && here.bytes < announced.bytes;
    let uncounted = is_uncounted.then(|| "how much of it did not arrive is not known".to_owned());
    let problem = here.problem.clone().or(announced.problem).or(uncounted);
    StreamSummary { events: here.events, bytes: here.bytes, unreceived, problem, ..announced }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_arrive_is_counted_by_program_and_ring() {
        let stream =
            |cpu, events, bytes| StreamSummary { cpu: Some(cpu), events, bytes, ..StreamSummary::default() };
        let program = |trace: &str, streams| ProgramSummary {
            trace: trace.into(),
            streams,
            ..ProgramSummary::default()
        };
        let announced = vec![
            program(
                "user/a",
                vec![stream(0, Some(10), 4096), stream(1, Some(5), 4096), stream(2, None, 8192)],
            ),
            program("user/b", vec![stream(0, Some(3), 4096)]),
        ];
        let mut came = vec![program("user/a", vec![stream(0, Some(4), 4096), stream(2, Some(1), 4096)])];
        account(&mut came, announced);
        let missing: Vec<u64> = came.iter().flat_map(|of| &of.streams).map(|of| of.unreceived).collect();
        assert_eq!(missing, [6, 5, 0, 3]);
        assert_eq!(came[0].streams[1].events, Some(0));
        assert!(came[0].streams[2].problem.is_some());
    }
}
