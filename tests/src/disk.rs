//! Disks that are soon full, or stand still.

use crate::install::succeed;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// A file system that can make its writers wait, like a disk that does not respond. Unmounted at the end. Needs root
/// and loop devices.
#[derive(Debug)]
pub struct SlowDisk(PathBuf);

impl SlowDisk {
    /// Mounts an ext4 file system of 256 MiB, which is a file beside it, at a new directory; `None` if this machine has
    /// no loop device for it.
    ///
    /// # Panics
    /// If `mkfs.ext4` fails or is not installed.
    pub fn mount(place: &Path) -> Option<Self> {
        let image = place.with_extension("image");
        fs::create_dir(place).expect("a directory");
        fs::File::create(&image).and_then(|file| file.set_len(256 << 20)).expect("a file");
        succeed(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(place).status();
        let disk = mounted.expect("mount").success().then(|| Self(place.to_owned()))?;
        fs::remove_dir(place.join("lost+found")).expect("a new file system");
        Some(disk)
    }

    /// Lets writers wait from now on.
    ///
    /// # Panics
    /// If `fsfreeze` fails or is not installed.
    pub fn freeze(&self) {
        succeed(Command::new("fsfreeze").arg("--freeze").arg(&self.0));
    }

    /// Lets the writers that wait continue.
    ///
    /// # Panics
    /// If `fsfreeze` fails or is not installed.
    pub fn thaw(&self) {
        succeed(Command::new("fsfreeze").arg("--unfreeze").arg(&self.0));
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("--unfreeze").arg(&self.0).stderr(Stdio::null()).status();
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
