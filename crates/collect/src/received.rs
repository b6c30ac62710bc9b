//! A recording that comes as a stream: a summary from the start, and what of the recording did not arrive.

use crate::Error;
use crate::count::whole_events_of;
use crate::directory::{Directory, KERNEL, SUMMARY};
use crate::recover::cut_trace;
use crate::summary::{KernelStream, ProgramSummary, SCHEMA, State, StreamSummary, Summary};
use sordino_ctf::read::Trace;
use sordino_dirfd::Dir;
use sordino_event::Classes;

/// Makes a directory a recording that is being received, with the summary that its sender `announced`: it can be recovered from now on.
///
/// # Errors
/// If the summary can't be written.
pub fn expect_recording(dir: &Dir, announced: Option<&[u8]>) -> Result<(), Error> {
    // One that makes no sense says nothing of what will come.
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

/// Cuts what came of the kernel's trace, and counts it.
pub(crate) fn recover_kernel(directory: &Directory, announced: &mut [KernelStream]) -> Result<(), Error> {
    let kernel = directory.part(KERNEL);
    let Ok(kernel) = kernel else {
        announced.iter_mut().for_each(|stream| kernel_stream(stream, 0, 0));
        return Ok(());
    };
    let cut = cut_trace(&kernel)?;
    let trace = Trace::open(directory.trace_path(KERNEL), &mut Classes::default()).ok();
    for stream in announced {
        let name = format!("cpu{}", stream.cpu);
        let bytes = cut.iter().find(|file| file.name == name).map_or(0, |file| file.bytes);
        let events = trace.as_ref().map_or(0, |trace| whole_events_of(trace, &name));
        kernel_stream(stream, events, bytes);
    }
    Ok(())
}

fn kernel_stream(stream: &mut KernelStream, events: u64, bytes: u64) {
    stream.unreceived = stream.events.saturating_sub(events);
    (stream.events, stream.bytes) = (events, bytes);
}

/// Compares the programs that came with those that were announced, and adds those that did not come at all.
pub(crate) fn account(came: &mut Vec<ProgramSummary>, announced: Vec<ProgramSummary>) {
    for program in announced {
        let here = came.iter().position(|here| here.trace == program.trace);
        let here = here.map_or(ProgramSummary::default(), |here| came.swap_remove(here));
        let nothing = StreamSummary { events: Some(0), ..StreamSummary::default() };
        let streams = program.streams.into_iter().map(|stream| {
            let here = here.streams.iter().find(|here| here.cpu == stream.cpu);
            merge(here.unwrap_or(&nothing), stream)
        });
        let streams = streams.collect();
        let notes = [program.notes, here.notes].concat();
        came.push(ProgramSummary { streams, notes, ..program });
    }
    came.sort_by(|one, other| one.trace.cmp(&other.trace));
}

/// What its sender knew of a stream, and how much of that came.
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
