//! Temporary directories, removed in any case when the command ends.

use crate::Failure;
use crate::commands::guard;
use crate::failure::UNUSABLE;
use crate::temporary;
use rustix::rand::{GetRandomFlags, getrandom};
use sordino_dirfd::Dir;
use sordino_undo::{Guardian, UndoStep};
use std::path::{Path, PathBuf};

/// A set of temporary directories; dropping it removes them.
pub(super) struct Scratch(Guardian);

impl Scratch {
    /// Starts the guardian that removes the directories; makes none.
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self(guard::start()?))
    }

    /// Makes a directory in `parent`, accessible to this user alone. Nobody can take its name first: it is random,
    /// since `parent` may be `/tmp`.
    pub(super) fn directory(&mut self, parent: &Path) -> Result<PathBuf, Failure> {
        temporary::expect_trusted(parent)?;
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let name = format!("sordino-npt-{}-{:032x}", std::process::id(), u128::from_ne_bytes(random));
        let directory = std::path::absolute(parent)?.join(&name);
        let change = self.0.add(UndoStep::RemoveDirectory { directory: directory.clone() })?;
        if let Err(error) = Dir::open(parent).and_then(|parent| parent.make_new(&name)) {
            // The existing directory is another user's.
            self.0.forget(change)?;
            return Err(Failure::new(UNUSABLE, format!("{}: {error}", directory.display())));
        }
        Ok(directory)
    }
}
