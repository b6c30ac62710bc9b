//! The servers of file systems. A program that serves one (FUSE) can block a thread so that not even its process can
//! end. A stacked file system (overlayfs) may be on top of such a one if a user mounted it in a mount namespace of
//! their own.

use rustix::fs::makedev;
use sordino_proc::mounts::{self, Mount};
use std::collections::HashMap;
use std::io;

/// The server of a device's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileServer {
    Kernel,
    /// The kernel, where `stat` shows other devices than `maps`: btrfs and overlayfs.
    KernelElsewhere,
    Program,
}

/// The servers of all devices known so far. A device's number may denote another device in the next dump.
#[derive(Debug, Default)]
pub(super) struct FileSystems(Option<HashMap<u64, FileServer>>);

impl FileSystems {
    /// Returns the server of `device`, of which process `pid` has mapped a file; `None` if it is mounted neither in our
    /// mount namespace nor in the process's, like memory without a path.
    pub(super) fn server(&mut self, device: u64, pid: i32) -> Option<FileServer> {
        let known = self.0.get_or_insert_with(|| servers(mounts::own(), |kind| !is_program(kind)));
        if !known.contains_key(&device) {
            for (device, server) in servers(mounts::of(pid), |kind| LOCAL.contains(&kind)) {
                known.entry(device).or_insert(server);
            }
        }
        known.get(&device).copied()
    }
}

/// File system types that depend on no other program, whoever mounted them. Mounts in our own namespace are the
/// administrator's responsibility.
const LOCAL: [&str; 14] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "ramfs", "squashfs", "erofs", "vfat", "exfat",
    "iso9660", "zfs",
];

/// Returns true for `fuse` and its variants, such as fuseblk and fuse.sshfs.
fn is_program(kind: &str) -> bool {
    kind.starts_with("fuse")
}

fn servers(list: io::Result<String>, is_kernels: fn(&str) -> bool) -> HashMap<u64, FileServer> {
    mounts::mounts(&list.unwrap_or_default()).map(|mount| server(mount, is_kernels)).collect()
}

/// Returns the device of a mount, and its server.
fn server(mount: Mount<'_>, is_kernels: fn(&str) -> bool) -> (u64, FileServer) {
    let server = match mount.kind {
        kind if !is_kernels(kind) => FileServer::Program,
        "btrfs" | "overlay" => FileServer::KernelElsewhere,
        _ => FileServer::Kernel,
    };
    let (major, minor) = mount.device;
    (makedev(major, minor), server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn programs_that_serve_file_systems_are_known() {
        let line = |kind| format!("36 35 0:47 / /home/a/mnt rw,nosuid shared:3 - {kind} x rw,user_id=1000");
        let ours = |kind: &str| !is_program(kind);
        let theirs = |kind: &str| LOCAL.contains(&kind);
        let of = |kind, is_kernels| server(Mount::parse(&line(kind)).unwrap(), is_kernels);
        let at = |server| (makedev(0, 47), server);
        assert_eq!(of("fuse.sshfs", ours), at(FileServer::Program));
        assert_eq!(of("fuseblk", theirs), at(FileServer::Program));
        assert_eq!(of("ext4", theirs), at(FileServer::Kernel));
        assert_eq!(of("overlay", ours), at(FileServer::KernelElsewhere));
        assert_eq!(of("overlay", theirs), at(FileServer::Program));
        let proc = std::fs::metadata("/proc").unwrap().dev();
        assert_eq!(FileSystems::default().server(proc, 1), Some(FileServer::Kernel));
        assert_eq!(FileSystems::default().server(u64::MAX, 1), None);
    }
}
