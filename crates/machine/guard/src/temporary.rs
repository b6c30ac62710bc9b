//! The directory for temporary files, and the check that it can be trusted.

use crate::Error;
use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the directory that TMPDIR names, or `/tmp`.
///
/// # Errors
/// Another user could replace files in it.
pub fn directory() -> Result<PathBuf, Error> {
    let directory = std::env::temp_dir();
    expect_trusted(&directory)?;
    Ok(directory)
}

/// Refuses a directory in which another user could replace our files: libraries that are built there are loaded, and
/// recordings there are sent.
///
/// # Errors
/// The directory does not exist, or others than this user and root may replace files in it.
pub fn expect_trusted(parent: &Path) -> Result<(), Error> {
    const STICKY: u32 = 0o1000;
    let found = fs::metadata(parent).map_err(|error| {
        let text = format!(
            "{}: {error}: there is no place for temporary files; make it, or name another directory with TMPDIR",
            parent.display()
        );
        Error::Unusable(text)
    })?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    let is_ours = owner == 0 || owner == geteuid().as_raw();
    if is_ours && (mode & 0o022 == 0 || mode & STICKY != 0) {
        return Ok(());
    }
    let text = format!(
        "{}: it belongs to user {owner}, with mode {mode:o}: others could replace what is in it; name another directory with TMPDIR",
        parent.display()
    );
    Err(Error::Unusable(text))
}
