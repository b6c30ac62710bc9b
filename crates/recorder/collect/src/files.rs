//! The files of a recording's traces, as its summary lists them.

use crate::directory::{KERNEL, USER};
use crate::summary::{KernelStream, StreamSummary, Summary};
use std::path::{Component, Path};

impl StreamSummary {
    /// Returns the name of its file, in the directory of its trace.
    pub fn file_name(&self) -> String {
        self.cpu.map_or("shared".to_owned(), |cpu| format!("cpu{cpu}"))
    }
}

impl Summary {
    /// Returns the files that the recorder wrote, relative to the recording's directory, with the least number of bytes
    /// that each has. Files of traces without events are left out.
    pub fn files(&self) -> impl Iterator<Item = (String, u64)> {
        let of_cpu = |stream: &KernelStream| (format!("cpu{}", stream.cpu), stream.bytes);
        let of_ring = |stream: &StreamSummary| (stream.file_name(), stream.bytes);
        let kernel = files_of(KERNEL, self.kernel.iter().map(of_cpu));
        let programs = self.programs.iter().filter(|program| is_in_recording(&program.trace));
        kernel.chain(
            programs.flat_map(move |program| files_of(&program.trace, program.streams.iter().map(of_ring))),
        )
    }
}

/// Returns the files of a trace that has events, from those of its streams.
fn files_of(
    trace: &str,
    streams: impl Iterator<Item = (String, u64)> + Clone,
) -> impl Iterator<Item = (String, u64)> {
    let streams = streams.filter(|(_, bytes)| *bytes > 0);
    let metadata = streams.clone().next().map(|_| ("metadata".to_owned(), 1));
    metadata.into_iter().chain(streams).map(move |(file, bytes)| (format!("{trace}/{file}"), bytes))
}

/// Returns true if a path is that of a program's trace, below the recording's directory. The names of a trace that came
/// as a stream were chosen by another machine.
pub(crate) fn is_in_recording(trace: &str) -> bool {
    let mut names = Path::new(trace).components();
    names.next() == Some(Component::Normal(USER.as_ref()))
        && names.all(|name| matches!(name, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::ProgramSummary;
    use sordino_event::Cpu;

    #[test]
    fn files_are_those_of_traces_within_the_recording() {
        let stream = |cpu, bytes| StreamSummary { cpu, bytes, ..StreamSummary::default() };
        let program = |trace: &str, streams| ProgramSummary {
            trace: trace.to_owned(),
            streams,
            ..ProgramSummary::default()
        };
        let summary = Summary {
            kernel: vec![KernelStream { bytes: 9, ..KernelStream::of(Cpu(2)) }],
            programs: vec![
                program("user/0001-a-5", vec![stream(Some(1), 8), stream(Some(3), 0), stream(None, 7)]),
                program("user/../../b", vec![stream(Some(1), 8)]),
                program("user/0002-c-6", vec![stream(Some(1), 0)]),
            ],
            ..Summary::default()
        };
        let expected = [
            ("kernel/metadata", 1),
            ("kernel/cpu2", 9),
            ("user/0001-a-5/metadata", 1),
            ("user/0001-a-5/cpu1", 8),
            ("user/0001-a-5/shared", 7),
        ];
        assert_eq!(
            summary.files().collect::<Vec<_>>(),
            expected.map(|(name, bytes)| (name.to_owned(), bytes))
        );
        assert_eq!(Summary::default().files().count(), 0);
    }
}
