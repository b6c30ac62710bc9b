//! The only function that opens a program's file: it may be of any kind, and its owner may change it at any time.
//!
//! Opening a file has effects of its own: a device acts, a terminal becomes the caller's, a FIFO or a lease keeps the
//! caller waiting. So nothing is opened for writing before it is known to be a file in memory that cannot shrink.

use super::Refusal;
use crate::area::map::{is_in_memory, is_sealed};
use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The identity of a file: device and inode number, from fstat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The device number: `st_dev` of fstat(2).
    pub device: u64,
    /// The inode number: `st_ino` of fstat(2).
    pub inode: u64,
}

impl FileId {
    /// The identity of the file that `file` is open on, with `O_PATH` too.
    ///
    /// # Errors
    /// The failure of fstat(2).
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        status(file.as_fd()).map(|status| Self { device: status.st_dev, inode: status.st_ino })
    }
}

/// Opens the file behind `file` anew for reading and writing, if it is one that can be an area's. `file` may be open in
/// any way, best with `O_PATH`. The new open file description is the caller's alone: its locks end with the caller, not
/// with the program.
pub(super) fn reopen_vetted(file: BorrowedFd<'_>) -> Result<(OwnedFd, FileId), Refusal> {
    let (found, id) = (status(file)?, FileId::of(file)?);
    if found.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(Refusal::Unsealed);
    }
    // Pages of other file systems (of huge pages, of FUSE) may be missing when they are touched.
    if !is_in_memory(file)? {
        return Err(Refusal::NoArea);
    }
    let same = |opened: OwnedFd| match FileId::of(&opened) {
        Ok(other) if other == id => Ok(opened),
        Ok(_) => Err(Refusal::NoArea),
        Err(error) => Err(error.into()),
    };
    let read_only = same(reopen(file, libc::O_RDONLY)?)?;
    if !is_sealed(&read_only) {
        return Err(Refusal::Unsealed);
    }
    Ok((same(reopen(read_only.as_fd(), libc::O_RDWR)?)?, id))
}

fn reopen(file: BorrowedFd<'_>, access: i32) -> Result<OwnedFd, Refusal> {
    let mut path = String::with_capacity(32);
    let _ = write!(path, "/proc/self/fd/{}\0", file.as_raw_fd());
    let flags = access | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: `path` ends with a zero byte and lives until the call returns.
    let fd = unsafe { libc::open(path.as_ptr().cast(), flags) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        let is_leased = error.raw_os_error() == Some(libc::EWOULDBLOCK);
        return Err(if is_leased { Refusal::Leased } else { error.into() });
    }
    // SAFETY: the call has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn status(file: BorrowedFd<'_>) -> io::Result<libc::stat> {
    // SAFETY: a stat consists of integers, for which zeros are valid.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is borrowed, so it is open; `status` is valid for writing a stat.
    let result = unsafe { libc::fstat(file.as_raw_fd(), &mut status) };
    if result == 0 { Ok(status) } else { Err(io::Error::last_os_error()) }
}
