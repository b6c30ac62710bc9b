//! The CPU time that limits allow a program: `sordino explain` tells it where a limit kept one of its threads from its CPU.

use crate::proc;
use sordino_ctf::Environment;
use std::fs;
use std::path::{Path, PathBuf};

/// Control groups that are looked at from a program's own upwards, at most.
const DEPTH: usize = 32;
/// Bytes that are read of a process's `cgroup`, which has a line for each hierarchy.
const MOST: u64 = 16 << 10;

/// CPU time in each period, both in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    runtime: i64,
    period: i64,
}

/// What limits allow a program, as it was when it was taken up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// All real-time threads of a CPU.
    real_time: Option<Share>,
    /// The control group of the program's, or above it, that allows least, and its path.
    group: Option<(String, Share)>,
}

impl Shares {
    /// Reads those of process `pid`. Some tens of microseconds; what can't be read is no limit.
    pub(crate) fn of(pid: i32) -> Self {
        let setting = |name: &str| number(format!("/proc/sys/kernel/{name}"));
        let real_time = share(setting("sched_rt_runtime_us"), setting("sched_rt_period_us"));
        let groups = proc::read_at_most(&format!("/proc/{pid}/cgroup"), MOST).unwrap_or_default();
        let mounts = proc::read("/proc/self/mounts").unwrap_or_default();
        let place = place(&String::from_utf8_lossy(&groups), &mounts);
        Self { real_time, group: place.and_then(|(mount, group)| least(&mount, &group)) }
    }

    /// Says them in a trace's environment.
    pub(crate) fn tell(&self, environment: &mut Environment) {
        if let Some(Share { runtime, period }) = self.real_time {
            environment.set("sched_rt_runtime_us", runtime).set("sched_rt_period_us", period);
        }
        if let Some((group, Share { runtime, period })) = &self.group {
            environment.set("cpu_quota_us", *runtime).set("cpu_period_us", *period);
            environment.set("cpu_quota_group", group.as_str());
        }
    }
}

fn share(runtime: Option<i64>, period: Option<i64>) -> Option<Share> {
    let share = Share { runtime: runtime?, period: period? };
    (share.runtime >= 0 && share.period > 0).then_some(share)
}

fn number(path: impl AsRef<Path>) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The mount and the path of a process's control group with the cpu controller, of version 1 if that has it.
fn place(groups: &str, mounts: &str) -> Option<(PathBuf, String)> {
    let group = |is_its: &dyn Fn(&str) -> bool| {
        let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.find(|(controllers, _)| is_its(controllers)).map(|(_, path)| path.to_owned())
    };
    let mount = |wanted: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, place, kind, options, ..] = fields[..] else { return None };
            let has = |option| options.split(',').any(|one| one == option);
            (kind == wanted && option.is_none_or(has)).then(|| PathBuf::from(place))
        })
    };
    let one =
        || Some((mount("cgroup", Some("cpu"))?, group(&|list| list.split(',').any(|one| one == "cpu"))?));
    let two = || Some((mount("cgroup2", None)?, group(&str::is_empty)?));
    // A process may be outside of the part of the hierarchy that is visible here.
    one().or_else(two).filter(|(_, path)| !path.split('/').any(|part| part == ".."))
}

/// The share of the group that allows least, from this one upwards. The root has none.
fn least(mount: &Path, group: &str) -> Option<(String, Share)> {
    let groups = Path::new(group).ancestors().filter(|group| *group != Path::new("/")).take(DEPTH);
    let shares = groups.filter_map(|group| {
        let directory = mount.join(group.strip_prefix("/").ok()?);
        let share = quota(&directory)?;
        Some((group.to_string_lossy().into_owned(), share))
    });
    shares.min_by(|(_, one), (_, other)| (one.runtime * other.period).cmp(&(other.runtime * one.period)))
}

/// The quota of one group, in either version.
fn quota(directory: &Path) -> Option<Share> {
    let Ok(text) = fs::read_to_string(directory.join("cpu.max")) else {
        return share(
            number(directory.join("cpu.cfs_quota_us")),
            number(directory.join("cpu.cfs_period_us")),
        );
    };
    let (runtime, period) = text.trim().split_once(' ')?;
    share(runtime.parse().ok(), period.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n";
    const TWO: &str = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0\n";

    #[test]
    fn the_group_is_that_of_the_hierarchy_with_the_cpu_controller() {
        let found = |groups: &str, mounts: &str| {
            place(groups, mounts).map(|(mount, path)| format!("{} {path}", mount.display()))
        };
        let both = format!("proc /proc proc rw 0 0\n{TWO}{ONE}");
        let groups = "5:cpuset:/other\n4:cpu,cpuacct:/dist/one\n0::/unified\n";
        assert_eq!(found(groups, &both).unwrap(), "/sys/fs/cgroup/cpu,cpuacct /dist/one");
        assert_eq!(found("0::/a.slice/b\n", TWO).unwrap(), "/sys/fs/cgroup/unified /a.slice/b");
        assert_eq!(found("4:cpuacct:/a\n", ONE), None);
        assert_eq!(found("0::/../outside\n", TWO), None);
        assert_eq!(found("nonsense", "nonsense"), None);
    }

    #[test]
    fn the_group_that_allows_least_holds() {
        let root = tempfile::tempdir().unwrap();
        let set = |group: &str, files: &[(&str, &str)]| {
            let directory = root.path().join(group);
            fs::create_dir_all(&directory).unwrap();
            files.iter().for_each(|(file, text)| fs::write(directory.join(file), text).unwrap());
        };
        set("dist", &[("cpu.max", "20000 100000\n")]);
        set("dist/one", &[("cpu.max", "max 100000\n")]);
        set("dist/one/two", &[("cpu.max", "30000 50000\n")]);
        let dist = ("/dist".to_owned(), Share { runtime: 20_000, period: 100_000 });
        assert_eq!(least(root.path(), "/dist/one/two"), Some(dist));
        set("old", &[("cpu.cfs_quota_us", "4000\n"), ("cpu.cfs_period_us", "40000\n")]);
        let old = ("/old".to_owned(), Share { runtime: 4000, period: 40_000 });
        assert_eq!(least(root.path(), "/old"), Some(old));
        set("free", &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]);
        assert_eq!(
            [least(root.path(), "/free"), least(root.path(), "/"), least(root.path(), "/gone")],
            [None, None, None]
        );
    }

    #[test]
    fn the_environment_has_what_there_is() {
        let mut environment = Environment::default();
        Shares::default().tell(&mut environment);
        assert_eq!(environment.iter().count(), 0);
        let group = Some(("/dist".to_owned(), Share { runtime: 4000, period: 40_000 }));
        Shares { real_time: Some(Share { runtime: 950_000, period: 1_000_000 }), group }
            .tell(&mut environment);
        assert_eq!(environment.integer("sched_rt_runtime_us"), Some(950_000));
        assert_eq!(
            (environment.integer("cpu_quota_us"), environment.text("cpu_quota_group")),
            (Some(4000), Some("/dist"))
        );
    }
}
