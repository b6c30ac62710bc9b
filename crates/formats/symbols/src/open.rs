//! The contents of a file, with a check of its kind and size.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, openat, statx};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The maximum size of a file that is read, in bytes.
const FILE_MAX: u64 = 128 << 20;

/// Returns the contents of a regular file of at most `max` bytes. Other files are rejected: opening a device may act on
/// it, opening a FIFO may wait.
pub(crate) fn contents(path: &Path, max: u64) -> Option<Vec<u8>> {
    let max = max.min(FILE_MAX);
    let found = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let status = statx(&found, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE | StatxFlags::SIZE).ok()?;
    let is_regular = FileType::from_raw_mode(status.stx_mode.into()) == FileType::RegularFile;
    if !is_regular || status.stx_size > max {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File =
        openat(CWD, format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty()).ok()?.into();
    let mut data = Vec::new();
    // The file may grow meanwhile.
    file.take(max + 1).read_to_end(&mut data).ok()?;
    (data.len() as u64 <= max).then_some(data)
}
