//! What runs while the demo records.

use crate::Failure;
use crate::privilege::is_root;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use sordino_sched::{CpuList, set_affinity};
use std::ffi::OsString;
use std::fmt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How long npt runs.
pub(super) const LENGTH: Duration = Duration::from_secs(5);
/// When the load comes, the thread of higher priority, the timers, and the page faults, after npt's first loop or so.
const LOAD_AT: Duration = Duration::from_millis(500);
// Three times each: what a hypervisor takes the CPU for meanwhile can be the larger part of a gap.
const HOG_AT: &str = "800ms,1100ms,1400ms";
const TIMERS_AT: &str = "1800ms,2100ms,2400ms";
const FAULTS_AT: &str = "3200ms,3500ms,3800ms";
/// How long npt may take to its first loop: its rings' memory can be slow to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// The programs that the demo records, started and waited for by one that is not seen.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The CPU to disturb
    #[arg(long)]
    cpu: u32,
    /// npt's priority; 0: ordinary, and nothing but its page faults is planted
    #[arg(long)]
    prio: u8,
}

/// Where npt runs, and who else.
pub(super) struct Place {
    cpu: u32,
    /// Where everything else runs; `None` if there is only one CPU.
    other: Option<u32>,
    real_time: bool,
}

impl Place {
    /// The last CPU that this process may run on; the first is for all others.
    pub(super) fn choose() -> Result<Self, Failure> {
        let allowed = sordino_sched::affinity()?;
        let online = CpuList::online()?;
        let usable: Vec<u32> =
            allowed.as_slice().iter().copied().filter(|cpu| online.contains(*cpu)).collect();
        let cpu = usable.last().copied().unwrap_or(0);
        let other = usable.first().copied().filter(|first| *first != cpu);
        if other.is_none() {
            message!("sordino: only one CPU to run on: npt stays an ordinary thread, so that others can run");
        }
        if !is_root() {
            message!(
                "sordino: not root: no kernel events, no real-time priority; the gaps can't be explained \
                 (run 'sudo make demo' to see it all)"
            );
        }
        Ok(Self { cpu, other, real_time: other.is_some() && is_root() })
    }

    /// Whether the disturbances are planted and can be found.
    pub(super) fn is_measured(&self) -> bool {
        self.real_time
    }

    pub(super) fn load_options(&self) -> Vec<OsString> {
        let prio = if self.real_time { "90" } else { "0" };
        ["demo-load", "--cpu", &self.cpu.to_string(), "--prio", prio].map(OsString::from).to_vec()
    }

    /// The collector goes before the load, away from npt.
    pub(super) fn collector_options(&self) -> Vec<OsString> {
        match (self.real_time, self.other) {
            (true, Some(other)) => {
                ["--collector-cpu", &other.to_string(), "--collector-prio", "50"].map(OsString::from).to_vec()
            }
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.real_time { "SCHED_FIFO 90" } else { "an ordinary thread" };
        write!(f, "npt ({how}) on CPU {}", self.cpu)?;
        if is_root() {
            f.write_str(" and the kernel")?;
        }
        Ok(())
    }
}

/// Programs that end with this value.
struct Started(Vec<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // SIGTERM, which timeout(1) hands on to hackbench's processes.
            if let Ok(None) = child.try_wait() {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
            }
            let _ = child.wait();
        }
    }
}

/// Runs it all until npt's end; with npt's exit status.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let sordino = std::env::current_exe()?;
    let cpu = options.cpu.to_string();
    let start = |words: &[&str]| Command::new(&sordino).args(words).spawn();
    let (prio, length) = (options.prio.to_string(), format!("{}s", LENGTH.as_secs()));
    let npt = ["npt", "--cpu", &cpu, "--prio", &prio, "--pace", "1us", "--duration", &length];
    let mut npt = Started(vec![start(&[&npt[..], &["--faults-at", FAULTS_AT]].concat())?]);
    let mut others = Started(Vec::new());
    if options.prio > 0 && is_measuring_within(PATIENCE, &mut npt.0[0])? {
        let everywhere = sordino_sched::affinity()?;
        // Where npt runs, they would wait for the CPU before they can ask for their priority.
        set_affinity(&everywhere.without(&CpuList::new([options.cpu])))?;
        others.0.push(start(&["disturb", "hog", "--cpu", &cpu, "--at", HOG_AT, "--for", "3ms"])?);
        others.0.push(start(&["disturb", "timers", "--cpu", &cpu, "--at", TIMERS_AT, "--for", "400us"])?);
        set_affinity(&everywhere)?;
    }
    // The load comes when all the others run, so that it does not delay their start.
    std::thread::sleep(LOAD_AT);
    others.0.extend(hackbench());
    let status = npt.0[0].wait()?;
    drop(others);
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits until npt's loop runs; whether it does.
fn is_measuring_within(limit: Duration, npt: &mut Child) -> Result<bool, Failure> {
    let begin = Instant::now();
    while npt.try_wait()?.is_none() && begin.elapsed() < limit {
        if is_measuring(npt.id()) {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(false)
}

/// Whether the process has a real-time thread `npt`: it becomes one right before its first loop.
fn is_measuring(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stats = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    stats.into_iter().any(|stat| {
        // proc(5): the name in parentheses is field 2, the policy field 41.
        let after_name = stat.split_once("(npt) ").map(|(_, rest)| rest.split(' ').nth(38));
        after_name.flatten().is_some_and(|policy| policy == "1")
    })
}

/// Load on the whole machine, for a time that is bounded even if nobody ends it.
fn hackbench() -> Option<Child> {
    let limit = (3 * LENGTH).as_secs().to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", &limit, "hackbench", "--groups", "1", "--loops", "100000000"]);
    if sordino_collect::command::find("hackbench".as_ref()).is_err() {
        message!("sordino: not measured here: load, for there is no hackbench (install rt-tests)");
        return None;
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}
