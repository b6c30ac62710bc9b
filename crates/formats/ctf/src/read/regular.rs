//! Opening of a trace's files. Their directory may contain anything.

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Opens a regular file for reading, also through a link. Other files are rejected: opening a FIFO would wait for ever,
/// and opening a device may have effects.
///
/// # Errors
/// If `path` leads to something else, or the system refuses.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let found = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let before = fstat(&found)?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(CWD, format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty()) {
        // Without /proc, the opened file has to be the same one as before.
        Err(Errno::NOENT | Errno::NOTDIR) => {
            let file = openat(CWD, path, flags, Mode::empty())?;
            let now = fstat(&file)?;
            let same = (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino);
            same.then(|| file.into()).ok_or_else(|| io::Error::other("it was replaced meanwhile"))
        }
        opened => Ok(opened?.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkfifoat;
    use std::fs;

    #[test]
    fn only_regular_files_are_opened() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::write(path("file"), "text").unwrap();
        mkfifoat(CWD, path("fifo"), Mode::RWXU).unwrap();
        for (link, target) in [("a", "file"), ("b", "fifo"), ("c", "/dev/zero"), ("d", "."), ("e", "nowhere")]
        {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
        }
        assert_eq!(io::read_to_string(open(&path("a")).unwrap()).unwrap(), "text");
        for name in ["fifo", "b", "c", "d"] {
            assert_eq!(open(&path(name)).unwrap_err().to_string(), "it is no regular file", "{name}");
        }
        assert_eq!(open(&path("e")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
