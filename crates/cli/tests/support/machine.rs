//! What tests could leave behind on a machine.

use sordino_tracefs::Tracefs;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What a test may not change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The kernel's limit on real-time threads.
    throttle: String,
    /// Files in `/dev/shm`.
    shared_memory: BTreeSet<PathBuf>,
    /// Mounts below the test's directory.
    mounts: Vec<String>,
    /// Tracing instances whose recorder is gone, or is the test's.
    instances: BTreeSet<String>,
    /// Processes whose program lies in the test's directory.
    processes: Vec<(u32, PathBuf)>,
}

impl Machine {
    /// As it is now. Other people's recorders are none of this test's business.
    pub(crate) fn now(directory: &Path) -> Self {
        let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
        let is_ours = |path: &PathBuf| path.starts_with(directory);
        let is_left = |instance: &String| {
            let recorder = instance.strip_prefix("sordino-").and_then(|pid| pid.parse().ok());
            recorder.is_some_and(|pid| program(pid).is_none_or(|program| is_ours(&program)))
        };
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let shown = directory.to_string_lossy();
        let pids = names("/proc").into_iter().filter_map(|name| name.to_str()?.parse().ok());
        let processes = pids.filter_map(|pid| Some((pid, program(pid).filter(is_ours)?)));
        let instances = Tracefs::open().and_then(|tracefs| tracefs.instances()).unwrap_or_default();
        Self {
            throttle: fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap_or_default(),
            shared_memory: names("/dev/shm").into_iter().collect(),
            mounts: mounts.lines().filter(|line| line.contains(&*shown)).map(str::to_owned).collect(),
            instances: instances.into_iter().filter(is_left).collect(),
            processes: processes.collect(),
        }
    }
}

/// What lies in a directory.
fn names(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into()).collect()
}
