//! What runs while the demo records.

use crate::Failure;
use crate::privilege::is_root;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use sordino_sched::CpuList;
use std::ffi::OsString;
use std::fmt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// How long npt runs.
pub(super) const LENGTH: Duration = Duration::from_secs(5);
/// When the load comes, the thread of higher priority, the timers, and the page faults.
const LOAD_AT: Duration = Duration::from_millis(700);
// Three times each: what a hypervisor takes the CPU for meanwhile can be the larger part of a gap.
const HOG_AT: [&str; 3] = ["1200ms", "1500ms", "1800ms"];
const TIMERS_AT: [&str; 3] = ["2200ms", "2500ms", "2800ms"];
const FAULTS_AT: &str = "3500ms";

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
            eprintln!(
                "sordino: only one CPU to run on: npt stays an ordinary thread, so that others can run"
            );
        }
        if !is_root() {
            eprintln!(
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
    let mut others = Started(Vec::new());
    if options.prio > 0 {
        for at in HOG_AT {
            others.0.push(start(&["disturb", "hog", "--cpu", &cpu, "--at", at, "--for", "3ms"])?);
        }
        for at in TIMERS_AT {
            others.0.push(start(&["disturb", "timers", "--cpu", &cpu, "--at", at, "--for", "400us"])?);
        }
    }
    let npt = ["npt", "--cpu", &cpu, "--prio", &prio, "--pace", "1us", "--duration", &length];
    let mut npt = Started(vec![start(&[&npt[..], &["--faults-at", FAULTS_AT]].concat())?]);
    // The load comes when all the others run, so that it does not delay their start.
    std::thread::sleep(LOAD_AT);
    others.0.extend(hackbench());
    let status = npt.0[0].wait()?;
    drop(others);
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Load on the whole machine, for a time that is bounded even if nobody ends it.
fn hackbench() -> Option<Child> {
    let limit = (3 * LENGTH).as_secs().to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", &limit, "hackbench", "--groups", "1", "--loops", "100000000"]);
    if sordino_collect::command::find("hackbench".as_ref()).is_err() {
        eprintln!("sordino: not measured here: load, for there is no hackbench (install rt-tests)");
        return None;
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}
