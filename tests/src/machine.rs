//! What tests could leave behind on a machine. The kernel's limit on real-time threads is not among it: others may change it
//! meanwhile, and no recorder does; `scripts/test` looks at it.

use sordino_tracefs::Tracefs;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a test may not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Files of ours in `/dev/shm`.
    shared_memory: BTreeSet<PathBuf>,
    /// Mounts below the test's directory.
    mounts: Vec<String>,
    /// Tracing instances of recorders that are not alive, or are ours.
    instances: BTreeSet<String>,
    /// Processes whose program lies in the test's directory or is the installed sordino.
    processes: Vec<(i32, PathBuf)>,
}

impl Machine {
    /// As it is now. Other people's recorders are none of this test's business.
    pub fn now(directory: &Path, installed: &Path) -> Self {
        let entries =
            |path: &str| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let shown = directory.to_string_lossy().into_owned();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let ours = |path: &Path| path.starts_with(directory) || path.starts_with(installed);
        let processes: Vec<(i32, PathBuf)> = entries("/proc")
            .filter_map(|path| path.file_name()?.to_str()?.parse::<i32>().ok())
            .filter_map(|pid| Some((pid, fs::read_link(format!("/proc/{pid}/exe")).ok()?)))
            .filter(|(_, program)| ours(program))
            .collect();
        let instances = Tracefs::open().and_then(|tracefs| tracefs.instances()).unwrap_or_default();
        let is_left = |name: &String| {
            let recorder = name.strip_prefix("sordino-").and_then(|pid| pid.parse::<i32>().ok());
            recorder.is_some_and(|pid| {
                let program = fs::read_link(format!("/proc/{pid}/exe"));
                program.is_err() || program.is_ok_and(|program| ours(&program))
            })
        };
        Self {
            shared_memory: entries("/dev/shm")
                .filter(|path| path.to_string_lossy().contains("sordino"))
                .collect(),
            mounts: mounts.lines().filter(|line| line.contains(&shown)).map(str::to_owned).collect(),
            instances: instances.into_iter().filter(is_left).collect(),
            processes,
        }
    }
}

/// How much memory the areas of a program take.
pub fn area_kib(pid: i32) -> u64 {
    let files =
        fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_area =
        |path: &PathBuf| fs::read_link(path).is_ok_and(|link| link.starts_with("/memfd:sordino (deleted)"));
    files.filter(is_area).map(|path| fs::metadata(path).map_or(0, |file| file.blocks() / 2)).sum()
}
