//! Which file systems are asked for anything: a program that serves one (FUSE) can keep a thread waiting so that not even its
//! process can end.

use crate::proc::read_at_most;
use rustix::fs::makedev;
use std::collections::HashMap;

/// How many bytes are read of a list of mounts, of which a user may have 100,000 in a namespace of its own.
const MOUNTS_MAX: u64 = 1 << 20;

/// What serves a device's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Kernel,
    Program,
}

/// The servers of all devices that are known by now. A device's number may mean another one in the next dump.
#[derive(Debug, Default)]
pub(super) struct FileSystems(Option<HashMap<u64, Server>>);

impl FileSystems {
    /// Who serves `device`, of which process `pid` has mapped a file; `None` if it is mounted neither here nor there, as memory
    /// without a path is.
    pub(super) fn server(&mut self, device: u64, pid: i32) -> Option<Server> {
        let known = self.0.get_or_insert_with(|| mounts("self"));
        if !known.contains_key(&device) {
            for (device, server) in mounts(&pid.to_string()) {
                known.entry(device).or_insert(server);
            }
        }
        known.get(&device).copied()
    }
}

fn mounts(process: &str) -> HashMap<u64, Server> {
    let bytes = read_at_most(&format!("/proc/{process}/mountinfo"), MOUNTS_MAX).unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().filter_map(mount).collect()
}

/// A line such as `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`.
fn mount(line: &str) -> Option<(u64, Server)> {
    let (head, tail) = line.split_once(" - ")?;
    let (major, minor) = head.split(' ').nth(2)?.split_once(':')?;
    let kind = tail.split(' ').next()?;
    // Also fuseblk and fuse.sshfs.
    let server = if kind.starts_with("fuse") { Server::Program } else { Server::Kernel };
    Some((makedev(major.parse().ok()?, minor.parse().ok()?), server))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn programs_that_serve_file_systems_are_known() {
        let line = |kind| format!("36 35 0:47 / /home/a/mnt rw,nosuid shared:3 - {kind} x rw,user_id=1000");
        assert_eq!(mount(&line("fuse.sshfs")), Some((makedev(0, 47), Server::Program)));
        assert_eq!(mount(&line("fuseblk")), Some((makedev(0, 47), Server::Program)));
        assert_eq!(mount(&line("ext4")), Some((makedev(0, 47), Server::Kernel)));
        assert_eq!(mount("36 35 0:47 / /"), None);
        let proc = std::fs::metadata("/proc").unwrap().dev();
        assert_eq!(FileSystems::default().server(proc, 1), Some(Server::Kernel));
        assert_eq!(FileSystems::default().server(u64::MAX, 1), None);
    }
}
