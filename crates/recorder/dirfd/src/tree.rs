//! Operations on whole directories.

use super::{Dir, make, plain};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RawDir, Uid, chownat, fchown, fstat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Greatest depth of directories; sordino's own are far less deep.
const MOST_DEPTH: usize = 32;
/// Greatest number of names in a directory: another user's may have any number.
const MOST_NAMES: usize = 1 << 20;

impl Dir {
    /// Returns the sorted names in the directory.
    ///
    /// # Errors
    /// `OutOfMemory` if there are more than 2^20; otherwise the kernel's error.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        // A descriptor of its own has its own offset: reading through the held one would continue where the last reader
        // stopped.
        let fd = rustix::fs::openat(
            self.as_fd(),
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut space = vec![MaybeUninit::uninit(); 16 << 10];
        let mut entries = RawDir::new(fd, &mut space);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if names.len() == MOST_NAMES {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns true if the directory is empty.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn is_empty(&self) -> io::Result<bool> {
        self.names().map(|names| names.is_empty())
    }

    /// Returns the size of all files below in bytes. Unreadable entries count as 0.
    pub fn bytes(&self) -> u64 {
        self.bytes_to(MOST_DEPTH)
    }

    fn bytes_to(&self, depth: usize) -> u64 {
        let bytes = |name: OsString| match statat(self.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) if FileType::from_raw_mode(status.st_mode) == FileType::Directory && depth > 0 => {
                self.dir(&name).map_or(0, |inside| inside.bytes_to(depth - 1))
            }
            Ok(status) => status.st_size as u64,
            Err(_) => 0,
        };
        // The owner of a sparse file can give it any size.
        self.names().unwrap_or_default().into_iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// Removes the directory at `path` with all of its content, if it belongs to this user. Symbolic links in `path`
    /// are followed, except for the last component.
    ///
    /// # Errors
    /// `PermissionDenied` if it is no directory of this user, which is left unchanged then; otherwise the errors of
    /// [`remove_all`](Self::remove_all).
    pub fn remove(path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Self::open(parent)?.remove_own(name)
    }

    /// Removes the directory `name` in this one with all of its content, if it belongs to this user.
    ///
    /// # Errors
    /// The errors of [`remove`](Self::remove).
    pub fn remove_own(&self, name: impl AsRef<Path>) -> io::Result<()> {
        let refused =
            |reason: String| io::Error::new(io::ErrorKind::PermissionDenied, reason + ": left alone");
        let dir =
            self.dir(&name).map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::LOOP | Errno::NOTDIR) => refused("it is no directory".to_owned()),
                _ => error,
            })?;
        let owner = fstat(dir.as_fd())?.st_uid;
        if owner != geteuid().as_raw() {
            return Err(refused(format!("it belongs to user {owner}")));
        }
        self.remove_all(name)
    }

    /// Removes a file, or a directory with all of its content. From a directory of another user, only those entries are
    /// removed that this user could remove as well: no directories of others. Nothing is removed from a file system
    /// that is mounted there.
    ///
    /// # Errors
    /// The kernel's error, or an error if the tree is too deep, or if a directory in it belongs to another user or is a
    /// mount point. The remaining content is kept then.
    pub fn remove_all(&self, name: impl AsRef<Path>) -> io::Result<()> {
        self.remove_to(&plain(name)?, geteuid().as_raw(), MOST_DEPTH)
    }

    /// Removes `name`. `owner` is the owner of the directory that contains it, at first this user.
    fn remove_to(&self, name: &Path, owner: u32, depth: usize) -> io::Result<()> {
        match unlinkat(self.as_fd(), name, AtFlags::empty()) {
            Ok(()) => return Ok(()),
            // unlink(2) returns EISDIR for a directory on Linux, EPERM by POSIX.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let inside = self.dir(name)?;
        let (above, found) = (fstat(self.as_fd())?, fstat(inside.as_fd())?);
        if found.st_dev != above.st_dev {
            return Err(Errno::XDEV.into());
        }
        if owner != geteuid().as_raw() && found.st_uid != owner {
            let reason = format!("{}: it belongs to user {}", inside.path().display(), found.st_uid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let depth = depth.checked_sub(1).ok_or(io::Error::from(Errno::NAMETOOLONG))?;
        for name in inside.names()? {
            inside.remove_to(Path::new(&name), found.st_uid, depth)?;
        }
        self.remove_dir(name)
    }

    /// Gives this directory and its content to a user, as far as possible: directories of this user, and its files that
    /// have no other name. The content goes first: until then, only this user can change the directory. To be used only
    /// for a directory in which this process made everything.
    pub fn give(&self, uid: u32, gid: u32) {
        let Ok(found) = fstat(self.as_fd()) else { return };
        let own = geteuid().as_raw();
        if found.st_uid != own {
            return;
        }
        let (user, group) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        for name in self.names().unwrap_or_default() {
            let Ok(inside) = statat(self.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(inside.st_mode) {
                _ if inside.st_uid != own => {}
                // overlayfs reports another device for files than for directories.
                FileType::Directory if inside.st_dev == found.st_dev => {
                    _ = self.dir(&name).map(|inside| inside.give(uid, gid));
                }
                FileType::RegularFile if inside.st_nlink == 1 => {
                    _ = chownat(self.as_fd(), &name, user, group, AtFlags::SYMLINK_NOFOLLOW);
                }
                _ => {}
            }
        }
        let _ = fchown(self.as_fd(), user, group);
    }

    /// Returns true if the directory's parent belongs to the user `uid`.
    pub fn lies_with(&self, uid: u32) -> bool {
        statat(self.as_fd(), "..", AtFlags::empty()).is_ok_and(|above| above.st_uid == uid)
    }

    /// Gives this directory, but none of its content, to a user, if it belongs to this one.
    pub fn give_alone(&self, uid: u32, gid: u32) {
        if fstat(self.as_fd()).is_ok_and(|found| found.st_uid == geteuid().as_raw()) {
            let _ = fchown(self.as_fd(), Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        }
    }

    /// Takes back a directory that was [given](Self::give) to `owner`, but none of its content: from now on, only this
    /// user changes its names.
    ///
    /// # Errors
    /// `PermissionDenied` if it belongs to a third user; otherwise the kernel's error.
    pub fn take_back(&self, owner: u32) -> io::Result<()> {
        let status = fstat(self.as_fd())?;
        if status.st_uid != owner {
            let reason = format!("it belongs to user {}, not to user {owner}", status.st_uid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        fchown(self.as_fd(), Some(geteuid()), None)?;
        Ok(rustix::fs::fchmod(self.as_fd(), super::DIR_MODE)?)
    }

    /// Rejects a tree in which another user could have placed anything: each directory and file must belong to this
    /// user, others must not be able to write to it, and there must be nothing else.
    ///
    /// # Errors
    /// The path of the rejected entry, with the reason or the kernel's error.
    pub fn vet(&self) -> Result<(), (PathBuf, io::Error)> {
        self.vet_to(MOST_DEPTH)
    }

    fn vet_to(&self, depth: usize) -> Result<(), (PathBuf, io::Error)> {
        let failed = |error: io::Error| (self.path().to_owned(), error);
        if let Some(reason) = self.distrust().map_err(failed)? {
            return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, reason)));
        }
        let depth = depth.checked_sub(1).ok_or_else(|| failed(Errno::NAMETOOLONG.into()))?;
        for name in self.names().map_err(failed)? {
            match self.dir(&name) {
                Ok(inside) => inside.vet_to(depth)?,
                Err(_) => {
                    let file = self.at(Path::new(&name), OFlags::RDONLY, Mode::empty());
                    let vetted = file.and_then(|file| make::vet_file(&file));
                    vetted.map_err(|error| (self.path().join(&name), error))?;
                }
            }
        }
        Ok(())
    }
}
