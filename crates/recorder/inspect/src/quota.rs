//! The CPU time that a cgroup allows a program; `sordino explain` names it where the limit kept a thread from its CPU.

use sordino_ctf::Environment;
use sordino_proc::{cgroup, file};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Maximum number of cgroups that are examined, from a program's own upwards.
const DEPTH: usize = 32;
/// Maximum size read of a process's `cgroup`, which has a line for each hierarchy, in bytes.
const MOST: u64 = 16 << 10;

/// The CPU time of a cgroup in each period, both in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// The path of the cgroup.
    group: String,
    runtime: i64,
    period: i64,
}

impl CpuQuota {
    /// Reads the quota of the cgroup of process `pid`, or of its ancestors. Returns `None` if there is none, or
    /// several, of which any may be used up first. Takes some tens of microseconds.
    pub fn of(pid: i32) -> Option<Self> {
        static MOUNTS: OnceLock<String> = OnceLock::new();
        let mounts = MOUNTS.get_or_init(|| file::text("/proc/self/mounts").unwrap_or_default());
        let groups = file::bytes_at_most(&format!("/proc/{pid}/cgroup"), MOST).ok()?;
        let (mount, group) = place(&String::from_utf8_lossy(&groups), mounts)?;
        only(&mount, &group)
    }

    /// Writes the quota into a trace's environment.
    pub fn tell(&self, environment: &mut Environment) {
        environment.set("cpu_quota_us", self.runtime).set("cpu_period_us", self.period);
        environment.set("cpu_quota_group", self.group.as_str());
    }
}

fn number(path: impl AsRef<Path>) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the mount and the path of a process's cgroup with the cpu controller: of version 1 if that has it.
fn place(groups: &str, mounts: &str) -> Option<(PathBuf, String)> {
    let group = |controller| {
        cgroup::memberships(groups).find(|group| group.has(controller)).map(|group| group.path.to_owned())
    };
    let mount = |fs_kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, place, kind, options, ..] = fields[..] else { return None };
            let has = |option| options.split(',').any(|one| one == option);
            (kind == fs_kind && option.is_none_or(has)).then(|| PathBuf::from(place))
        })
    };
    let one = || Some((mount("cgroup", Some("cpu"))?, group("cpu")?));
    let two = || Some((mount("cgroup2", None)?, group("")?));
    // A process may be outside the visible part of the hierarchy.
    one().or_else(two).filter(|(_, path)| !path.split('/').any(|part| part == ".."))
}

/// Returns the quota of the only cgroup that has one, from `group` upwards.
fn only(mount: &Path, group: &str) -> Option<CpuQuota> {
    let groups = Path::new(group).ancestors().take(DEPTH);
    let mut quotas = groups.filter_map(|group| {
        let (runtime, period) = limit(&mount.join(group.strip_prefix("/").ok()?))?;
        Some(CpuQuota { group: group.to_string_lossy().into_owned(), runtime, period })
    });
    let first = quotas.next()?;
    quotas.next().is_none().then_some(first)
}

/// Returns the runtime and the period of one cgroup, in either version.
fn limit(directory: &Path) -> Option<(i64, i64)> {
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
    fn a_quota_is_known_where_one_group_has_one() {
        let root = tempfile::tempdir().unwrap();
        let set = |group: &str, files: &[(&str, &str)]| {
            let directory = root.path().join(group);
            fs::create_dir_all(&directory).unwrap();
            files.iter().for_each(|(file, text)| fs::write(directory.join(file), text).unwrap());
        };
        let of = |group: &str| only(root.path(), group);
        set("dist", &[("cpu.max", "20000 100000\n")]);
        set("dist/one", &[("cpu.max", "max 100000\n")]);
        set("dist/one/two", &[("cpu.max", "30000 50000\n")]);
        let quota =
            |group: &str, runtime, period| Some(CpuQuota { group: group.to_owned(), runtime, period });
        assert_eq!(of("/dist/one"), quota("/dist", 20_000, 100_000));
        assert_eq!(of("/dist/one/two"), None);
        set("old", &[("cpu.cfs_quota_us", "4000\n"), ("cpu.cfs_period_us", "40000\n")]);
        assert_eq!(of("/old"), quota("/old", 4000, 40_000));
        set("free", &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]);
        assert_eq!([of("/free"), of("/"), of("/gone")], [None, None, None]);
        // In a container, the visible root is a cgroup like others.
        set("", &[("cpu.max", "50000 100000\n")]);
        assert_eq!(of("/"), quota("/", 50_000, 100_000));
    }

    #[test]
    fn the_environment_has_the_quota() {
        let mut environment = Environment::default();
        CpuQuota { group: "/dist".to_owned(), runtime: 4000, period: 40_000 }.tell(&mut environment);
        assert_eq!(
            (environment.integer("cpu_quota_us"), environment.integer("cpu_period_us")),
            (Some(4000), Some(40_000))
        );
        assert_eq!(environment.text("cpu_quota_group"), Some("/dist"));
    }
}
