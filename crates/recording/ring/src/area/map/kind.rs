//! The kind of a file: in memory, and sealed.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Returns true if the file lies in a tmpfs. Its pages are there whenever they are touched. Those of huge pages, a file
/// system of their own, may be missing: touching one raises a signal.
pub(crate) fn is_in_memory(file: BorrowedFd<'_>) -> io::Result<bool> {
    // SAFETY: a statfs consists of integers, for which zeros are valid.
    let mut status: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is borrowed, so it is open; `status` is valid for writing a statfs.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), &mut status) };
    if result == 0 { Ok(status.f_type == libc::TMPFS_MAGIC) } else { Err(io::Error::last_os_error()) }
}

/// The seals of an area's file: it can never shrink under its mappings, and nobody can add another seal.
pub(crate) const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
/// The seals with which the kernel refuses to give back pages of the file.
const KEEPING_PAGES: libc::c_int = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE;

/// Returns true if the file can never shrink under its mappings, and its pages can always be given back.
pub(crate) fn is_sealed(file: &impl AsRawFd) -> bool {
    // SAFETY: F_GET_SEALS takes no argument, and the descriptor is open as long as it is borrowed; it fails for a file
    // that has no seals.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & (SEALS | KEEPING_PAGES) == SEALS
}
