//! Makes directories, and checks that an existing one may be used.

use super::{DIR_MODE, Dir, beneath, is_regular, no_file, plain};
use beneath::Way;
use rustix::fs::{IFlags, Mode, OFlags, fstat, ioctl_getflags, ioctl_setflags, mkdirat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that was made or already existed.
#[derive(Clone, Debug)]
pub struct Made {
    /// The directory, held by its descriptor.
    pub dir: Arc<Dir>,
    /// The directory in which it was made.
    pub parent: Arc<Dir>,
    /// The directory's name in `parent`.
    pub name: OsString,
    /// True if the directory did not exist before.
    pub is_new: bool,
}

impl Made {
    /// Removes the directory if it is empty and still there.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove(&self) -> io::Result<()> {
        self.parent.remove_dir(&self.name)
    }
}

impl Dir {
    /// Makes the directory at `path` with mode 0700, and missing directories above it. Symbolic links in `path` are
    /// followed, except for the last component.
    ///
    /// # Errors
    /// `NotADirectory` if `path` is a link or a file; `PermissionDenied` if the new directory does not belong to this
    /// user; otherwise the kernel's error.
    pub fn make(path: &Path) -> io::Result<Made> {
        // A relative path starts at the working directory itself, not at its path, which leads elsewhere if somebody
        // renames a directory. `/`, `.` and `..` have no name of their own.
        let path = if path.file_name().is_none() { path.canonicalize()? } else { path.to_owned() };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "name a directory below the root"));
        };
        let mut parent = Self::open_or_make(parent)?;
        parent.path = std::path::absolute(&parent.path)?;
        let parent = Arc::new(parent);
        let (dir, is_new) = parent.make_dir(name, DIR_MODE)?;
        Ok(Made { dir: Arc::new(dir), parent, name: name.to_owned(), is_new })
    }

    fn open_or_make(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let Some(parent) = path.parent() else { return Err(io::ErrorKind::NotFound.into()) };
        let above = Self::open_or_make(parent)?;
        // `path` ends with `..`, in a directory that exists by now.
        let Some(name) = path.file_name() else { return Self::open(path) };
        // Directories above a recording get the usual mode, which the umask decides.
        above.make_dir(name, Mode::RWXU | Mode::RWXG | Mode::RWXO).map(|(dir, _)| dir)
    }

    /// Makes the directory `name` in this one, with mode 0700.
    ///
    /// # Errors
    /// `AlreadyExists` if the name exists; otherwise the errors of [`make`](Self::make).
    pub fn make_new(&self, name: impl AsRef<Path>) -> io::Result<Self> {
        let (dir, is_new) = self.make_dir(name.as_ref(), DIR_MODE)?;
        if is_new { Ok(dir) } else { Err(io::ErrorKind::AlreadyExists.into()) }
    }

    /// Opens the directory `name` in this one, and makes it if the name does not exist. The flag is true if it was
    /// made.
    fn make_dir(&self, name: impl AsRef<Path>, mode: Mode) -> io::Result<(Self, bool)> {
        let name = plain(name)?;
        let is_new = match mkdirat(self.as_fd(), &name, mode) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let opened = self.dir(&name);
        if is_new && opened.is_err() {
            // Opening may fail for lack of descriptors: a later attempt makes the directory again.
            let _ = self.remove_dir(&name);
        }
        let dir = opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP | Errno::NOTDIR) => io::Error::new(
                io::ErrorKind::NotADirectory,
                "it is no directory, or a link: name another one",
            ),
            _ => error,
        })?;
        let owner = fstat(dir.as_fd())?.st_uid;
        if is_new && owner != geteuid().as_raw() {
            let _ = self.remove_dir(&name);
            let reason =
                format!("what is made here belongs to user {owner}: name a directory on a local file system");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok((dir, is_new))
    }

    /// Returns the reason why this directory must not be written to or trusted: it is another user's, or others may
    /// write to it. `None` if it may be used.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn distrust(&self) -> io::Result<Option<String>> {
        let status = fstat(self.as_fd())?;
        Ok(distrust(status.st_uid, status.st_mode, geteuid().as_raw()))
    }

    /// Removes the group's write permission from a directory of this user, which a umask of 002 has granted. A
    /// directory that others can write to is left unchanged, and so is every directory if this process is root: a
    /// directory that root shares is meant to be shared.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn close_to_group(&self) -> io::Result<()> {
        let status = fstat(self.as_fd())?;
        let (own, mode) = (geteuid(), Mode::from_raw_mode(status.st_mode));
        if own.is_root() || status.st_uid != own.as_raw() || mode & (Mode::WGRP | Mode::WOTH) != Mode::WGRP {
            return Ok(());
        }
        Ok(rustix::fs::fchmod(self.as_fd(), mode - Mode::WGRP)?)
    }

    /// Asks the file system to place each directory in this one apart from the others, with its files: `chattr +T`
    /// (ext2 to ext4). A file system that knows no such attribute stays as it is.
    pub fn place_apart(&self) {
        if let Ok(flags) = ioctl_getflags(&self.fd) {
            let _ = ioctl_setflags(&self.fd, flags | IFlags::TOPDIR);
        }
    }

    /// Opens the directory at `path`, whose last component must not be a link, and which only this user may change.
    ///
    /// # Errors
    /// `PermissionDenied` with the reason; `NotADirectory`; otherwise the kernel's error.
    pub fn open_own(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let dir = Self { fd, path: PathBuf::from(path), way: Way::best() };
        match dir.distrust()? {
            Some(reason) => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason)),
            None => Ok(dir),
        }
    }
}

/// Returns the reason why `user` must not trust a directory of this owner and mode, with a remedy. Everybody trusts
/// root's directories.
pub(crate) fn distrust(owner: u32, mode: u32, own: u32) -> Option<String> {
    if owner != own {
        return Some(format!("it belongs to user {owner}, not to user {own}"));
    }
    (mode & 0o022 != 0).then(|| format!("its mode {:o} lets others write there: chmod go-w", mode & 0o7777))
}

/// Rejects a file that others could have written.
pub(crate) fn vet_file(file: &OwnedFd) -> io::Result<()> {
    let status = fstat(file)?;
    let own = geteuid().as_raw();
    let refused = |reason: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    match () {
        () if !is_regular(file)? => Err(no_file()),
        () if status.st_uid != own => {
            refused(format!("it belongs to user {}, not to user {own}", status.st_uid))
        }
        () if status.st_mode & 0o022 != 0 => {
            refused(format!("others may write to it (mode {:o})", status.st_mode & 0o7777))
        }
        () if status.st_nlink != 1 => refused(format!("it has {} names", status.st_nlink)),
        () => Ok(()),
    }
}
