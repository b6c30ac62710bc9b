//! The files of a session, reached through a descriptor of its directory. They are this user's alone: nobody else can read or lock
//! one, no link is followed, and what somebody else put there is refused.

use crate::Failure;
use crate::failure::UNUSABLE;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use sordino_collect::{find_session_dir, runtime_dir};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// What a file's owner may do with it; others nothing.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// A session's directory.
#[derive(Debug)]
pub(super) struct Files {
    directory: OwnedFd,
    /// For messages only.
    path: PathBuf,
}

impl Files {
    /// The files of the session called `name`; `None` if there is no such directory.
    ///
    /// # Errors
    /// It is another user's, or somebody else could have put something there.
    pub(super) fn of(name: &str) -> Result<Option<Self>, Failure> {
        let path = runtime_dir().join(name);
        let Some(directory) = find_session_dir(name)? else { return Ok(None) };
        let owner = fstat(&directory)?.st_uid;
        if owner != geteuid().as_raw() {
            let text =
                format!("{}: the session belongs to user {owner}, who alone may ask it", path.display());
            return Err(Failure::new(UNUSABLE, text));
        }
        Ok(Some(Self { directory, path }))
    }

    /// Opens a file, which is made if it is not there, to append to it.
    pub(super) fn append(&self, name: &str) -> Result<File, Failure> {
        self.open(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    /// Opens a file that is there to read or lock it; `None` if there is none.
    pub(super) fn find(&self, name: &str) -> Result<Option<File>, Failure> {
        if !self.has(name) {
            return Ok(None);
        }
        self.open(name, OFlags::RDONLY).map(Some)
    }

    /// Whether something has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Whether `file` still has this name in a directory that still has its path.
    pub(super) fn is_current(&self, name: &str, file: &File) -> bool {
        let by_name = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let by_path = rustix::fs::lstat(&self.path);
        let same = |one: rustix::io::Result<rustix::fs::Stat>,
                    other: rustix::io::Result<rustix::fs::Stat>| {
            matches!((one, other), (Ok(one), Ok(other)) if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
        };
        same(by_name, fstat(file)) && same(by_path, fstat(&self.directory))
    }

    /// Replaces a file by one with this text, which is called `new` until it is whole.
    pub(super) fn replace(&self, name: &str, new: &str, text: &str) -> Result<(), Failure> {
        // Somebody else's is refused.
        self.find(name)?;
        match unlinkat(&self.directory, new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(self.refused(new, &error.to_string())),
        }
        self.open(new, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?.write_all(text.as_bytes())?;
        Ok(renameat(&self.directory, new, &self.directory, name)?)
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<File, Failure> {
        // NONBLOCK: a FIFO would keep this waiting before it is refused.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&self.directory, name, flags, MODE).map_err(|error| match error {
            Errno::LOOP => self.refused(name, "it is a link"),
            Errno::NXIO => self.refused(name, "it is no regular file"),
            error => Failure::new(UNUSABLE, format!("{}: {error}", self.path.join(name).display())),
        })?;
        let found = fstat(&file)?;
        if let Some(reason) = distrust(&found) {
            return Err(self.refused(name, &reason));
        }
        if found.st_mode & 0o777 != MODE.as_raw_mode() {
            // An older version's, or what the umask made of it.
            fchmod(&file, MODE)?;
        }
        Ok(file.into())
    }

    fn refused(&self, name: &str, reason: &str) -> Failure {
        Failure::new(
            UNUSABLE,
            format!("{}: {reason}; remove it and try again", self.path.join(name).display()),
        )
    }
}

/// Why a file is not this user's alone, whatever its mode.
fn distrust(found: &rustix::fs::Stat) -> Option<String> {
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Some("it is no regular file".to_owned());
    }
    if found.st_uid != geteuid().as_raw() {
        return Some(format!("it belongs to user {}", found.st_uid));
    }
    (found.st_nlink != 1).then(|| "it has another name too (a hard link)".to_owned())
}
