//! Directories that are gone afterwards, whatever becomes of the command.

use crate::Failure;
use crate::commands::guard;
use crate::failure::UNUSABLE;
use sordino_undo::{Guardian, Step};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Some directories; dropping it removes them.
pub(super) struct Scratch(Guardian);

impl Scratch {
    /// None yet.
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self(guard::start()?))
    }

    /// A new one in `parent`, this user's alone.
    pub(super) fn directory(&mut self, parent: &Path) -> Result<PathBuf, Failure> {
        let directory = parent.join(format!("sordino-npt-{}", std::process::id()));
        let change = self.0.add(Step::RemoveDirectory { directory: directory.clone() })?;
        if let Err(error) = DirBuilder::new().mode(0o700).create(&directory) {
            // It is somebody else's.
            self.0.forget(change)?;
            return Err(Failure::new(UNUSABLE, format!("{}: {error}", directory.display())));
        }
        Ok(directory)
    }
}
