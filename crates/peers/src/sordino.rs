//! Programs under `sordino record`.

use crate::{Error, Kernel, Polling, output_of};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What a recording came to.
#[derive(Debug)]
pub struct Recorded {
    /// What the program printed.
    pub output: String,
    /// Records that were lost, the kernel's among them.
    pub lost: u64,
    /// The collector's CPU time.
    pub collector_seconds: f64,
    /// The program's events.
    pub events: u64,
}

/// How to record.
#[derive(Clone, Copy, Debug)]
pub struct Recorder<'a> {
    /// `sordino`.
    pub sordino: &'a Path,
    /// The tracepoints' rule.
    pub rule: &'a str,
    /// How the collector learns of full sub-buffers.
    pub polling: Polling,
    /// Its CPU.
    pub cpu: u32,
    /// The kernel's events, in buffers of 128 MiB for each CPU.
    pub kernel: Kernel,
    /// Whether the program is to run as root, by whom this is run then.
    pub as_root: bool,
}

impl Recorder<'_> {
    /// Records `command` into `directory`.
    ///
    /// # Errors
    /// If the recorder or the command fails.
    pub fn record(&self, directory: &Path, command: &[&str]) -> Result<Recorded, Error> {
        let mut record = Command::new(self.sordino);
        record.args(["record", "--json", "--user", self.rule, "--collector-cpu"]).arg(self.cpu.to_string());
        match self.polling {
            Polling::Timer => record.args(["--read-timer", "200us"]),
            Polling::Between => {
                record.args(["--read-timer", "20ms", "--subbuf-size", "128M", "--num-subbuf", "2"])
            }
            Polling::Wakeup => record.arg("--wakeup"),
            Polling::Busy => record.arg("--busy"),
            Polling::Default => &mut record,
        };
        match self.kernel {
            Kernel::Nothing => &mut record,
            Kernel::SystemCalls => record.args(["--kernel", "raw_syscalls", "--kernel-buffer", "128M"]),
            Kernel::Everything => record.args(["--kernel", "*", "--kernel-buffer", "128M"]),
        };
        if self.as_root {
            record.args(["--as", "root"]);
        }
        record.arg("-o").arg(directory).arg("--").args(command);
        let text = output_of(&mut record)?;
        recorded(&text).ok_or_else(|| Error::failed(&record, format!("no summary in: {text}")))
    }
}

/// From what recorder and program printed: the last line is the recorder's summary.
fn recorded(text: &str) -> Option<Recorded> {
    let mut lines: Vec<&str> = text.lines().collect();
    let summary: Value = serde_json::from_str(lines.pop()?).ok()?;
    let streams = summary["programs"].as_array().into_iter().flatten();
    let streams = streams.flat_map(|program| program["streams"].as_array().into_iter().flatten());
    Some(Recorded {
        output: lines.join("\n"),
        lost: summary["lost"].as_u64()?,
        collector_seconds: summary["collector_cpu_seconds"].as_f64().unwrap_or(f64::NAN),
        events: streams.map(|stream| stream["events"].as_u64().unwrap_or(0)).sum(),
    })
}
