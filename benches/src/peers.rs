//! The tracers, each started the same way: 32 sub-buffers of 1 MiB, a collector on its own CPU.

use crate::programs::output_of;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The CPU of collectors; measuring programs run on the other one.
pub(crate) const COLLECTOR_CPU: u32 = 0;
/// The CPU of measuring programs.
pub(crate) const PROGRAM_CPU: u32 = 1;

/// What a recording of sordino's came to.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// What the program printed.
    pub(crate) output: String,
    pub(crate) lost: u64,
    pub(crate) collector_seconds: f64,
    pub(crate) events: u64,
}

/// How the collectors learn of full sub-buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polling {
    /// They look every 200 us.
    Timer,
    /// Seldom, with rings that hold a whole burst: writers and the collector are not at work at the same time.
    Between,
    /// As they do when nothing is said: sordino on a timer that follows the size of the rings, LTTng-UST woken by the
    /// program.
    Default,
}

/// Runs a program under `sordino record`, into `directory`.
pub(crate) fn sordino(
    sordino: &Path,
    polling: Polling,
    directory: &Path,
    command: &[&str],
) -> Result<Recorded, String> {
    let mut record = Command::new(sordino);
    record
        .args(["record", "--json", "--user", "bench:two", "--collector-cpu"])
        .arg(COLLECTOR_CPU.to_string());
    match polling {
        Polling::Timer => record.args(["--read-timer", "200us"]),
        Polling::Between => {
            record.args(["--read-timer", "20ms", "--subbuf-size", "128M", "--num-subbuf", "2"])
        }
        Polling::Default => &mut record,
    };
    record.arg("-o").arg(directory).arg("--").args(command);
    let text = output_of(&mut record)?;
    let mut lines: Vec<&str> = text.lines().collect();
    let summary: Value =
        serde_json::from_str(lines.pop().unwrap_or_default()).map_err(|error| error.to_string())?;
    let streams = summary["programs"].as_array().into_iter().flatten();
    let streams = streams.flat_map(|program| program["streams"].as_array().into_iter().flatten());
    Ok(Recorded {
        output: lines.join("\n"),
        lost: summary["lost"].as_u64().unwrap_or(u64::MAX),
        collector_seconds: summary["collector_cpu_seconds"].as_f64().unwrap_or(f64::NAN),
        events: streams.map(|stream| stream["events"].as_u64().unwrap_or(0)).sum(),
    })
}

/// LTTng's daemons, under a home of their own.
#[derive(Debug)]
pub(crate) struct Lttng {
    home: tempfile::TempDir,
    daemon: Child,
    sessions: usize,
}

/// One of its sessions, started.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    lttng: &'a Lttng,
    name: String,
}

impl Lttng {
    pub(crate) fn start() -> Result<Self, String> {
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut daemon = Command::new("taskset");
        daemon.args(["--cpu-list", &COLLECTOR_CPU.to_string(), "lttng-sessiond", "--no-kernel"]);
        environment(&mut daemon, home.path());
        let daemon = daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let daemon = daemon.map_err(|error| format!("lttng-sessiond: {error} (package lttng-tools)"))?;
        let lttng = Self { home, daemon, sessions: 0 };
        let begin = Instant::now();
        while lttng.run(&["list"]).is_err() {
            if begin.elapsed() > Duration::from_secs(20) {
                return Err("lttng-sessiond does not answer".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(lttng)
    }

    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("lttng");
        environment(command.args(arguments), self.home.path());
        output_of(&mut command)
    }

    /// Records `bench:two` into `directory` from now on.
    pub(crate) fn session(&mut self, polling: Polling, directory: &Path) -> Result<Session<'_>, String> {
        self.sessions += 1;
        let name = format!("bench{}", self.sessions);
        let output = format!("--output={}", directory.display());
        self.run(&["create", &name, &output])?;
        // In microseconds; 0 is LTTng's default, no timer.
        let timer = if polling == Polling::Timer { "--read-timer=200" } else { "--read-timer=0" };
        let (size, count) = ("--subbuf-size=1M", "--num-subbuf=32");
        self.run(&["enable-channel", "--userspace", "--session", &name, size, count, timer, "channel"])?;
        self.run(&["enable-event", "--userspace", "--session", &name, "--channel", "channel", "bench:two"])?;
        self.run(&["start", &name])?;
        Ok(Session { lttng: self, name })
    }
}

impl Session<'_> {
    /// Runs a program that is linked with LTTng; what it printed.
    pub(crate) fn run(&self, command: &[&str]) -> Result<String, String> {
        let (program, arguments) = command.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        environment(command.args(arguments), self.lttng.home.path());
        output_of(&mut command)
    }

    /// CPU time of the consumer daemons so far, in seconds.
    pub(crate) fn consumer_seconds(&self) -> f64 {
        let ticks: u64 = consumers().iter().filter_map(|stat| cpu_ticks(stat)).sum();
        ticks as f64 / 100.0
    }

    /// Ends it; how many events it discarded.
    pub(crate) fn stop(self) -> Result<u64, String> {
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
        // It ends its consumer daemons itself when it is asked to end.
        let _ = Command::new("kill").arg(self.daemon.id().to_string()).status();
        let _ = self.daemon.wait();
    }
}

fn environment(command: &mut Command, home: &Path) {
    command.env("LTTNG_HOME", home).env("LTTNG_UST_REGISTER_TIMEOUT", "5000");
}

/// What `/proc` says of the consumer daemons.
fn consumers() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_consumer = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim_end().starts_with("lttng-consumer"))
    };
    entries.filter(is_consumer).map(|path| path.join("stat")).collect()
}

/// User and system time, in hundredths of a second: fields 14 and 15.
fn cpu_ticks(stat: &Path) -> Option<u64> {
    let text = fs::read_to_string(stat).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}
