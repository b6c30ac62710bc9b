//! A disk that is soon full: a small file system in memory.

use crate::install::succeed;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own, unmounted at the end. Needs root.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a tmpfs with this size option of tmpfs(5) at a new directory. Only root may change its root directory.
    ///
    /// # Panics
    /// If mounting fails.
    pub fn mount(place: &Path, size: &str) -> Self {
        fs::create_dir(place).expect("a directory");
        succeed(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", &format!("{size},mode=755"), "tmpfs"])
                .arg(place),
        );
        Self(place.to_owned())
    }

    /// Fills the disk up to `free` bytes.
    ///
    /// # Panics
    /// If the disk is larger than 64 MiB.
    pub fn fill_but(&self, free: u64) {
        let ballast = self.ballast();
        assert!(fs::write(&ballast, vec![0; 64 << 20]).is_err(), "the disk is larger than that");
        let length = fs::metadata(&ballast).expect("a file").len();
        let file = fs::File::options().write(true).open(&ballast).expect("a file");
        file.set_len(length.saturating_sub(free)).expect("a shorter file");
    }

    /// Removes the file that fills the disk.
    ///
    /// # Panics
    /// If the disk was not filled.
    pub fn empty(&self) {
        fs::remove_file(self.ballast()).expect("a file that fills the disk");
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
