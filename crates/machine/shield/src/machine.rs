//! State of the machine: CPUs, control groups, threads.

use crate::Error;
use crate::place::group_of;
use sordino_proc::file::of_process;
use sordino_proc::list::{PidWalk, tids};
use sordino_proc::machine::{kernel_release, version};
use sordino_proc::mounts;
use sordino_proc::stat::Stat;
use sordino_sched::{CpuList, Policy, ThreadIdentity};
use std::fs;
use std::path::{Path, PathBuf};

/// Snapshot of a machine's state.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Directory that contains `proc` and `sys`: `/`.
    pub root: PathBuf,
    /// CPUs that are online.
    pub online: CpuList,
    /// Mechanism that restricts groups of threads to CPUs.
    pub cpusets: Cpusets,
    /// All threads, sorted by id.
    pub tasks: Vec<RunningThread>,
}

/// Mechanism of the kernel that restricts groups of threads to CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpusets {
    /// Control groups of version 2, with their mount point and the controller `cpuset`.
    V2(PathBuf),
    /// Control groups of version 1, with the mount point of the controller `cpuset`.
    V1(PathBuf),
    /// No such mechanism, or one that is unusable.
    None,
}

/// A thread of any process, or of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningThread {
    /// Id and start time of the thread.
    pub thread: ThreadIdentity,
    /// Name of the thread.
    pub name: String,
    /// CPUs that the thread may run on.
    pub affinity: CpuList,
    /// Path of the thread's control group.
    pub group: String,
    /// Scheduling policy and priority.
    pub policy: Policy,
    /// True for a kernel thread.
    pub of_kernel: bool,
    /// True if the kernel forbids changing the thread's affinity.
    pub bound: bool,
}

/// Flag of a thread with a fixed affinity: `PF_NO_SETAFFINITY` in `include/linux/sched.h`.
const NO_SETAFFINITY: u32 = 0x0400_0000;
/// Id of the thread that creates kernel threads; groups of version 1 do not accept it.
pub(crate) const KTHREADD: i32 = 2;

impl Machine {
    /// Reads the state of this machine, with several files for each thread.
    ///
    /// # Errors
    /// Returns an error if `/proc` or `/sys` cannot be read.
    pub fn read() -> Result<Self, Error> {
        let root = PathBuf::from("/");
        let cpusets = Cpusets::find(&mounts::own().map_err(Error::io(mounts::OWN))?);
        let is_usable = cpusets.is_there() && !cpusets.is_too_old(&kernel_release());
        let cpusets = if is_usable { cpusets } else { Cpusets::None };
        let online = CpuList::online().map_err(Error::io("/sys/devices/system/cpu/online"))?;
        let tasks = tasks(cpusets.controller())?;
        Ok(Self { root, online, cpusets, tasks })
    }

    /// Path of a kernel file below the root.
    pub(crate) fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Sorted paths of a directory's entries; empty if the directory does not exist.
    pub(crate) fn entries(&self, path: impl AsRef<Path>) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.file(path)).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    }
}

impl Cpusets {
    /// Finds the control groups in a list of mounts. Version 2 is preferred; only one version can have the controller.
    fn find(mounted: &str) -> Self {
        let has_cpuset = |point: &PathBuf| {
            let controllers = fs::read_to_string(point.join("cgroup.controllers")).unwrap_or_default();
            controllers.split_whitespace().any(|name| name == "cpuset")
        };
        let mounts = |kind| mounts::mounts(mounted).filter(move |mount| mount.kind == kind);
        let mut v2 = mounts("cgroup2").map(|mount| mount.point());
        match (v2.find(has_cpuset), mounts("cgroup").find(|mount| mount.has_option("cpuset"))) {
            (Some(point), _) => Self::V2(point),
            (None, Some(mount)) => Self::V1(mount.point()),
            (None, None) => Self::None,
        }
    }

    /// Name of the controller in `/proc/PID/cgroup`; empty for version 2.
    fn controller(&self) -> &'static str {
        if matches!(self, Self::V1(_)) { "cpuset" } else { "" }
    }

    /// Returns true if the control groups are at the mount point: another file system may be mounted over it.
    fn is_there(&self) -> bool {
        self.mount().is_none_or(|mount| mount.join("cgroup.procs").exists())
    }

    /// Returns true if this kernel lacks isolated partitions, which Linux 6.1 introduced.
    fn is_too_old(&self, release: &str) -> bool {
        matches!(self, Self::V2(_)) && version(release).is_some_and(|version| version < (6, 1))
    }

    fn mount(&self) -> Option<&Path> {
        match self {
            Self::V2(mount) | Self::V1(mount) => Some(mount),
            Self::None => None,
        }
    }

    /// Returns the directory of the shield's control group, if there are cpusets.
    pub fn shield(&self) -> Option<PathBuf> {
        Some(self.mount()?.join(SHIELD))
    }

    /// Returns the directories of the control groups that a shield creates.
    pub(crate) fn own_groups(&self) -> Vec<PathBuf> {
        let groups = self.mount().map(|mount| [SHIELD, SYSTEM].map(|name| mount.join(name)));
        groups.into_iter().flatten().collect()
    }
}

/// Control group of threads that run on shielded CPUs.
pub(crate) const SHIELD: &str = "sordino.shield";
/// Control group, of version 1, of all other threads.
pub(crate) const SYSTEM: &str = "sordino.system";

/// Reads all threads. Those that exit meanwhile are left out.
fn tasks(controller: &str) -> Result<Vec<RunningThread>, Error> {
    let mut walk = PidWalk::begin().map_err(Error::io("/proc"))?;
    let mut tasks = Vec::new();
    while let Some(pids) = walk.next_few() {
        let tids = pids.into_iter().flat_map(tids);
        tasks.extend(tids.filter_map(|tid| RunningThread::read(tid, controller)));
    }
    tasks.sort_by_key(|task| task.thread.tid);
    Ok(tasks)
}

/// Returns the policy and the priority of a thread: fields 41 and 40 of its `stat`.
fn policy(stat: &Stat<'_>) -> Option<Policy> {
    let priority = stat.number(40)?;
    Some(match stat.number(41)? {
        0 => Policy::Other,
        1 => Policy::Fifo(priority),
        2 => Policy::RoundRobin(priority),
        other => Policy::Unknown(other),
    })
}

impl RunningThread {
    fn read(tid: i32, controller: &str) -> Option<Self> {
        let text = of_process(tid, "stat").ok()?;
        let thread = ThreadIdentity::find(tid).ok()?;
        let stat = Stat::parse(&text)?;
        Some(Self {
            thread,
            name: stat.comm.to_owned(),
            affinity: thread.affinity().ok()?,
            group: group_of(tid, controller).ok()?,
            policy: policy(&stat)?,
            of_kernel: stat.is_of_kernel(),
            bound: stat.flags()? & NO_SETAFFINITY != 0,
        })
    }

    /// Returns true if the thread runs the kernel's unbound work: the work queues' masks decide on its CPUs.
    pub(crate) fn is_unbound_worker(&self) -> bool {
        self.bound && self.name.starts_with("kworker/u")
    }

    /// Returns true if the thread belongs to the shield's control group.
    pub(crate) fn is_shielded(&self) -> bool {
        self.group
            .strip_prefix('/')
            .is_some_and(|group| group == SHIELD || group.starts_with(&format!("{SHIELD}/")))
    }

    /// Formats the thread as `NAME (TID)`.
    pub(crate) fn label(&self) -> String {
        format!("{} ({})", self.name, self.thread.tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_threads_and_we_are_one() {
        let machine = Machine::read().unwrap();
        let own = std::process::id() as i32;
        let task = machine.tasks.iter().find(|task| task.thread.tid == own).unwrap();
        assert_eq!(task.affinity, task.thread.affinity().unwrap());
        assert!(!task.bound && !task.is_shielded());
    }

    #[test]
    fn a_thread_has_its_policy_and_a_line_that_ends_early_none() {
        // The fields are 3 to 39, priority and policy.
        let stat = |policy: &str| format!("7 (a) S {}50 {policy} 0", "0 ".repeat(36));
        let of = |text: &str| policy(&Stat::parse(text).unwrap());
        let policies = [Policy::Other, Policy::Fifo(50), Policy::RoundRobin(50), Policy::Unknown(6)];
        assert_eq!(["0", "1", "2", "6"].map(|number| of(&stat(number))), policies.map(Some));
        assert_eq!(of("7 (a) S 2"), None);
    }

    #[test]
    fn a_thread_is_read_whatever_bytes_its_name_has() {
        std::thread::spawn(|| {
            fs::write("/proc/thread-self/comm", b"\xff) Z\xfe").unwrap();
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            let machine = Machine::read().unwrap();
            let task = machine.tasks.iter().find(|task| task.thread.tid == tid).unwrap();
            assert_eq!(task.name, "\u{fffd}) Z\u{fffd}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn version_1_is_found_where_version_2_lacks_the_controller() {
        let directory = tempfile::tempdir().unwrap();
        let v2 = directory.path();
        let mounts = format!(
            "21 1 0:20 / /c rw - tmpfs tmpfs rw\n22 21 0:21 / /c/cpu rw - cgroup cgroup rw,cpu\n\
             23 21 0:22 / /c/cpuset rw - cgroup cgroup rw,cpuset\n24 21 0:23 / {} rw - cgroup2 cgroup2 rw\n",
            v2.display()
        );
        assert_eq!(Cpusets::find(&mounts), Cpusets::V1("/c/cpuset".into()));
        fs::write(v2.join("cgroup.controllers"), "cpu io\n").unwrap();
        assert_eq!(Cpusets::find(&mounts), Cpusets::V1("/c/cpuset".into()));
        fs::write(v2.join("cgroup.controllers"), "cpuset cpu\n").unwrap();
        assert_eq!(Cpusets::find(&mounts), Cpusets::V2(v2.into()));
        assert_eq!(Cpusets::find(""), Cpusets::None);
        for (release, is_too_old) in
            [("5.10.0-30-amd64", true), ("6.0.1", true), ("6.1.0", false), ("6.18", false), ("", false)]
        {
            assert_eq!(Cpusets::V2(v2.into()).is_too_old(release), is_too_old, "{release}");
            assert!(!Cpusets::V1(v2.into()).is_too_old(release));
        }
    }
}
