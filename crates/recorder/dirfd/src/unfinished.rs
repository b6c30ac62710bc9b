//! Names and locks of files and directories that are not whole yet.
//!
//! Each has a random name and a lock as long as its writer lives, so that several writers of one name do not disturb
//! each other, and the next one removes what killed writers left behind.

use super::{Dir, plain};
use rustix::fs::{AtFlags, FlockOperation, RenameFlags, flock, fstat, linkat, renameat_with, unlinkat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Age from which on a file or a directory without a lock is one that a killed writer left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// Returns the name under which `name` is written, which no other writer has.
pub(crate) fn new_name(name: &str) -> io::Result<String> {
    let mut random = [0; 8];
    // So few bytes come at once.
    getrandom(&mut random, GetRandomFlags::empty())?;
    Ok(format!(".{name}.{:016x}.new", u64::from_ne_bytes(random)))
}

/// Returns true if `entry` is a name under which `name` is written.
pub(crate) fn is_new_name(entry: &OsStr, name: &str) -> bool {
    let random = entry.to_str().and_then(|entry| {
        entry.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".new")
    });
    random.is_some_and(|random| random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Marks a file or a directory as one whose writer lives. Where the file system has no locks, what killed writers leave
/// behind is kept.
pub(crate) fn lock(written: impl AsFd) -> bool {
    flock(written, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Removes this user's files and directories for `name` whose writers do not live any more.
pub(crate) fn remove_left_behind(dir: &Dir, name: &str) {
    let entries = dir.names().unwrap_or_default();
    for entry in entries.iter().filter(|entry| is_new_name(entry, name)).filter_map(|entry| entry.to_str()) {
        // What can't be removed is left for the next writer.
        let _ = match (dir.edit(entry), dir.dir(entry)) {
            (Ok(file), _) if is_old(&file) && lock(&file) => dir.remove_file(entry),
            (_, Ok(inside)) if is_old(&inside) && lock(&inside) => dir.remove_own(entry),
            _ => Ok(()),
        };
    }
}

/// Returns true if it is not new: a new one has its lock a moment later.
fn is_old(written: impl AsFd) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = fstat(written).map_or(u64::MAX, |status| status.st_mtime.try_into().unwrap_or(0));
    now.as_secs().saturating_sub(changed) > LEFT_BEHIND.as_secs()
}

/// Renames a file or a directory unless the new name is taken.
///
/// # Errors
/// `AlreadyExists` if the name is taken; otherwise the kernel's error.
pub(crate) fn rename_new(dir: &Dir, from: &str, to: &str) -> io::Result<()> {
    let (old, new) = (plain(from)?, plain(to)?);
    match renameat_with(dir, &old, dir, &new, RenameFlags::NOREPLACE) {
        // The file system does not know the flag: two names for a moment do the same for a file. A directory replaces
        // an empty one at most.
        Err(Errno::INVAL | Errno::NOSYS) => match linkat(dir, &old, dir, &new, AtFlags::empty()) {
            Ok(()) => Ok(unlinkat(dir, &old, AtFlags::empty())?),
            Err(Errno::PERM | Errno::OPNOTSUPP) if !dir.has(&new) => dir.rename(from, to),
            Err(error) => Err(error.into()),
        },
        renamed => Ok(renamed?),
    }
}
