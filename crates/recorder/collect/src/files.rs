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
    /// that each has. Files that are empty when nothing was recorded are left out.
    pub fn files(&self) -> impl Iterator<Item = (String, u64)> {
        let of_kernel = |stream: &KernelStream| (format!("{KERNEL}/cpu{}", stream.cpu), stream.bytes);
        let kernel = self.kernel.first().map(|_| (format!("{KERNEL}/metadata"), 1));
        let kernel = kernel.into_iter().chain(self.kernel.iter().map(of_kernel));
        let programs = self.programs.iter().filter(|program| is_in_recording(&program.trace));
        let programs = programs.flat_map(|program| {
            let of_ring = |stream: &StreamSummary| (stream.file_name(), stream.bytes);
            let files = program.streams.iter().map(of_ring).chain([("metadata".to_owned(), 1)]);
            files.map(|(file, bytes)| (format!("{}/{file}", program.trace), bytes))
        });
        kernel.chain(programs).filter(|(_, bytes)| *bytes > 0)
    }
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

    #[test]
    fn files_are_those_of_traces_within_the_recording() {
        let stream = |cpu, bytes| StreamSummary { cpu, bytes, ..StreamSummary::default() };
        let program = |trace: &str, streams| ProgramSummary {
            trace: trace.to_owned(),
            streams,
            ..ProgramSummary::default()
        };
        let summary = Summary {
            kernel: vec![KernelStream { cpu: 2, bytes: 9, ..KernelStream::default() }],
            programs: vec![
                program("user/0001-a-5", vec![stream(Some(1), 8), stream(Some(3), 0), stream(None, 7)]),
                program("user/../../b", vec![stream(Some(1), 8)]),
                program("", vec![]),
            ],
            ..Summary::default()
        };
        let expected = [
            ("kernel/metadata", 1),
            ("kernel/cpu2", 9),
            ("user/0001-a-5/cpu1", 8),
            ("user/0001-a-5/shared", 7),
            ("user/0001-a-5/metadata", 1),
        ];
        assert_eq!(
            summary.files().collect::<Vec<_>>(),
            expected.map(|(name, bytes)| (name.to_owned(), bytes))
        );
        assert_eq!(Summary::default().files().count(), 0);
    }
}
