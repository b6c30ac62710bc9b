//! The processes that hold a lock or a file open, for messages.

use rustix::fs::{fstat, major, minor};
use sordino_proc::{file, list, status};
use std::fmt;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process that holds a lock or a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The id of the process in this pid namespace.
    pub pid: i32,
    /// The effective user of the process; `None` if it has ended and another process has its descriptor.
    pub user: Option<u32>,
    name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user {
            Some(user) => write!(f, "process {} ({}) of user {user}", self.pid, self.name),
            None => write!(f, "process {}, which has ended and left it to another", self.pid),
        }
    }
}

impl Holder {
    fn new(pid: i32) -> Self {
        // The owner of /proc/PID won't do: it is root for a process that is not dumpable.
        let text = file::of_process(pid, "status").unwrap_or_default();
        let user = status::users(&text).map(|users| users.effective);
        // A process chooses its name, and some bytes control a terminal.
        let name = status::line(&text, "Name:").trim().escape_default().to_string();
        Self { pid, user, name }
    }
}

/// Returns the processes that have locked this file with `flock`, as far as they are visible in this pid namespace.
pub fn holders(file: impl AsFd) -> Vec<Holder> {
    let Ok(found) = fstat(file) else { return Vec::new() };
    let identity = (major(found.st_dev), minor(found.st_dev), found.st_ino);
    let locks = file::text("/proc/locks").unwrap_or_default();
    locks.lines().filter_map(|line| flock_of(line, identity)).map(Holder::new).collect()
}

/// Returns the process of a line of `/proc/locks` if that is a lock of the file.
fn flock_of(line: &str, identity: (u32, u32, u64)) -> Option<i32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
    let parts: Vec<&str> = file.split(':').collect();
    let [major, minor, inode] = parts[..] else { return None };
    let hexadecimal = |text| u32::from_str_radix(text, 16).ok();
    let named = (hexadecimal(major)?, hexadecimal(minor)?, inode.parse().ok()?);
    (named == identity).then(|| pid.parse().ok()).flatten().filter(|pid| *pid > 0)
}

/// Returns the processes that have a file open below `directory`, whose last two components are unique among file
/// systems.
pub fn users(directory: &Path) -> Vec<Holder> {
    let Ok(device) = fs::metadata(directory).map(|found| found.dev()) else { return Vec::new() };
    // In another mount namespace, the path has the same last components.
    let tail: std::path::PathBuf =
        directory.components().rev().take(2).collect::<Vec<_>>().iter().rev().collect();
    let is_below = |descriptor: &Path| {
        let names = fs::read_link(descriptor).is_ok_and(|path| holds(&path, &tail));
        names && fs::metadata(descriptor).is_ok_and(|found| found.dev() == device)
    };
    let has_one = |pid: &i32| {
        let mut open = list::descriptors(*pid, *pid).into_iter().flatten();
        *pid != std::process::id() as i32 && open.any(|link| is_below(&link))
    };
    list::pids().filter(has_one).map(Holder::new).collect()
}

/// Returns true if `part` is anywhere in a path, component by component.
fn holds(path: &Path, part: &Path) -> bool {
    path.ancestors().any(|above| above.ends_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    #[test]
    fn a_lock_has_its_holder_and_a_line_of_another_file_none() {
        let line = "1: FLOCK  ADVISORY  WRITE 4711 00:2c:1234 0 EOF";
        assert_eq!(flock_of(line, (0, 0x2c, 1234)), Some(4711));
        for other in [(1, 0x2c, 1234), (0, 0x2d, 1234), (0, 0x2c, 1235)] {
            assert_eq!(flock_of(line, other), None);
        }
        for other in [
            "",
            "1: -> FLOCK  ADVISORY  WRITE 4711 00:2c:1234 0 EOF",
            "1: POSIX  ADVISORY  WRITE 4711 00:2c:1234 0 EOF",
        ] {
            assert_eq!(flock_of(other, (0, 0x2c, 1234)), None);
        }
        let file = tempfile::tempfile().unwrap();
        assert_eq!(holders(&file), []);
        flock(&file, FlockOperation::LockExclusive).unwrap();
        let holder = &holders(&file)[0];
        assert_eq!(
            (holder.pid, holder.user),
            (std::process::id() as i32, Some(rustix::process::geteuid().as_raw()))
        );
        assert!(holder.to_string().starts_with(&format!("process {} (", holder.pid)));
    }

    #[test]
    fn paths_are_compared_by_their_components() {
        let part = Path::new("instances/sordino.sys.1");
        assert!(holds(Path::new("/sys/kernel/tracing/instances/sordino.sys.1/trace"), part));
        assert!(holds(Path::new("/instances/sordino.sys.1"), part));
        assert!(!holds(Path::new("/instances/sordino.sys.11/trace"), part));
    }
}
