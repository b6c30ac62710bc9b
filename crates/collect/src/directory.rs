//! Where things lie in a recording.
//!
//! ```text
//! DIR/recording.json       what was recorded and what was lost; also says whether the recording is finished
//! DIR/kernel/              a CTF trace: the kernel's events, and the state at the start
//! DIR/user/0001-npt-4711/  a CTF trace for each program
//! DIR/.raw/                only while recording: the kernel's own pages and their formats
//! ```

use crate::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A recording's directory.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Makes the directory and its parts; it may be there already, but empty.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], or that it can't be written to.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let was_there = path.exists();
        fs::create_dir_all(path).map_err(Error::output(path))?;
        let mut entries = fs::read_dir(path).map_err(Error::output(path))?;
        if entries.next().is_some() {
            return Err(Error::NotEmpty(path.to_owned()));
        }
        let path = path.canonicalize().map_err(Error::output(path))?;
        let directory = Self(path);
        directory.make_parts().inspect_err(|_| directory.remove(was_there))?;
        Ok(directory)
    }

    fn make_parts(&self) -> Result<(), Error> {
        for part in [self.kernel(), self.user(), self.raw()] {
            fs::create_dir(&part).map_err(Error::output(&part))?;
        }
        self.keep_room()
    }

    /// Keeps some space on the disk for what is written at the end, when the events may have filled it.
    fn keep_room(&self) -> Result<(), Error> {
        let path = self.room();
        let file = File::create(&path).map_err(Error::output(&path))?;
        // Not every file system can; then a full disk leaves the recording unfinished.
        let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, ROOM);
        Ok(())
    }

    /// Gives back the space that was kept.
    pub(crate) fn use_room(&self) {
        let _ = fs::remove_file(self.room());
    }

    fn room(&self) -> PathBuf {
        self.raw().join("room")
    }

    /// Removes a recording that has not begun; a directory that was there before stays, empty as it was.
    pub(crate) fn remove(&self, was_there: bool) {
        for part in [self.kernel(), self.user(), self.raw(), self.summary()] {
            let _ = fs::remove_dir_all(&part).or_else(|_| fs::remove_file(&part));
        }
        if !was_there {
            let _ = fs::remove_dir(self.path());
        }
    }

    /// Removes what was begun there and never became a [recording](Self::open).
    pub(crate) fn remove_unannounced(path: &Path) {
        let directory = Self(path.to_owned());
        if directory.raw().exists() && !directory.summary().exists() {
            directory.remove(false);
        }
    }

    /// A directory that is a recording.
    ///
    /// # Errors
    /// [`Error::NoRecording`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let no = |reason: &str| Error::NoRecording { path: path.to_owned(), reason: reason.to_owned() };
        let canonical = path.canonicalize().map_err(|error| no(&error.to_string()))?;
        let directory = Self(canonical);
        if directory.summary().exists() { Ok(directory) } else { Err(no("there is no recording.json in it")) }
    }

    /// The newest recording below `path`: of those that sordino named itself.
    ///
    /// # Errors
    /// [`Error::NoRecording`] if there is none.
    pub fn newest(path: &Path) -> Result<Self, Error> {
        let no = |reason: String| Error::NoRecording { path: path.to_owned(), reason };
        let entries = fs::read_dir(path).map_err(|error| no(error.to_string()))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names
            .filter(|name| name.starts_with(PREFIX) && path.join(name).join("recording.json").exists())
            .collect();
        names.sort_unstable();
        let newest =
            names.pop().ok_or_else(|| no(format!("nothing called {PREFIX}... in it; name a directory")))?;
        Self::open(&path.join(newest))
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The kernel's trace.
    pub fn kernel(&self) -> PathBuf {
        self.0.join("kernel")
    }

    /// The programs' traces.
    pub fn user(&self) -> PathBuf {
        self.0.join("user")
    }

    /// The kernel's own pages, while recording.
    pub fn raw(&self) -> PathBuf {
        self.0.join(".raw")
    }

    /// What was recorded.
    pub fn summary(&self) -> PathBuf {
        self.0.join("recording.json")
    }
}

/// What the names of recordings begin with that nobody gave a name.
pub const PREFIX: &str = "sordino-";

/// More than the summary and the metadata of some hundred programs take, in bytes.
const ROOM: u64 = 1 << 20;

/// Replaces a file as a whole: whoever reads it sees the old text or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

/// Makes of a file that begins with `before` one that begins with `after`, in place, if they differ in a few bytes of one page only; whether
/// it did. One that writes so little is never killed in the middle of it. [`replace`] takes ten times as long: a file system that fears
/// for the new text writes it to disk before it lets go of the old.
pub(crate) fn overwrite(path: &Path, before: &str, after: &str) -> io::Result<bool> {
    /// As small as pages are anywhere.
    const PAGE: usize = 4096;
    if before.len() != after.len() {
        return Ok(false);
    }
    let differs = |(before, after): (u8, u8)| before != after;
    let mut pairs = before.bytes().zip(after.bytes());
    let Some(first) = pairs.clone().position(differs) else { return Ok(true) };
    let last = pairs.rposition(differs).unwrap_or(first);
    if first / PAGE != last / PAGE {
        return Ok(false);
    }
    let file = File::options().write(true).open(path)?;
    file.write_all_at(&after.as_bytes()[first..=last], first as u64)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_bytes_are_overwritten_in_place_and_nothing_else_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("text");
        let long = format!("{}a", "-".repeat(4096));
        fs::write(&path, "freq = 12345; more").unwrap();
        assert!(overwrite(&path, "freq = 12345;", "freq = 12399;").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "freq = 12399; more");
        assert!(overwrite(&path, "freq", "freq").unwrap());
        assert!(!overwrite(&path, "freq", "freq = 1").unwrap());
        assert!(!overwrite(&path, &long, &long.replace('-', "=").replace('a', "b")).unwrap());
        assert!(overwrite(&place.path().join("none"), "a", "b").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "freq = 12399; more");
    }

    #[test]
    fn a_directory_with_something_in_it_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new/one");
        let directory = Directory::create(&path).unwrap();
        assert!(directory.kernel().is_dir());
        assert!(matches!(Directory::create(&path), Err(Error::NotEmpty(_))));
        assert!(matches!(Directory::open(&path), Err(Error::NoRecording { .. })));
    }

    #[test]
    fn the_newest_recording_is_found_by_its_name() {
        let place = tempfile::tempdir().unwrap();
        assert!(Directory::newest(place.path()).is_err());
        for name in ["sordino-20260102-000000", "sordino-20260101-000000", "other-20270101-000000"] {
            let directory = Directory::create(&place.path().join(name)).unwrap();
            fs::write(directory.summary(), "{}").unwrap();
        }
        let newest = Directory::newest(place.path()).unwrap();
        assert!(newest.path().ends_with("sordino-20260102-000000"));
    }
}
