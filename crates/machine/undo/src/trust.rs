//! Checks that only this user can have written a file or a directory.

use rustix::fs::{FileType, Stat, fstat};
use rustix::process::geteuid;
use std::os::fd::AsFd;

/// Returns the status of an open file of this kind if it belongs to the effective user.
///
/// # Errors
/// Returns the reason for rejection.
pub(crate) fn vetted(file: impl AsFd, kind: FileType) -> Result<Stat, String> {
    let found = fstat(file).map_err(|error| error.to_string())?;
    distrust(&found, kind, geteuid().as_raw()).map_or(Ok(found), Err)
}

/// Returns the status of an open file of this kind if it belongs to the effective user and nobody else can write to it,
/// not even by another name.
pub(crate) fn private(file: impl AsFd, kind: FileType) -> Result<Stat, String> {
    let found = vetted(file, kind)?;
    let mode = found.st_mode & 0o7777;
    if mode & 0o022 != 0 {
        return Err(format!("its mode {mode:o} lets others write there"));
    }
    if kind == FileType::RegularFile && found.st_nlink != 1 {
        return Err("it has another name too (a hard link)".to_owned());
    }
    Ok(found)
}

fn distrust(found: &Stat, kind: FileType, user: u32) -> Option<String> {
    let noun = if kind == FileType::Directory { "directory" } else { "regular file" };
    if FileType::from_raw_mode(found.st_mode) != kind {
        return Some(format!("it is no {noun}"));
    }
    let mode = found.st_mode & 0o7777;
    (found.st_uid != user).then(|| format!("it belongs to user {}, with mode {mode:o}", found.st_uid))
}
