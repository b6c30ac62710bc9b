//! Lines of a process's `mountinfo`: proc_pid_mountinfo(5).

use crate::file;
use std::io;
use std::path::PathBuf;

/// Path of the list of the own mount namespace.
pub const OWN: &str = "/proc/self/mountinfo";
/// Maximum size read of a list, in bytes; a user may have 100,000 mounts in a namespace.
const MOST: u64 = 1 << 20;

/// A file system that is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The major and the minor number of the file system's device.
    pub device: (u32, u32),
    /// The file system's type: `ext4`, `fuse.sshfs`, `cgroup2`.
    pub kind: &'a str,
    point: &'a str,
    options: &'a str,
}

/// Reads the mounts of this process's namespace, as far as they are in the first MiB of the list.
///
/// # Errors
/// The kernel's error, if the file can't be read.
pub fn own() -> io::Result<String> {
    read(OWN)
}

/// Reads the mounts of process `pid`'s namespace, as far as they are in the first MiB of the list.
///
/// # Errors
/// The kernel's error: `NotFound` or `ESRCH` if the process has ended.
pub fn of(pid: i32) -> io::Result<String> {
    read(&format!("/proc/{pid}/mountinfo"))
}

fn read(path: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&file::bytes_at_most(path, MOST)?).into_owned())
}

/// Returns the mounts in the text of a list, in the order in which they were mounted; other lines are skipped.
///
/// ```
/// use sordino_proc::mounts;
/// let text = mounts::own()?;
/// assert!(mounts::mounts(&text).any(|mount| mount.kind == "proc"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn mounts(text: &str) -> impl Iterator<Item = Mount<'_>> {
    text.lines().filter_map(Mount::parse)
}

impl<'a> Mount<'a> {
    /// Parses a line such as `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`; `None` if it is not one.
    pub fn parse(line: &'a str) -> Option<Self> {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(2);
        let (major, minor) = head.next()?.split_once(':')?;
        let (point, mut tail) = (head.nth(1)?, tail.split(' '));
        Some(Self {
            device: (major.parse().ok()?, minor.parse().ok()?),
            kind: tail.next()?,
            point,
            options: tail.nth(1).unwrap_or_default(),
        })
    }

    /// Returns the directory on which it is mounted. The kernel writes white space, `#` and backslashes in octal.
    pub fn point(&self) -> PathBuf {
        let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\043", "#"), ("\\134", "\\")];
        // The backslash is last: `\134040` is a backslash and three digits.
        let path =
            escapes.iter().fold(self.point.to_owned(), |path, (escape, byte)| path.replace(escape, byte));
        path.into()
    }

    /// Returns true if the file system itself has this option; those of the single mount do not count.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.split(',').any(|one| one == option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_any_number_of_optional_fields() {
        let device = (98, 1);
        for optional in ["", "master:1 ", "shared:3 propagate_from:4 "] {
            let line =
                format!("36 35 98:1 /root /a\\040b rw,noatime {optional}- ext3 /dev/root rw,data=ordered");
            let mount = Mount::parse(&line).unwrap();
            assert_eq!((mount.device, mount.kind, mount.point()), (device, "ext3", "/a b".into()));
            let options = ["data=ordered", "data", "noatime"].map(|option| mount.has_option(option));
            assert_eq!(options, [true, false, false]);
        }
        assert_eq!(
            Mount::parse("36 35 0:47 / /a\\134040 rw - ext4 x").unwrap().point(),
            PathBuf::from("/a\\040")
        );
        for bad in
            ["", "nonsense", "36 35 0:47 / /", "36 35 047 / / rw - ext4 x rw", "36 35 0:47 - ext4 x rw"]
        {
            assert_eq!(Mount::parse(bad), None, "{bad}");
        }
    }
}
