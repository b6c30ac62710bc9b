//! Directories that are gone afterwards, whatever becomes of the command.

use crate::Failure;
use crate::commands::guard;
use crate::failure::UNUSABLE;
use crate::temporary;
use rustix::rand::{GetRandomFlags, getrandom};
use sordino_dirfd::Dir;
use sordino_undo::{Guardian, Step};
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
        temporary::expect_trusted(parent)?;
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
