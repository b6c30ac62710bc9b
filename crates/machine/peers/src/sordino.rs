//! Programs that are run under `sordino record`.

use crate::{CollectorPolling, Error, KernelEvents, output_of};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Result of a recording.
#[derive(Debug)]
pub struct RecordingResult {
    /// Standard output of the program.
    pub output: String,
    /// Number of lost records, the kernel's included.
    pub lost: u64,
    /// CPU time of the collector in seconds.
    pub collector_seconds: f64,
    /// Number of the program's events.
    pub events: u64,
}

/// Options of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Recorder<'a> {
    /// Path of the program `sordino`.
    pub sordino: &'a Path,
    /// Rule that selects the tracepoints.
    pub rule: &'a str,
    /// Way in which the collector notices full sub-buffers.
    pub polling: CollectorPolling,
    /// CPU of the collector.
    pub cpu: u32,
    /// Kernel events to record, in buffers of 128 MiB for each CPU.
    pub kernel: KernelEvents,
    /// True to run the program as root, if the recorder itself runs as root.
    pub as_root: bool,
}

impl Recorder<'_> {
    /// Records `command` into `directory`.
    ///
    /// # Errors
    /// Returns an error if the recorder or the command fails.
    pub fn record(&self, directory: &Path, command: &[&str]) -> Result<RecordingResult, Error> {
        let mut record = Command::new(self.sordino);
        record.args(["record", "--json", "--user", self.rule, "--collector-cpu"]).arg(self.cpu.to_string());
        match self.polling {
            CollectorPolling::Timer => record.args(["--read-timer", "200us"]),
            CollectorPolling::Between => {
                record.args(["--read-timer", "20ms", "--subbuf-size", "128M", "--num-subbuf", "2"])
            }
            CollectorPolling::Wakeup => record.arg("--wakeup"),
            CollectorPolling::Busy => record.arg("--busy"),
            CollectorPolling::Default => &mut record,
        };
        match self.kernel {
            KernelEvents::Nothing => &mut record,
            KernelEvents::SystemCalls => record.args(["--kernel", "raw_syscalls", "--kernel-buffer", "128M"]),
            KernelEvents::Everything => record.args(["--kernel", "*", "--kernel-buffer", "128M"]),
        };
        if self.as_root {
            record.args(["--as", "root"]);
        }
        record.arg("-o").arg(directory).arg("--").args(command);
        let text = output_of(&mut record)?;
        recorded(&text).ok_or_else(|| Error::failed(&record, format!("no summary in: {text}")))
    }
}

/// Parses the output of program and recorder, whose last line is the recorder's summary.
fn recorded(text: &str) -> Option<RecordingResult> {
    let mut lines: Vec<&str> = text.lines().collect();
    let summary: Value = serde_json::from_str(lines.pop()?).ok()?;
    let streams = summary["programs"].as_array().into_iter().flatten();
    let streams = streams.flat_map(|program| program["streams"].as_array().into_iter().flatten());
    Some(RecordingResult {
        output: lines.join("\n"),
        lost: summary["lost"].as_u64()?,
        collector_seconds: summary["collector_cpu_seconds"].as_f64().unwrap_or(f64::NAN),
        events: streams.map(|stream| stream["events"].as_u64().unwrap_or(0)).sum(),
    })
}
