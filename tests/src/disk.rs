//! A disk that is soon full.

use crate::install::succeed;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own, unmounted at the end. Needs root.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one with this size option of tmpfs(5) at a place that was not there before. Its root directory is root's alone to change.
    ///
    /// # Panics
    /// If that does not work.
    pub fn mount(place: &Path, size: &str) -> Self {
        fs::create_dir(place).expect("a directory");
        succeed(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", &format!("{size},mode=755"), "tmpfs"])
                .arg(place),
        );
        Self(place.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
