//! LTTng's daemons and sessions: 32 sub-buffers of 1 MiB for programs, and of 4 MiB for the kernel, as in the papers.

use crate::command::bound;
use crate::{CollectorPolling, Error, KernelEvents, output_of};
use sordino_proc::file::of_process;
use sordino_proc::list::pids;
use sordino_proc::machine::kernel_release;
use sordino_proc::stat::Stat;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TOOLS: Error = Error::Missing { what: "LTTng", remedy: "apt install lttng-tools liblttng-ust-dev" };
const MODULES: Error =
    Error::Missing { what: "LTTng's kernel tracer", remedy: "apt install lttng-modules-dkms" };

/// LTTng's daemons, with a home directory of their own.
#[derive(Debug)]
pub struct Lttng {
    home: tempfile::TempDir,
    daemon: Child,
    sessions: usize,
}

/// A session that was started.
#[derive(Debug)]
pub struct Session<'a> {
    lttng: &'a Lttng,
    name: String,
}

/// Checks that LTTng's kernel modules are loaded or can be.
///
/// # Errors
/// Returns an error that names the package if they are not installed.
pub fn has_modules() -> Result<(), Error> {
    let index = format!("/lib/modules/{}/modules.dep", kernel_release());
    let installed = fs::read_to_string(index).unwrap_or_default().contains("lttng-tracer.ko");
    if installed || Path::new("/sys/module/lttng_tracer").exists() { Ok(()) } else { Err(MODULES) }
}

impl Lttng {
    /// Starts the daemons on `cpu`, with a home directory in `place`, and with the kernel tracer if `kernel` is true.
    /// They end with the calling thread at the latest.
    ///
    /// # Errors
    /// Names the package if LTTng is not installed.
    pub fn start(cpu: u32, kernel: bool, place: &Path) -> Result<Self, Error> {
        let home = tempfile::tempdir_in(place).map_err(Error::io("a temporary directory"))?;
        if let Err(error) = Command::new("lttng").arg("--version").output() {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            return Err(if is_missing { TOOLS } else { Error::io("lttng")(error) });
        }
        if kernel {
            has_modules()?;
        }
        let mut daemon = Command::new("taskset");
        daemon.args(["--cpu-list", &cpu.to_string(), "lttng-sessiond"]);
        if !kernel {
            daemon.arg("--no-kernel");
        }
        // Ctrl-C must not end the daemons: the parent handles it, and ends them in order.
        environment(bound(daemon.process_group(0), libc::SIGTERM), home.path());
        let daemon = daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let lttng = Self { home, daemon: daemon.map_err(Error::io("lttng-sessiond"))?, sessions: 0 };
        let begin = Instant::now();
        while let Err(error) = lttng.run(&["list"]) {
            if begin.elapsed() > Duration::from_secs(20) {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(lttng)
    }

    fn run(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = Command::new("lttng");
        environment(command.args(arguments), self.home.path());
        output_of(&mut command)
    }

    /// Starts recording the tracepoint `event` and the kernel's events into `directory`.
    ///
    /// # Errors
    /// The error text of `lttng`.
    pub fn session(
        &mut self,
        event: &str,
        polling: CollectorPolling,
        kernel: KernelEvents,
        directory: &Path,
    ) -> Result<Session<'_>, Error> {
        self.sessions += 1;
        let name = format!("sordino{}", self.sessions);
        let output = format!("--output={}", directory.display());
        self.run(&["create", &name, &output])?;
        // The timer is in microseconds; 0 is LTTng's default, no timer.
        let timer = if polling == CollectorPolling::Timer { "--read-timer=200" } else { "--read-timer=0" };
        let (size, count) = ("--subbuf-size=1M", "--num-subbuf=32");
        self.run(&["enable-channel", "--userspace", "--session", &name, size, count, timer, "channel"])?;
        self.run(&["enable-event", "--userspace", "--session", &name, "--channel", "channel", event])?;
        if kernel != KernelEvents::Nothing {
            let size = "--subbuf-size=4M";
            self.run(&["enable-channel", "--kernel", "--session", &name, size, count, timer, "kernel"])?;
            let which: &[&str] =
                if kernel == KernelEvents::SystemCalls { &["--syscall", "--all"] } else { &["--all"] };
            let enable = ["enable-event", "--kernel", "--session", &name, "--channel", "kernel"];
            self.run(&[&enable[..], which].concat())?;
        }
        self.run(&["start", &name])?;
        Ok(Session { lttng: self, name })
    }
}

impl Session<'_> {
    /// Runs a program that is linked with LTTng, and returns its output.
    ///
    /// # Errors
    /// Returns an error if the program fails.
    pub fn run(&self, command: &[&str]) -> Result<String, Error> {
        let (program, arguments) = command.split_first().unwrap_or((&"", &[]));
        let mut command = Command::new(program);
        environment(command.args(arguments), self.lttng.home.path());
        output_of(&mut command)
    }

    /// Returns the CPU time of the consumer daemons so far, in seconds.
    pub fn consumer_seconds(&self) -> f64 {
        let ticks: u64 = consumers().iter().filter_map(|&pid| cpu_ticks(pid)).sum();
        ticks as f64 / 100.0
    }

    /// Ends the session, and returns the number of events that it discarded.
    ///
    /// # Errors
    /// The error text of `lttng`.
    pub fn stop(self) -> Result<u64, Error> {
        self.lttng.run(&["stop", &self.name])?;
        let text = self.lttng.run(&["list", &self.name])?;
        let discarded = text.lines().filter_map(|line| line.split_once("Discarded events:"));
        let discarded = discarded.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum();
        self.lttng.run(&["destroy", &self.name])?;
        Ok(discarded)
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        // On SIGTERM, the daemon ends its consumer daemons itself.
        let _ = Command::new("kill").arg(self.daemon.id().to_string()).status();
        let _ = self.daemon.wait();
    }
}

/// Counts the events of the trace `directory` with babeltrace2.
///
/// # Errors
/// Returns an error if babeltrace2 is not installed or cannot read the trace.
pub fn count(directory: &Path) -> Result<u64, Error> {
    let mut read = Command::new("babeltrace2");
    read.arg(directory).args(["--component", "sink.utils.counter", "--params=step=+0"]).env("LC_ALL", "C");
    let text = crate::command::output_of_package(&mut read, "babeltrace2", "apt install babeltrace2")?;
    counted(&text).ok_or_else(|| Error::failed(&read, format!("no count of events in: {text}")))
}

/// Parses the counter's last output: `    1000 Event messages`, or `1 Event message`.
fn counted(text: &str) -> Option<u64> {
    let lines = text.lines().rev().filter_map(|line| line.trim().split_once(" Event message"));
    lines.map(|(count, _)| count).next()?.trim().parse().ok()
}

fn environment(command: &mut Command, home: &Path) {
    command.env("LTTNG_HOME", home).env("LTTNG_UST_REGISTER_TIMEOUT", "5000");
}

/// The consumer daemons' processes.
fn consumers() -> Vec<i32> {
    let is_consumer =
        |pid: &i32| of_process(*pid, "comm").is_ok_and(|name| name.starts_with("lttng-consumer"));
    pids().filter(is_consumer).collect()
}

/// User and system time of a process in hundredths of a second: fields 14 and 15 of its `stat`.
fn cpu_ticks(pid: i32) -> Option<u64> {
    let text = of_process(pid, "stat").ok()?;
    let stat = Stat::parse(&text)?;
    Some(stat.number::<u64>(14)? + stat.number::<u64>(15)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_count_is_the_traces() {
        let text = "    7 Event messages\n    0 Discarded events messages\n\n   12 Event messages\n   14 messages (TOTAL)\n";
        assert_eq!(counted(text), Some(12));
        assert_eq!(counted("1 Event message\n"), Some(1));
        assert_eq!(counted("none"), None);
    }
}
