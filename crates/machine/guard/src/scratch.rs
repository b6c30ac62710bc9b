//! Temporary directories, removed in any case when the command ends.

use crate::{Error, start, temporary};
use rustix::rand::{GetRandomFlags, getrandom};
use sordino_dirfd::Dir;
use sordino_undo::{Guardian, UndoStep};
use std::path::{Path, PathBuf};

/// A set of temporary directories; dropping it removes them.
pub struct Scratch(Guardian);

impl Scratch {
    /// Starts the guardian that removes the directories; makes none.
    ///
    /// # Errors
    /// If the guardian does not start.
    pub fn new() -> Result<Self, Error> {
        Ok(Self(start()?))
    }

    /// Makes a directory in `parent`, accessible to this user alone. Nobody can take its name first: it is random,
    /// since `parent` may be `/tmp`.
    ///
    /// # Errors
    /// If others could replace files in `parent`, or if the directory can't be made.
    pub fn directory(&mut self, parent: &Path) -> Result<PathBuf, Error> {
        temporary::expect_trusted(parent)?;
        let mut random = [0; 16];
        getrandom(&mut random, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
        let name = format!("sordino-npt-{}-{:032x}", std::process::id(), u128::from_ne_bytes(random));
        let directory = std::path::absolute(parent)?.join(&name);
        let change = self.0.add(UndoStep::RemoveDirectory { directory: directory.clone() })?;
        if let Err(error) = Dir::open(parent).and_then(|parent| parent.make_new(&name)) {
            // The existing directory is another user's.
            self.0.forget(change)?;
            return Err(Error::Unusable(format!("{}: {error}", directory.display())));
        }
        Ok(directory)
    }
}
