//! The machine's limits for a recorder: descriptors and memory.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::path::Path;

/// Maximum number of descriptors that a recorder uses.
const MOST_DESCRIPTORS: u64 = 1 << 20;
/// The number of descriptors that every system allows.
const FEW_DESCRIPTORS: u64 = 1024;

/// Raises this process's limit of descriptors: each program takes several. With `CAP_SYS_RESOURCE`, the hard limit is
/// raised, too. Fails silently: there is then room for fewer programs. Returns the previous limit, which [`with`]
/// restores for children.
pub fn raise_descriptors() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let most = fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse().ok());
    let most = most.unwrap_or(MOST_DESCRIPTORS).min(MOST_DESCRIPTORS);
    let is_less = before.maximum.is_some_and(|maximum| maximum < most);
    let raised =
        is_less && setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) }).is_ok();
    if !raised {
        let maximum = before.maximum;
        let current = Some(maximum.unwrap_or(most).min(most.max(before.current.unwrap_or(0))));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
    before
}

/// Calls `call`, which starts a child, with this limit of descriptors, so that a recorded program has its usual limit.
/// This process has few descriptors open that early.
pub fn with<T>(descriptors: Rlimit, call: impl FnOnce() -> T) -> T {
    let ours = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, descriptors);
    let result = call();
    let _ = setrlimit(Resource::Nofile, ours);
    result
}

/// Returns this process's limit of descriptors.
pub fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(MOST_DESCRIPTORS).max(FEW_DESCRIPTORS)
}

/// Returns the number of programs that may wait for an answer at a time: each keeps a connection, and a quarter of the
/// descriptors is reserved for these. The others are for what programs need when they are recorded.
pub fn most_waiting() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(MOST_DESCRIPTORS);
    usize::try_from(descriptors / 4).unwrap_or(usize::MAX).max(1)
}

/// Returns the memory that this process may use, in bytes: the machine's, or less if its cgroups limit it.
pub fn memory() -> u64 {
    let all = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text)).unwrap_or(u64::MAX);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().filter_map(group_limit).fold(all, u64::min)
}

/// Returns `MemTotal` of `/proc/meminfo` in bytes.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the lowest memory limit of a cgroup, given by its line in `/proc/self/cgroup`, and of its ancestors, in
/// bytes.
fn group_limit(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let group = Path::new(path.trim_start_matches('/'));
    let limit =
        |group: &Path| fs::read_to_string(Path::new(root).join(group).join(file)).ok()?.trim().parse().ok();
    group.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_read_and_no_group_without_limits_counts() {
        assert_eq!(total("Buffers: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        assert_eq!(total("MemTotal: x kB"), None);
        assert_eq!(group_limit("12:cpu,cpuacct:/x"), None);
        assert_eq!(group_limit("nonsense"), None);
        assert!(memory() >= 64 << 20);
    }

    #[test]
    fn a_child_has_the_limit_that_was_before() {
        let before = getrlimit(Resource::Nofile);
        let few = Rlimit { current: Some(200), maximum: before.maximum };
        let child = || std::process::Command::new("sh").args(["-c", "ulimit -Sn"]).output().unwrap();
        assert_eq!(with(few, child).stdout, b"200\n");
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
