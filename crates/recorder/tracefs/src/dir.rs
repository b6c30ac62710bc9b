//! Files of the tracer, accessed through descriptors of directories, because the mount may have no path.

use crate::Error;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, chmodat, chownat, openat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A directory in tracefs.
#[derive(Debug)]
pub(crate) struct TracefsDir {
    pub(crate) fd: OwnedFd,
    /// Path for messages only.
    path: PathBuf,
}

impl TracefsDir {
    pub(crate) fn new(fd: OwnedFd, path: impl Into<PathBuf>) -> Self {
        Self { fd, path: path.into() }
    }

    /// Returns the path of the file `name`, for messages.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn directory(&self, name: &str) -> Result<Self, Error> {
        let fd = self.open("open", name, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Self::new(fd, self.path(name)))
    }

    /// Opens `name` for reading without blocking.
    pub(crate) fn source(&self, name: &str) -> Result<OwnedFd, Error> {
        self.open("open", name, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    fn open(&self, action: &'static str, name: &str, flags: OFlags) -> Result<OwnedFd, Error> {
        openat(&self.fd, name, flags | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| Error::io(action, &self.path(name), errno))
    }

    pub(crate) fn read(&self, name: &str) -> Result<String, Error> {
        let file = self.open("read", name, OFlags::RDONLY)?;
        let mut bytes = Vec::new();
        // Some of these files return nothing after the first read, so that one must get everything.
        let mut buffer = vec![0; 1 << 16];
        loop {
            match rustix::io::read(&file, &mut buffer) {
                Ok(0) => break,
                Ok(length) => bytes.extend_from_slice(&buffer[..length]),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io("read", &self.path(name), errno)),
            }
        }
        String::from_utf8(bytes).map_err(|error| Error::Unexpected {
            path: self.path(name),
            expected: "text",
            found: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }

    /// Replaces the content of `name`.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let file = self.open("write", name, OFlags::WRONLY | OFlags::TRUNC)?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match rustix::io::write(&file, rest) {
                Ok(0) => return Err(Error::io("write", &self.path(name), Errno::IO)),
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io("write", &self.path(name), errno)),
            }
        }
        Ok(())
    }

    /// Writes `text` to a setting that must read back the same.
    pub(crate) fn set(&self, name: &str, text: &str) -> Result<(), Error> {
        self.write(name, text)?;
        let got = self.read(name)?;
        if got.trim() == text {
            return Ok(());
        }
        let got = got.trim().to_owned();
        Err(Error::NotTaken { path: self.path(name), requested: text.to_owned(), got })
    }

    /// Sets the group of `name`, and adds these bits to its mode.
    pub(crate) fn give(&self, name: &str, group: u32, bits: u32) -> Result<(), Error> {
        let change = || -> rustix::io::Result<()> {
            chownat(&self.fd, name, None, Some(Gid::from_raw(group)), AtFlags::empty())?;
            let mode = statat(&self.fd, name, AtFlags::empty())?.st_mode;
            chmodat(&self.fd, name, Mode::from_raw_mode(mode & 0o7777 | bits), AtFlags::empty())
        };
        change().map_err(|errno| Error::io("give away", &self.path(name), errno))
    }

    /// Removes the group's permissions for `name`, and makes root its group.
    pub(crate) fn withdraw(&self, name: &str) -> Result<(), Error> {
        let change = || -> rustix::io::Result<()> {
            let mode = statat(&self.fd, name, AtFlags::empty())?.st_mode;
            chmodat(&self.fd, name, Mode::from_raw_mode(mode & 0o7707), AtFlags::empty())?;
            chownat(&self.fd, name, None, Some(Gid::ROOT), AtFlags::empty())
        };
        change().map_err(|errno| Error::io("take back", &self.path(name), errno))
    }

    /// Returns the permission bits of `name`.
    pub(crate) fn mode(&self, name: &str) -> Result<u32, Error> {
        let status = statat(&self.fd, name, AtFlags::empty());
        Ok(status.map_err(|errno| Error::io("inspect", &self.path(name), errno))?.st_mode & 0o7777)
    }

    /// Returns the sorted names of the directory's entries.
    pub(crate) fn entries(&self) -> Result<Vec<String>, Error> {
        let list = || -> rustix::io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in rustix::fs::Dir::read_from(&self.fd)? {
                let entry = entry?;
                match entry.file_name().to_str() {
                    Ok("." | "..") | Err(_) => {}
                    Ok(name) => names.push(name.to_owned()),
                }
            }
            Ok(names)
        };
        let mut names = list().map_err(|errno| Error::io("list", &self.path, errno))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Reads the number in `name`; the kernel may append a remark to it.
    pub(crate) fn number(&self, name: &str) -> Result<u64, Error> {
        let text = self.read(name)?;
        let number = text.split_whitespace().next().and_then(|word| word.parse().ok());
        number.ok_or_else(|| Error::Unexpected {
            path: self.path(name),
            expected: "a number",
            found: text.trim().to_owned(),
        })
    }
}
