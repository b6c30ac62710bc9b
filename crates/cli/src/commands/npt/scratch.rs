//! Directories that are gone afterwards, whatever becomes of the command.

use crate::Failure;
use crate::commands::guard;
use crate::failure::UNUSABLE;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};
use sordino_dirfd::Dir;
use sordino_undo::{Guardian, Step};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Some directories; dropping it removes them.
pub(super) struct Scratch(Guardian);

impl Scratch {
    /// None yet.
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self(guard::start()?))
    }

    /// A new one in `parent`, this user's alone, with a name that nobody can take before: `parent` may be `/tmp`.
    pub(super) fn directory(&mut self, parent: &Path) -> Result<PathBuf, Failure> {
        expect_trusted(parent)?;
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let name = format!("sordino-npt-{}-{:032x}", std::process::id(), u128::from_ne_bytes(random));
        let directory = std::path::absolute(parent)?.join(&name);
        let change = self.0.add(Step::RemoveDirectory { directory: directory.clone() })?;
        if let Err(error) = Dir::open(parent).and_then(|parent| parent.make_new(&name)) {
            // It is somebody else's.
            self.0.forget(change)?;
            return Err(Failure::new(UNUSABLE, format!("{}: {error}", directory.display())));
        }
        Ok(directory)
    }
}

/// Refuses a directory in which another user could put something else in the place of ours: what is built there is loaded.
fn expect_trusted(parent: &Path) -> Result<(), Failure> {
    const STICKY: u32 = 0o1000;
    let found = fs::metadata(parent)?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    let is_ours = owner == 0 || owner == geteuid().as_raw();
    if is_ours && (mode & 0o022 == 0 || mode & STICKY != 0) {
        return Ok(());
    }
    let text = format!(
        "{}: it belongs to user {owner}, with mode {mode:o}: others could replace what is in it; name another directory with TMPDIR",
        parent.display()
    );
    Err(Failure::new(UNUSABLE, text))
}
