//! State of the machine that tests could leave changed.

use crate::lttng::is_lttngs;
use sordino_tracefs::Tracefs;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Settings, files, mounts and processes that a test has to leave unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineState {
    /// Kernel's limit on the run time of real-time threads, `sched_rt_runtime_us`.
    throttle: String,
    /// Files in `/dev/shm` except LTTng's: other users' daemons start and stop, and
    /// [`stop`](crate::lttng::LttngDaemon::stop) removes the files of the test's own.
    shared_memory: BTreeSet<PathBuf>,
    /// Mounts below the test's directory.
    mounts: Vec<String>,
    /// Tracing instances of recorders that have ended or belong to the test.
    instances: BTreeSet<String>,
    /// Processes whose program lies in the test's directory or is the installed one.
    processes: Vec<(i32, PathBuf)>,
}

impl MachineState {
    /// Reads the present state. Recorders that other people run are left out.
    pub fn now(directory: &Path, installed: &Path) -> Self {
        let entries =
            |path: &str| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let program = |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).ok();
        let is_ours = |program: &PathBuf| program.starts_with(directory) || program.starts_with(installed);
        let is_left = |instance: &String| {
            let recorder = instance.strip_prefix("sordino-").and_then(|pid| pid.parse().ok());
            recorder.is_some_and(|pid| program(pid).is_none_or(|program| is_ours(&program)))
        };
        let shown = directory.to_string_lossy();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let pids = entries("/proc").filter_map(|path| path.file_name()?.to_str()?.parse().ok());
        let processes = pids.filter_map(|pid| Some((pid, program(pid).filter(is_ours)?)));
        let instances = Tracefs::open().and_then(|tracefs| tracefs.instances()).unwrap_or_default();
        Self {
            throttle: fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default(),
            shared_memory: entries("/dev/shm").filter(|path| !is_lttngs(path)).collect(),
            mounts: mounts.lines().filter(|line| line.contains(&*shown)).map(str::to_owned).collect(),
            instances: instances.into_iter().filter(is_left).collect(),
            processes: processes.collect(),
        }
    }
}

/// Returns the memory that the areas of a program occupy, in KiB.
pub fn area_kib(pid: i32) -> u64 {
    let files =
        fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_area =
        |path: &PathBuf| fs::read_link(path).is_ok_and(|link| link.starts_with("/memfd:sordino (deleted)"));
    files.filter(is_area).map(|path| fs::metadata(path).map_or(0, |file| file.blocks() / 2)).sum()
}
