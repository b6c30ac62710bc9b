//! The files of a session, accessed through a descriptor of its directory. They belong to this user alone: nobody else
//! can read or lock one, symbolic links are not followed, and another user's file is refused.

use crate::Error;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use sordino_intake::runtime::{find_session_dir, runtime_dir};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The mode of a session's file: read and write for its owner, nothing for others.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// The files in a session's directory.
#[derive(Debug)]
pub(crate) struct SessionFiles {
    directory: OwnedFd,
    /// The directory's path, for messages and to check that it is still this directory.
    path: PathBuf,
}

impl SessionFiles {
    /// Opens the directory of the session called `name`; `None` if it does not exist.
    ///
    /// # Errors
    /// It belongs to another user, or others may write to it.
    pub(crate) fn of(name: &str) -> Result<Option<Self>, Error> {
        let path = runtime_dir().join(name);
        let Some(directory) = find_session_dir(name)? else { return Ok(None) };
        let owner = fstat(&directory)?.st_uid;
        if owner != geteuid().as_raw() {
            let text =
                format!("{}: the session belongs to user {owner}, who alone may control it", path.display());
            return Err(Error::Unusable(text));
        }
        Ok(Some(Self { directory, path }))
    }

    /// Opens a file to append to it; makes it if it does not exist.
    pub(crate) fn append(&self, name: &str) -> Result<File, Error> {
        self.open(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    /// Opens an existing file to read or lock it; `None` if it does not exist.
    pub(crate) fn find(&self, name: &str) -> Result<Option<File>, Error> {
        if !self.has(name) {
            return Ok(None);
        }
        self.open(name, OFlags::RDONLY).map(Some)
    }

    /// Returns true if something has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns true if `file` still has this name, in a directory that still has its path.
    pub(crate) fn is_current(&self, name: &str, file: &File) -> bool {
        let by_name = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let by_path = rustix::fs::lstat(&self.path);
        let same = |one: rustix::io::Result<rustix::fs::Stat>,
                    other: rustix::io::Result<rustix::fs::Stat>| {
            matches!((one, other), (Ok(one), Ok(other)) if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
        };
        same(by_name, fstat(file)) && same(by_path, fstat(&self.directory))
    }

    /// Replaces a file by one with this text, which has the name `new` until it is complete.
    pub(crate) fn replace(&self, name: &str, new: &str, text: &str) -> Result<(), Error> {
        // Another user's file is refused.
        self.find(name)?;
        match unlinkat(&self.directory, new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(self.refused(new, &error.to_string())),
        }
        self.open(new, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?.write_all(text.as_bytes())?;
        Ok(renameat(&self.directory, new, &self.directory, name)?)
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<File, Error> {
        // NONBLOCK: opening a FIFO would block before it is refused.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&self.directory, name, flags, MODE).map_err(|error| match error {
            Errno::LOOP => self.refused(name, "it is a link"),
            Errno::NXIO => self.refused(name, "it is no regular file"),
            error => Error::Unusable(format!("{}: {error}", self.path.join(name).display())),
        })?;
        let found = fstat(&file)?;
        if let Some(reason) = distrust(&found) {
            return Err(self.refused(name, &reason));
        }
        if found.st_mode & 0o777 != MODE.as_raw_mode() {
            // An older version, or the umask, gave it this mode.
            fchmod(&file, MODE)?;
        }
        Ok(file.into())
    }

    fn refused(&self, name: &str, reason: &str) -> Error {
        Error::Unusable(format!("{}: {reason}; remove it and try again", self.path.join(name).display()))
    }
}

/// Returns the reason why a file does not belong to this user alone, regardless of its mode.
fn distrust(found: &rustix::fs::Stat) -> Option<String> {
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Some("it is no regular file".to_owned());
    }
    if found.st_uid != geteuid().as_raw() {
        return Some(format!("it belongs to user {}", found.st_uid));
    }
    (found.st_nlink != 1).then(|| "it has another name too (a hard link)".to_owned())
}
