//! A disk that is soon full.

use crate::install::succeed;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own, unmounted at the end. Needs root.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of this size, as tmpfs(5) writes it and its owner's alone, at a place that was not there before.
    ///
    /// # Panics
    /// If that does not work.
    pub fn mount(place: &Path, size: &str) -> Self {
        fs::create_dir(place).expect("a directory");
        succeed(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", &format!("mode=700,{size}"), "tmpfs"])
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
