//! The CPU time that cgroups allow a program; `sordino explain` names it where the limit kept a thread from its CPU.
//!
//! Real-time threads have a limit of their own in version 1 of cgroups, where the kernel has `CONFIG_RT_GROUP_SCHED`
//! (`Documentation/scheduler/sched-rt-group.rst`). That of the root is the machine's.

use sordino_ctf::Environment;
use sordino_proc::{cgroup, file, mounts};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Maximum number of cgroups that are examined, from a program's own upwards.
const DEPTH: usize = 32;
/// Maximum size read of a process's `cgroup`, which has a line for each hierarchy, in bytes.
const MOST: u64 = 16 << 10;

/// The CPU time of a cgroup in each period, both in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CpuQuota {
    /// The path of the cgroup.
    group: String,
    runtime: i64,
    period: i64,
}

/// The limits of a program's cgroups for its ordinary and its real-time threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuQuotas {
    ordinary: EffectiveLimit,
    real_time: EffectiveLimit,
}

/// The limit in a cgroup and its ancestors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum EffectiveLimit {
    #[default]
    None,
    One(CpuQuota),
    /// Several of them have one, of which any may be used up first.
    Several,
}

impl CpuQuotas {
    /// Reads the quotas of the cgroup of process `pid` and of its ancestors. Takes some tens of microseconds.
    pub fn of(pid: i32) -> Self {
        static MOUNTS: OnceLock<String> = OnceLock::new();
        let mounted = MOUNTS.get_or_init(|| mounts::own().unwrap_or_default());
        let groups = file::bytes_at_most(format!("/proc/{pid}/cgroup"), MOST).unwrap_or_default();
        place(&String::from_utf8_lossy(&groups), mounted)
            .map(|(mount, group)| Self::below(&mount, Path::new(&group)))
            .unwrap_or_default()
    }

    fn below(mount: &Path, group: &Path) -> Self {
        let groups = || group.ancestors().take(DEPTH);
        let below_root = groups().filter(|group| group.parent().is_some());
        Self {
            ordinary: EffectiveLimit::of(mount, groups(), quota),
            real_time: EffectiveLimit::of(mount, below_root, real_time),
        }
    }

    /// Writes the quotas into a trace's environment. Of several for real-time threads, the entry states that there are
    /// some.
    pub fn describe(&self, environment: &mut Environment) {
        if let EffectiveLimit::One(CpuQuota { group, runtime, period }) = &self.ordinary {
            environment.set("cpu_quota_us", *runtime).set("cpu_period_us", *period);
            environment.set("cpu_quota_group", group.as_str());
        }
        match &self.real_time {
            EffectiveLimit::None => {}
            EffectiveLimit::One(CpuQuota { group, runtime, period }) => {
                environment.set("rt_quota_us", *runtime).set("rt_period_us", *period);
                environment.set("rt_quota_group", group.as_str());
            }
            EffectiveLimit::Several => _ = environment.set("rt_quota_group", ""),
        }
    }
}

impl EffectiveLimit {
    /// Returns the limit of these groups, given a function that reads the runtime and the period of one.
    fn of<'a>(
        mount: &Path,
        groups: impl Iterator<Item = &'a Path>,
        read: fn(&Path) -> Option<(i64, i64)>,
    ) -> Self {
        let mut quotas = groups.filter_map(|group| {
            let (runtime, period) = read(&mount.join(group.strip_prefix("/").ok()?))?;
            Some(CpuQuota { group: group.to_string_lossy().into_owned(), runtime, period })
        });
        match (quotas.next(), quotas.next()) {
            (Some(only), None) => Self::One(only),
            (Some(_), Some(_)) => Self::Several,
            (None, _) => Self::None,
        }
    }
}

fn number(path: impl AsRef<Path>) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the mount and the path of a process's cgroup with the cpu controller: of version 1 if that has it.
fn place(groups: &str, mounted: &str) -> Option<(PathBuf, String)> {
    let group = |controller| {
        cgroup::memberships(groups).find(|group| group.has(controller)).map(|group| group.path.to_owned())
    };
    let mount = |fs_kind: &str, option: Option<&str>| {
        mounts::mounts(mounted).find_map(|mount| {
            let is_it = mount.kind == fs_kind && option.is_none_or(|option| mount.has_option(option));
            is_it.then(|| mount.point())
        })
    };
    let one = || Some((mount("cgroup", Some("cpu"))?, group("cpu")?));
    let two = || Some((mount("cgroup2", None)?, group("")?));
    // A process may be outside the visible part of the hierarchy.
    one().or_else(two).filter(|(_, path)| !path.split('/').any(|part| part == ".."))
}

/// Returns the runtime and the period of one cgroup's real-time threads. A group without runtime has no such threads.
fn real_time(directory: &Path) -> Option<(i64, i64)> {
    let runtime = number(directory.join("cpu.rt_runtime_us")).filter(|runtime| *runtime > 0)?;
    Some((runtime, number(directory.join("cpu.rt_period_us")).filter(|period| *period > 0)?))
}

/// Returns the runtime and the period of one cgroup, in either version.
fn quota(directory: &Path) -> Option<(i64, i64)> {
    let read = |file: &str| fs::read_to_string(directory.join(file));
    let (runtime, period) = match read("cpu.max") {
        Ok(text) => {
            let (runtime, period) = text.trim().split_once(' ')?;
            (runtime.parse().ok(), period.parse().ok())
        }
        Err(_) => (number(directory.join("cpu.cfs_quota_us")), number(directory.join("cpu.cfs_period_us"))),
    };
    Some((runtime.filter(|runtime| *runtime >= 0)?, period.filter(|period| *period > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "30 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";
    const TWO: &str = "25 24 0:22 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_group_is_that_of_the_hierarchy_with_the_cpu_controller() {
        let found = |groups: &str, mounts: &str| {
            place(groups, mounts).map(|(mount, path)| format!("{} {path}", mount.display()))
        };
        let both = format!("20 1 0:19 / /proc rw - proc proc rw\n{TWO}{ONE}");
        let groups = "5:cpuset:/other\n4:cpu,cpuacct:/dist/one\n0::/unified\n";
        assert_eq!(found(groups, &both).unwrap(), "/sys/fs/cgroup/cpu,cpuacct /dist/one");
        assert_eq!(found("0::/a.slice/b\n", TWO).unwrap(), "/sys/fs/cgroup/unified /a.slice/b");
        assert_eq!(found("4:cpuacct:/a\n", ONE), None);
        assert_eq!(found("0::/../outside\n", TWO), None);
        assert_eq!(found("nonsense", "nonsense"), None);
    }

    /// Creates the files of a cgroup.
    fn set(root: &Path, group: &str, files: &[(&str, &str)]) {
        let directory = root.join(group);
        fs::create_dir_all(&directory).unwrap();
        files.iter().for_each(|(file, text)| fs::write(directory.join(file), text).unwrap());
    }

    fn one(group: &str, runtime: i64, period: i64) -> EffectiveLimit {
        EffectiveLimit::One(CpuQuota { group: group.to_owned(), runtime, period })
    }

    #[test]
    fn a_quota_is_known_where_one_group_has_one() {
        let root = tempfile::tempdir().unwrap();
        let set = |group: &str, files: &[(&str, &str)]| set(root.path(), group, files);
        let of = |group: &str| CpuQuotas::below(root.path(), Path::new(group)).ordinary;
        set("dist", &[("cpu.max", "20000 100000\n")]);
        set("dist/one", &[("cpu.max", "max 100000\n")]);
        set("dist/one/two", &[("cpu.max", "30000 50000\n")]);
        assert_eq!(of("/dist/one"), one("/dist", 20_000, 100_000));
        assert_eq!(of("/dist/one/two"), EffectiveLimit::Several);
        set("old", &[("cpu.cfs_quota_us", "4000\n"), ("cpu.cfs_period_us", "40000\n")]);
        assert_eq!(of("/old"), one("/old", 4000, 40_000));
        set("free", &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]);
        assert_eq!(
            [of("/free"), of("/"), of("/gone")],
            [EffectiveLimit::None, EffectiveLimit::None, EffectiveLimit::None]
        );
        // In a container, the visible root is a cgroup like others.
        set("", &[("cpu.max", "50000 100000\n")]);
        assert_eq!(of("/"), one("/", 50_000, 100_000));
    }

    #[test]
    fn the_quota_of_real_time_threads_is_that_of_a_group_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let period = ("cpu.rt_period_us", "1000000\n");
        let set = |group: &str, runtime: &str| {
            set(root.path(), group, &[("cpu.rt_runtime_us", runtime), period]);
        };
        let of = |group: &str| CpuQuotas::below(root.path(), Path::new(group)).real_time;
        set("", "950000\n");
        set("ordinary", "0\n");
        set("motor", "20000\n");
        set("motor/axis", "10000\n");
        assert_eq!(
            [of("/"), of("/ordinary"), of("/gone")],
            [EffectiveLimit::None, EffectiveLimit::None, EffectiveLimit::None]
        );
        assert_eq!(of("/motor"), one("/motor", 20_000, 1_000_000));
        assert_eq!(of("/motor/axis"), EffectiveLimit::Several);
    }

    #[test]
    fn the_environment_has_the_quotas() {
        let described = |ordinary, real_time| {
            let mut environment = Environment::default();
            CpuQuotas { ordinary, real_time }.describe(&mut environment);
            let entries = |prefix| {
                let [quota, period, group] =
                    ["quota_us", "period_us", "quota_group"].map(|name| format!("{prefix}_{name}"));
                let group = environment.text(&group).map(str::to_owned);
                (environment.integer(&quota), environment.integer(&period), group)
            };
            [entries("cpu"), entries("rt")]
        };
        let entries = described(one("/dist", 4000, 40_000), one("/motor", 1, 2));
        let quota = |runtime, period, group: &str| (Some(runtime), Some(period), Some(group.to_owned()));
        assert_eq!(entries, [quota(4000, 40_000, "/dist"), quota(1, 2, "/motor")]);
        let none = (None, None, None);
        assert_eq!(described(EffectiveLimit::None, EffectiveLimit::None), [none.clone(), none.clone()]);
        assert_eq!(
            described(EffectiveLimit::Several, EffectiveLimit::Several),
            [none, (None, None, Some(String::new()))]
        );
    }
}
