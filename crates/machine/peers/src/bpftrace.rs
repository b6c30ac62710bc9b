//! bpftrace, which counts the hits of a statically defined tracepoint. Requires root.

use crate::Error;
use crate::command::bound;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A bpftrace process that counts hits.
#[derive(Debug)]
pub struct Counter {
    bpftrace: Child,
    /// Lines of bpftrace's output.
    lines: Receiver<String>,
}

const MISSING: Error = Error::Missing { what: "bpftrace", remedy: "apt install bpftrace" };

/// Timeout for attaching and ending.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of attempts: bpftrace sometimes attaches without running its BEGIN.
const TRIES: usize = 3;

impl Counter {
    /// Attaches to `npt:loop` in the provider `file`, in all processes that load it.
    ///
    /// # Errors
    /// Returns an error if bpftrace is not installed or cannot attach.
    pub fn attach(file: &Path) -> Result<Self, Error> {
        if Command::new("bpftrace").arg("--version").output().is_err() {
            return Err(MISSING);
        }
        let mut tried = Self::try_to_attach(file);
        for _ in 1..TRIES {
            if tried.is_ok() {
                break;
            }
            tried = Self::try_to_attach(file);
        }
        tried
    }

    fn try_to_attach(file: &Path) -> Result<Self, Error> {
        // BEGIN runs when all other probes are attached. bpftrace looks for tracefs at its usual mount point only.
        let program = format!(
            "usdt:{}:npt:loop {{ @hits = count(); }} BEGIN {{ printf(\"ready\\n\"); }}",
            file.display()
        );
        let mount = "[ -e /sys/kernel/tracing/events ] || mount -t tracefs nodev /sys/kernel/tracing; exec bpftrace -B line -e \"$1\" 2>&1";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", mount, "sh", &program]);
        // Ctrl-C must not end bpftrace: the parent handles it, and reads the count.
        bound(command.process_group(0), libc::SIGKILL).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut bpftrace = command.spawn().map_err(|error| Error::failed(&command, error))?;
        let output = bpftrace.stdout.take();
        let (sender, lines) = channel();
        thread::spawn(move || {
            let lines =
                output.into_iter().flat_map(|output| BufReader::new(output).lines()).map_while(Result::ok);
            lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        let counter = Self { bpftrace, lines };
        let mut output = String::new();
        loop {
            match counter.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == "ready" => return Ok(counter),
                Ok(line) => output = output + line.trim() + " ",
                Err(_) => return Err(failed(format!("it does not attach: {output}"))),
            }
        }
    }

    /// Ends bpftrace, and returns the number of hits.
    ///
    /// # Errors
    /// Returns an error if bpftrace prints no count.
    pub fn stop(self) -> Result<u64, Error> {
        self.interrupt();
        let mut output = String::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if let Some(count) = line.trim().strip_prefix("@hits: ").and_then(|count| count.parse().ok()) {
                return Ok(count);
            }
            output = output + line.trim() + " ";
        }
        Err(failed(format!("no count of hits in: {output}")))
    }

    fn interrupt(&self) {
        let _ = Command::new("kill").args(["-INT", &self.bpftrace.id().to_string()]).status();
    }
}

fn failed(text: String) -> Error {
    Error::Failed { command: "bpftrace".to_owned(), text }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if let Ok(None) = self.bpftrace.try_wait() {
            self.interrupt();
            // The output ends with the process. A process that never attached may ignore the signal.
            while self.lines.recv_timeout(PATIENCE).is_ok() {}
            let _ = self.bpftrace.kill();
            let _ = self.bpftrace.wait();
        }
    }
}
