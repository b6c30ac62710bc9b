//! Opens a file that another process has mapped: exactly that file, without waiting, whatever is at its path now.

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags, fstat, makedev, openat, openat2,
    statx,
};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

/// The identity of a file in `/proc/PID/maps`: its device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InodeId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// A mapped file and its address range in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) pid: i32,
    /// The first address, and the one after the last.
    pub(super) range: (u64, u64),
    pub(super) path: String,
    pub(super) file: InodeId,
}

/// A mapped file that has been opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) stat: Stat,
    /// True if its device number is that of `maps`, so that it denotes the same file in any process.
    pub(super) exact: bool,
}

/// The reason that a mapped file could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// The file is gone, not permitted, or cannot have a build id.
    Nothing,
    /// Another file is at its path.
    Replaced,
    /// Another process holds a lease on it.
    Lease,
    /// A program serves its file system.
    Served,
}

/// Opens a mapped file for reading. With `has_other_devices`, its file system has other devices in `stat` than in
/// `maps`.
///
/// # Errors
/// [`Skip`], the reason that it could not be opened.
pub(super) fn open(mapped: &Mapped, has_other_devices: bool) -> Result<Opened, Skip> {
    match find_mapping(mapped) {
        // Another file has been mapped there since: the process no longer has this one.
        Ok(found) => check(&found, mapped, has_other_devices).map_err(|why| match why {
            Skip::Replaced => Skip::Nothing,
            why => why,
        }),
        // `map_files` needs CAP_CHECKPOINT_RESTORE in the initial user namespace.
        Err(Errno::PERM | Errno::ACCESS) => check(&find_path(&mapped.path)?, mapped, has_other_devices),
        Err(_) => Err(Skip::Nothing),
    }
}

/// Opens the file behind the mapping with `O_PATH`.
fn find_mapping(mapped: &Mapped) -> Result<OwnedFd, Errno> {
    let ((start, end), pid) = (mapped.range, mapped.pid);
    let path = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Opens `path` with `O_PATH`. Paths in `maps` contain no symbolic links, so none is followed.
fn find_path(path: &str) -> Result<OwnedFd, Skip> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let found = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Linux before 5.6, or a container that forbids the call.
        Err(Errno::NOSYS | Errno::PERM) => openat(CWD, path, flags, Mode::empty()),
        found => found,
    };
    found.map_err(|error| if error == Errno::LOOP { Skip::Replaced } else { Skip::Nothing })
}

/// Opens `found` if it is the mapped file and a regular one. Until that is known, its file system receives no request,
/// and no FIFO or device is opened: a file of a file system that never answers may be mapped there by now.
fn check(found: &OwnedFd, mapped: &Mapped, has_other_devices: bool) -> Result<Opened, Skip> {
    let before = known_status(found).or(Err(Skip::Nothing))?;
    let is_device = before.device == mapped.file.device;
    if before.inode != mapped.file.inode || !(is_device || has_other_devices) {
        return Err(Skip::Replaced);
    }
    if !before.is_regular {
        return Err(Skip::Nothing);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty());
    let file = file.map_err(|error| if error == Errno::AGAIN { Skip::Lease } else { Skip::Nothing })?;
    let stat = fstat(&file).or(Err(Skip::Nothing))?;
    let same = (stat.st_dev, stat.st_ino) == (before.device, before.inode);
    same.then(|| Opened { file: file.into(), stat, exact: is_device }).ok_or(Skip::Replaced)
}

/// Attributes of a file that the kernel knows without a request to its file system.
struct CachedStatus {
    device: u64,
    inode: u64,
    is_regular: bool,
}

fn known_status(file: &OwnedFd) -> Result<CachedStatus, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let status = statx(file, c"", flags, StatxFlags::TYPE | StatxFlags::INO)?;
    Ok(CachedStatus {
        device: makedev(status.stx_dev_major, status.stx_dev_minor),
        inode: status.stx_ino,
        is_regular: FileType::from_raw_mode(status.stx_mode.into()) == FileType::RegularFile,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkfifoat;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    /// Opens a file like an unprivileged recorder, by path.
    fn by_path(path: &std::path::Path, of: &fs::Metadata) -> Result<Opened, Skip> {
        let file = InodeId { device: of.dev(), inode: of.ino() };
        let path = path.to_str().unwrap().to_owned();
        let mapped = Mapped { pid: 0, range: (0, 0), path, file };
        check(&find_path(&mapped.path)?, &mapped, false)
    }

    #[test]
    fn another_file_at_the_path_is_never_opened() {
        let root = tempfile::tempdir().unwrap();
        let (path, other) = (root.path().join("file"), root.path().join("other"));
        fs::write(&path, "text").unwrap();
        fs::write(&other, "other").unwrap();
        let of = fs::metadata(&path).unwrap();
        let opened = by_path(&path, &of).unwrap();
        assert!(opened.exact && opened.stat.st_size == 4);
        assert_eq!(by_path(&other, &of).unwrap_err(), Skip::Replaced);
        fs::rename(&path, root.path().join("moved")).unwrap();
        assert_eq!(by_path(&path, &of).unwrap_err(), Skip::Nothing);
        symlink("moved", &path).unwrap();
        assert_eq!(by_path(&path, &of).unwrap_err(), Skip::Replaced);
        fs::remove_file(&path).unwrap();
        mkfifoat(CWD, &path, Mode::RWXU).unwrap();
        assert_eq!(by_path(&path, &of).unwrap_err(), Skip::Replaced);
        assert_eq!(by_path(&path, &fs::metadata(&path).unwrap()).unwrap_err(), Skip::Nothing);
    }

    #[test]
    fn a_file_that_was_unmapped_meanwhile_is_not_called_replaced() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let (range, _) = maps.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let address = |text| u64::from_str_radix(text, 16).unwrap();
        let mapped = Mapped {
            pid: std::process::id() as i32,
            range: (address(start), address(end)),
            path: "/proc/self/maps".to_owned(),
            file: InodeId { device: 1, inode: u64::MAX },
        };
        let by_mapping = find_mapping(&mapped).is_ok();
        let expected = if by_mapping { Skip::Nothing } else { Skip::Replaced };
        assert_eq!(open(&mapped, true).unwrap_err(), expected);
    }
}
