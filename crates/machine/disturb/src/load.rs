//! The programs that run while the demo records.

use crate::Error;
use rustix::process::{Pid, Signal, kill_process};
use sordino_proc::stat::Stat;
use sordino_sched::{CpuList, is_root, set_affinity};
use std::ffi::OsString;
use std::fmt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Duration of npt's run.
pub const LENGTH: Duration = Duration::from_secs(5);
/// Time from the start of the disturbing programs to that of the load.
const LOAD_AT: Duration = Duration::from_millis(500);
// The disturbances' times: of the hog and the timers after the start of their programs, of the faults after npt's first
// loop. Three of each, because a hypervisor may cause the larger part of a gap.
const HOG_AT: &str = "800ms,1100ms,1400ms";
const TIMERS_AT: &str = "1800ms,2100ms,2400ms";
const FAULTS_AT: &str = "3200ms,3500ms,3800ms";
/// Most time until npt's first loop: memory for its rings may take long.
const PATIENCE: Duration = Duration::from_secs(30);

/// The CPUs of npt and of everything else.
pub struct DemoCpus {
    cpu: u32,
    /// The CPU for everything else; `None` if there is only one CPU.
    other: Option<u32>,
    real_time: bool,
}

impl DemoCpus {
    /// Chooses the last CPU on which this process may run; the first is for everything else.
    ///
    /// # Errors
    /// The CPUs are not known.
    pub fn choose(remark: &dyn Fn(&str)) -> Result<Self, Error> {
        let allowed = sordino_sched::affinity()?;
        let online = CpuList::online()?;
        let usable: Vec<u32> =
            allowed.as_slice().iter().copied().filter(|cpu| online.contains(*cpu)).collect();
        let cpu = usable.last().copied().unwrap_or(0);
        let other = usable.first().copied().filter(|first| *first != cpu);
        if other.is_none() {
            remark("only one CPU to run on: npt stays an ordinary thread, so that others can run");
        }
        if !is_root() {
            remark(
                "not root: no kernel events, no real-time priority; the gaps can't be explained \
                 (run 'sudo make demo' to see it all)",
            );
        }
        Ok(Self { cpu, other, real_time: other.is_some() && is_root() })
    }

    /// Returns true if the disturbances are planted and can be found.
    pub fn is_measured(&self) -> bool {
        self.real_time
    }

    /// Returns the words of the command that runs the programs.
    pub fn load_options(&self) -> Vec<OsString> {
        let prio = if self.real_time { "90" } else { "0" };
        ["demo-load", "--cpu", &self.cpu.to_string(), "--prio", prio].map(OsString::from).to_vec()
    }

    /// Returns the options that give the collector priority over the load, on another CPU than npt.
    pub fn collector_options(&self) -> Vec<OsString> {
        match (self.real_time, self.other) {
            (true, Some(other)) => {
                ["--collector-cpu", &other.to_string(), "--collector-prio", "50"].map(OsString::from).to_vec()
            }
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for DemoCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.real_time { "SCHED_FIFO 90" } else { "an ordinary thread" };
        write!(f, "npt ({how}) on CPU {}", self.cpu)?;
        if is_root() {
            f.write_str(" and the kernel")?;
        }
        Ok(())
    }
}

/// Programs that are ended when this value is dropped.
struct Started(Vec<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // timeout(1) forwards SIGTERM to hackbench's processes.
            if let Ok(None) = child.try_wait() {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
            }
            let _ = child.wait();
        }
    }
}

/// Runs all programs until npt ends: npt on `cpu` with this priority, or as an ordinary thread for 0, and then only its
/// page faults are planted. Returns true if npt succeeds.
///
/// # Errors
/// A program can't be started.
pub fn run_demo_load(cpu: u32, priority: u8, remark: &dyn Fn(&str)) -> Result<bool, Error> {
    let sordino = std::env::current_exe()?;
    let number = cpu;
    let cpu = cpu.to_string();
    let start = |words: &[&str]| Command::new(&sordino).args(words).spawn();
    let (prio, length) = (priority.to_string(), format!("{}s", LENGTH.as_secs()));
    let npt = ["npt", "--cpu", &cpu, "--prio", &prio, "--pace", "1us", "--duration", &length];
    let mut npt = Started(vec![start(&[&npt[..], &["--faults-at", FAULTS_AT]].concat())?]);
    let mut others = Started(Vec::new());
    if priority > 0 && is_measuring_within(PATIENCE, &mut npt.0[0])? {
        let everywhere = sordino_sched::affinity()?;
        // On npt's CPU, they would wait for the CPU before they can request their priority.
        set_affinity(&everywhere.without(&CpuList::new([number])))?;
        others.0.push(start(&["disturb", "hog", "--cpu", &cpu, "--at", HOG_AT, "--for", "3ms"])?);
        others.0.push(start(&["disturb", "timers", "--cpu", &cpu, "--at", TIMERS_AT, "--for", "400us"])?);
        set_affinity(&everywhere)?;
    }
    // The load starts last, so that it does not delay the others.
    std::thread::sleep(LOAD_AT);
    others.0.extend(hackbench(remark));
    let status = npt.0[0].wait()?;
    drop(others);
    Ok(status.success())
}

/// Waits until npt's loop runs. Returns false if it does not within `limit`.
fn is_measuring_within(limit: Duration, npt: &mut Child) -> Result<bool, Error> {
    let begin = Instant::now();
    while npt.try_wait()?.is_none() && begin.elapsed() < limit {
        if is_measuring(npt.id()) {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(false)
}

/// Returns true if the process has a real-time thread `npt`: it becomes one right before its first loop.
fn is_measuring(pid: u32) -> bool {
    let is_it = |tid| {
        let text = sordino_proc::file::of_thread(pid.cast_signed(), tid, "stat").unwrap_or_default();
        // Field 41 is the policy: 1 is SCHED_FIFO.
        Stat::parse(&text).is_some_and(|stat| stat.comm == "npt" && stat.field(41) == "1")
    };
    sordino_proc::list::tids(pid.cast_signed()).any(is_it)
}

/// Starts load on the whole machine, for a bounded time even if it is not ended.
fn hackbench(remark: &dyn Fn(&str)) -> Option<Child> {
    let limit = (3 * LENGTH).as_secs().to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", &limit, "hackbench", "--groups", "1", "--loops", "100000000"]);
    if sordino_sched::find_program("hackbench".as_ref()).is_err() {
        remark("not measured here: load, for there is no hackbench (install rt-tests)");
        return None;
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}
