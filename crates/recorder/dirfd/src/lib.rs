//! File operations below a directory that is held by its descriptor.
//!
//! A recorder that runs as root writes beside programs that may rename its directories and put symbolic links in their
//! place. A [`Dir`] is opened once; from then on, files are created, read, replaced and removed below its descriptor.
//! No path is resolved a second time, and no symbolic link is followed.
//!
//! | file | purpose |
//! |---|---|
//! | `beneath` | opens a name below a descriptor: openat2(2), or one component at a time |
//! | `make` | makes directories, and checks that an existing one may be used |
//! | `remedy`, `write_error` | remedies for failed writes; the error of one |
//! | `report` | writes a file for its user: a report, a picture |
//! | `tree` | operates on whole directories: their size, removal, ownership and vetting |
//! | `unfinished` | names and locks of files and directories that are not whole yet |
//! | `whole` | writes a file that gets its name when it is whole |
//! | `whole_dir` | the same for a directory |
//!
//! Not for the recording path: every call allocates and makes system calls.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # let place = tempfile::tempdir()?;
//! let made = sordino_dirfd::Dir::make(&place.path().join("results"))?;
//! made.dir.replace("report.json", b"{}\n")?;
//! assert_eq!(made.dir.read_text("report.json", 1 << 20)?, "{}\n");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod beneath;
mod make;
mod remedy;
mod report;
mod tree;
mod unfinished;
mod whole;
mod whole_dir;
mod write_error;

pub use make::Made;
pub use remedy::{lacks_descriptors, remedy};
pub use report::ReportFile;
pub use whole::WholeFile;
pub use whole_dir::WholeDir;
pub use write_error::WriteError;

use beneath::Way;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, fstat, renameat, statat, unlinkat};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Permissions of files: the owner's alone, because a recording contains processes, addresses and data of all users.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Permissions of directories: the owner's alone.
const DIR_MODE: Mode = Mode::RWXU;

/// A directory that is held by its descriptor.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    /// Path for messages only: the directory may have been renamed since.
    path: PathBuf,
    way: Way,
}

impl Dir {
    /// Opens the directory at `path`. Symbolic links in `path` are followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { fd, path: path.to_owned(), way: Way::best() })
    }

    /// Returns the path by which the directory was opened, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path that leads to this directory even if it was renamed, as long as this process holds it; for code
    /// that needs a path.
    pub fn proc_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd()).into()
    }

    /// Returns true if `path`, without following a link, is this directory.
    pub fn is_at(&self, path: &Path) -> bool {
        let there = rustix::fs::lstat(path);
        there.is_ok_and(|there| self.identity().is_ok_and(|own| own == (there.st_dev, there.st_ino)))
    }

    /// Returns the directory's device and inode.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let status = fstat(&self.fd)?;
        Ok((status.st_dev, status.st_ino))
    }

    /// Opens the directory `name` in this one.
    ///
    /// # Errors
    /// `NotADirectory` if it is a link or a file; otherwise the kernel's error.
    pub fn dir(&self, name: impl AsRef<Path>) -> io::Result<Self> {
        let fd = self.at(name.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self { fd, path: self.path.join(name), way: self.way })
    }

    /// Creates a file with mode 0600.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a file or link of that name; otherwise the kernel's error.
    pub fn create(&self, name: impl AsRef<Path>) -> io::Result<File> {
        self.at(name.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, FILE_MODE).map(File::from)
    }

    /// Opens a regular file for reading. Never blocks, whatever kind of file it is.
    ///
    /// # Errors
    /// `InvalidInput` if it is no regular file; otherwise the kernel's error.
    pub fn read(&self, name: impl AsRef<Path>) -> io::Result<File> {
        let file = self.at(name.as_ref(), OFlags::RDONLY, Mode::empty())?;
        if is_regular(&file)? { Ok(file.into()) } else { Err(no_file()) }
    }

    /// Reads the text of a regular file of at most `most` bytes.
    ///
    /// # Errors
    /// `InvalidData` if the file is longer or not UTF-8; otherwise the errors of [`read`](Self::read).
    pub fn read_text(&self, name: impl AsRef<Path>, most: u64) -> io::Result<String> {
        text_of(self.read(name)?, most)
    }

    /// Opens a regular file of this user that has no other name, for reading and writing.
    ///
    /// # Errors
    /// `PermissionDenied` if the file is another user's, if others may write to it, or if it has a second name;
    /// otherwise the errors of [`read`](Self::read).
    pub fn edit(&self, name: impl AsRef<Path>) -> io::Result<File> {
        let name = name.as_ref();
        // The file is vetted before it is opened for writing: no other user's file ever is.
        make::vet_file(&self.at(name, OFlags::RDONLY, Mode::empty())?)?;
        let file = self.at(name, OFlags::RDWR, Mode::empty())?;
        make::vet_file(&file)?;
        Ok(file.into())
    }

    /// Replaces or creates a file as a whole: readers get either the old or the new content. The new content is written
    /// to `.NAME.new` first.
    ///
    /// # Errors
    /// The kernel's error; the old content is kept then.
    pub fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.replace_with(name, content, |_| Ok(()))
    }

    /// Replaces a file like [`replace`](Self::replace), with the new content on disk before the file gets its name: a
    /// power failure leaves the old or the new content.
    ///
    /// # Errors
    /// `AlreadyExists`, or the kernel's error for the new file; the old content is kept then.
    pub fn replace_durably(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.replace_with(name, content, File::sync_all)
    }

    /// Replaces a file like [`replace_durably`](Self::replace_durably), for another user and group. The new file
    /// belongs to them before it gets its name, because that user may give the name to another file at any moment.
    ///
    /// # Errors
    /// `AlreadyExists`, or the kernel's error for the new file; the old content is kept then.
    pub fn replace_durably_for(&self, name: &str, content: &[u8], (uid, gid): (u32, u32)) -> io::Result<()> {
        self.replace_with(name, content, |file| {
            rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
            file.sync_all()
        })
    }

    fn replace_with(
        &self,
        name: &str,
        content: &[u8],
        settle: impl Fn(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let new = format!(".{name}.new");
        // Left behind by a writer that was killed.
        let _ = self.remove_file(&new);
        let mut file = self.create(&new)?;
        let written = file.write_all(content).and_then(|()| settle(&file));
        let replaced = written.and_then(|()| self.rename(&new, name));
        replaced.inspect_err(|_| _ = self.remove_file(&new))
    }

    /// Renames a file within the directory. An existing file `to` is replaced.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, plain(from)?, &self.fd, plain(to)?)?)
    }

    /// Removes a file or a symbolic link.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.fd, plain(name)?, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_dir(&self, name: impl AsRef<Path>) -> io::Result<()> {
        Ok(unlinkat(&self.fd, plain(name)?.as_path(), AtFlags::REMOVEDIR)?)
    }

    /// Returns true if the name exists, even as a dangling link.
    pub fn has(&self, name: impl AsRef<Path>) -> bool {
        plain(name).is_ok_and(|name| statat(&self.fd, name.as_path(), AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    fn at(&self, name: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        beneath::open(self.fd.as_fd(), name, flags, mode, self.way)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Reads the text of the regular file at `path`, of at most `most` bytes. Symbolic links in `path` are followed. Never
/// blocks, whatever kind of file it is.
///
/// # Errors
/// The errors of [`Dir::read_text`].
pub fn read_regular(path: &Path, most: u64) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    if is_regular(&file)? { text_of(file.into(), most) } else { Err(no_file()) }
}

fn text_of(file: File, most: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text)?;
    let is_whole = text.len() as u64 <= most;
    is_whole
        .then_some(text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("longer than {most} bytes")))
}

fn is_regular(file: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode) == FileType::RegularFile)
}

fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

/// Checks that a name is a single component, neither `.` nor `..`.
fn plain(name: impl AsRef<Path>) -> io::Result<PathBuf> {
    let name = name.as_ref();
    let mut parts = name.components();
    let is_plain = matches!((parts.next(), parts.next()), (Some(std::path::Component::Normal(_)), None));
    is_plain
        .then(|| name.to_owned())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("{}: no name", name.display())))
}

#[cfg(test)]
mod tests;
