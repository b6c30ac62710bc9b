//! The memory that control groups leave to this process. In a group without memory the kernel kills a process, possibly
//! a traced program: the memory of rings is charged to the recorder's group.

use sordino_proc::cgroup::memberships;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The part of a group's limit that rings leave free: a sixteenth.
const SPARED: u64 = 16;
/// Time after which the groups are read again, as other processes use their memory, too.
const VALID: Duration = Duration::from_millis(10);

/// The memory that the control groups of this process leave to rings.
#[derive(Debug, Default)]
pub(crate) struct Headroom {
    groups: Vec<Group>,
    /// Bytes that are left of what the groups had when they were read last.
    left: u64,
    read: Option<Instant>,
}

/// A control group with a limit, as its files show it.
#[derive(Debug)]
struct Group {
    names: &'static CgroupNames,
    limit: File,
    usage: File,
    statistics: File,
}

/// The names of a group's files, and of the lines that count memory which the kernel takes back by itself: pages of
/// files.
#[derive(Debug)]
struct CgroupNames {
    limit: &'static str,
    usage: &'static str,
    files: [&'static str; 2],
}

const V1: CgroupNames = CgroupNames {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};
const V2: CgroupNames =
    CgroupNames { limit: "memory.max", usage: "memory.current", files: ["inactive_file", "active_file"] };

impl Headroom {
    /// Opens the groups of this process that have a limit below `memory`, all of the machine's. Later limits of other
    /// groups do not count.
    pub(crate) fn of_this_process(memory: u64) -> Self {
        let lines = sordino_proc::file::text("/proc/self/cgroup").unwrap_or_default();
        Self::of(&lines, Path::new("/sys/fs/cgroup"), memory)
    }

    /// Opens the limited groups of a process, given by the lines of its `/proc/PID/cgroup`, below `root`.
    fn of(lines: &str, root: &Path, memory: u64) -> Self {
        let groups = memberships(lines).filter_map(|group| {
            let (root, names) = match group {
                group if group.has("") => (root.to_owned(), &V2),
                group if group.has("memory") => (root.join("memory"), &V1),
                _ => return None,
            };
            Some((root.join(group.path.trim_start_matches('/')), root, names))
        });
        let all = groups.flat_map(|(group, root, names)| {
            let above: Vec<_> = group.ancestors().take_while(|group| group.starts_with(&root)).collect();
            above.into_iter().filter_map(|group| Group::open(group, names).ok()).collect::<Vec<_>>()
        });
        let groups = all.filter(|group| group.limit().is_some_and(|limit| limit < memory)).collect();
        Self { groups, ..Self::default() }
    }

    /// Returns the lowest limit of the groups in bytes, if there is one.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.groups.iter().filter_map(Group::limit).min()
    }

    /// Returns true if the groups have so many bytes left, which the caller is about to use.
    pub(crate) fn allows(&mut self, bytes: u64) -> bool {
        let is_old = self.read.is_none_or(|read| read.elapsed() >= VALID);
        if is_old || bytes > self.left {
            self.left = self.groups.iter().filter_map(Group::left).min().unwrap_or(u64::MAX);
            self.read = Some(Instant::now());
        }
        let fits = bytes <= self.left;
        self.left -= if fits { bytes } else { 0 };
        fits
    }
}

impl Group {
    fn open(group: &Path, names: &'static CgroupNames) -> io::Result<Self> {
        let open = |name| File::open(group.join(name));
        let [limit, usage] = [open(names.limit)?, open(names.usage)?];
        Ok(Self { names, limit, usage, statistics: open("memory.stat")? })
    }

    /// Returns the limit in bytes; `None` if there is none.
    fn limit(&self) -> Option<u64> {
        text(&self.limit)?.trim().parse().ok()
    }

    /// Returns the number of bytes that rings may use; `None` without a limit, or if the group is gone.
    fn left(&self) -> Option<u64> {
        let (limit, usage) = (self.limit()?, text(&self.usage)?.trim().parse::<u64>().ok()?);
        let statistics = text(&self.statistics)?;
        let counts = statistics.lines().filter_map(|line| line.split_once(' '));
        let files = counts.filter(|(name, _)| self.names.files.contains(name));
        let files: u64 = files.filter_map(|(_, count)| count.parse::<u64>().ok()).sum();
        Some((limit - limit / SPARED).saturating_sub(usage.saturating_sub(files)))
    }
}

/// Returns the first 8 KiB of a file of the kernel's, which has less.
fn text(file: &File) -> Option<String> {
    let mut bytes = [0; 8192];
    let length = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    const MIB: u64 = 1 << 20;

    /// Two groups of each version, one in the other, in a directory of their own; the inner ones have no limit.
    fn groups(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("sordino-headroom-{name}-{}", std::process::id()));
        let write = |group: &str, file: &str, text: &str| {
            fs::create_dir_all(root.join(group)).unwrap();
            fs::write(root.join(group).join(file), text).unwrap();
        };
        for (group, names, limit, usage) in [
            ("outer", &V2, "67108864\n", "33554432\n"),
            ("outer/inner", &V2, "max\n", "1048576\n"),
            ("memory/outer", &V1, "134217728\n", "16777216\n"),
            ("memory/outer/inner", &V1, "9223372036854771712\n", "16777216\n"),
        ] {
            write(group, names.limit, limit);
            write(group, names.usage, usage);
            let [inactive, active] = names.files;
            write(group, "memory.stat", &format!("anon 7\n{inactive} 1048576\n{active} 2097152\nfile_x 5\n"));
        }
        root
    }

    #[test]
    fn the_least_of_a_group_and_those_above_it_is_left() {
        let root = groups("least");
        let of = |lines: &str| Headroom::of(lines, &root, 1 << 40);
        let mut newer = of("0::/outer/inner\n");
        assert_eq!(newer.limit(), Some(64 * MIB));
        // 60 MiB may be used; 32 are, 3 of them for pages of files.
        assert!(!newer.allows(31 * MIB + 1) && newer.allows(31 * MIB) && !newer.allows(31 * MIB + 1));
        let mut older = of("4:cpu:/x\n3:memory:/outer/inner\nnonsense\n");
        assert_eq!(older.limit(), Some(128 * MIB));
        assert!(!older.allows(107 * MIB + 1) && older.allows(107 * MIB));
        assert_eq!(of("3:cpu,memory:/outer\n0::/outer/inner\n").limit(), Some(64 * MIB));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_was_taken_counts_until_the_groups_are_read_again() {
        let root = groups("taken");
        let mut headroom = Headroom::of("0::/outer", &root, 1 << 40);
        assert!(headroom.allows(20 * MIB));
        assert_eq!(headroom.left, 11 * MIB);
        // More than that is requested of the groups.
        fs::write(root.join("outer/memory.current"), "60000000").unwrap();
        assert!(!headroom.allows(12 * MIB));
        fs::remove_dir_all(root).unwrap();
        assert!(!headroom.allows(12 * MIB), "the files are still open");
    }

    #[test]
    fn without_a_limit_below_the_machines_memory_all_is_allowed() {
        let root = groups("without");
        for (lines, memory) in
            [("", 1 << 40), ("0::/other", 1 << 40), ("0::/../..", 1 << 40), ("0::/outer", 64 * MIB)]
        {
            let mut headroom = Headroom::of(lines, &root, memory);
            assert!(headroom.limit().is_none() && headroom.allows(u64::MAX / 2), "{lines}");
        }
        fs::remove_dir_all(root).unwrap();
    }
}
