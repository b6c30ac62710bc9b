//! The files of a recording and their places.
//!
//! ```text
//! DIR/recording.json       what was recorded and what was lost; also shows whether the recording is finished
//! DIR/kernel/              a CTF trace: the kernel's events, and the state at the start
//! DIR/user/0001-npt-4711/  a CTF trace for each program
//! DIR/.raw/                only while recording: the kernel's own pages and their formats
//! ```
//!
//! The directory is held by its descriptor from its creation on: a traced program may rename it and put another in its
//! place, to which nothing is ever written. Only the owner has access to directories and files.

use crate::error::Error;
use crate::similar::listed;
use sordino_dirfd::{Dir, Made};
use sordino_event::Cpu;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the directory of the kernel's trace.
pub(crate) const KERNEL: &str = "kernel";
/// Name of the directory of the programs' traces.
pub const USER: &str = "user";
/// Name of the directory of the kernel's own pages, while recording.
pub const RAW: &str = ".raw";
/// Name of the summary, which describes the recording.
pub(crate) const SUMMARY: &str = "recording.json";
/// Files in [`RAW`] that reserve disk space, with their sizes in bytes: for the files that complete the traces, and for
/// the summary, which is written last. Each is enough for some hundred programs.
const ROOMS: [(&str, u64); 2] = [("room", 1 << 20), ("room-for-summary", 1 << 19)];
/// Upper limit for the size of a summary, in bytes.
const MOST_SUMMARY: u64 = 64 << 20;
/// The same limit for recordings in a session's directory that another user could have put there: a session reads a
/// hundred of them at once.
const MOST_OF_OTHERS: u64 = 1 << 20;

/// The directory of a recording, held by its descriptor.
#[derive(Clone, Debug)]
pub struct Directory {
    dir: Arc<Dir>,
    /// The path for messages and for later readers of the recording.
    path: PathBuf,
    /// The parent directory and the name in it, if the directory was created or found in one that is held.
    made: Option<Made>,
}

impl Directory {
    /// Creates the directory and its parts. An existing directory must be empty and accessible to the caller alone.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::NotOurs`], or an output error.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let made = Dir::make(path).map_err(Error::output(path))?;
        if !made.is_new {
            if made.dir.is_empty().map_err(Error::output(path))? {
                made.dir.close_to_group().map_err(Error::output(path))?;
            }
            let distrusted = made.dir.distrust().map_err(Error::output(path))?;
            if let Some(reason) = distrusted {
                return Err(Error::NotOurs { path: path.to_owned(), reason, next: ANOTHER });
            }
        }
        // New directories are checked as well: a user who may rename it can have put another of ours in its place.
        if !made.dir.is_empty().map_err(Error::output(path))? {
            return Err(Error::NotEmpty(path.to_owned()));
        }
        // The absolute path: the summary passes it to readers with another working directory.
        let path = fs::read_link(made.dir.proc_path()).unwrap_or_else(|_| path.to_owned());
        Self { dir: Arc::clone(&made.dir), path, made: Some(made) }.with_parts()
    }

    /// Creates the directory `name` and its parts in a directory that is held.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if `name` exists, or an output error.
    pub(crate) fn create_in(parent: &Arc<Dir>, name: &str) -> Result<Self, Error> {
        let path = parent.path().join(name);
        let dir = match parent.make_new(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(Error::NotEmpty(path)),
            made => Arc::new(made.map_err(Error::output(&path))?),
        };
        let made =
            Made { dir: Arc::clone(&dir), parent: Arc::clone(parent), name: name.into(), is_new: true };
        Self { dir, path, made: Some(made) }.with_parts()
    }

    fn with_parts(self) -> Result<Self, Error> {
        let made = self.make_parts();
        made.inspect_err(|_| self.remove())?;
        Ok(self)
    }

    fn make_parts(&self) -> Result<(), Error> {
        for part in [KERNEL, USER, RAW] {
            self.dir.make_new(part).map_err(Error::output(self.path.join(part)))?;
        }
        // Reserves space for the files written at the end, when the events may have filled the disk.
        for (name, bytes) in ROOMS {
            let file = self.create_file(&format!("{RAW}/{name}"))?;
            // Not every file system supports this; there a full disk leaves the recording unfinished.
            let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes);
        }
        Ok(())
    }

    /// Releases the reserved space, except that of the summary.
    pub(crate) fn use_room(&self) {
        let _ = self.part(RAW).map(|raw| raw.remove_file(ROOMS[0].0));
    }

    /// Releases the space reserved for the summary, which is written next.
    pub(crate) fn use_last_room(&self) {
        let _ = self.part(RAW).map(|raw| raw.remove_file(ROOMS[1].0));
    }

    /// Removes a recording that has not begun. A directory that existed before stays, empty as it was.
    pub fn remove(&self) {
        for part in [KERNEL, USER, RAW, SUMMARY] {
            let _ = self.dir.remove_all(part);
        }
        if let Some(made) = self.made.as_ref().filter(|made| made.is_new) {
            let _ = made.remove();
        }
    }

    /// Removes a recording that was found in a [session's directory](crate::recordings), with all its files.
    ///
    /// # Errors
    /// The kernel's error; the remaining files are no recording any more.
    pub fn remove_whole(&self) -> io::Result<()> {
        self.made.as_ref().map_or(Ok(()), |made| made.parent.remove_all(&made.name))
    }

    /// Removes an unfinished directory of this name that never became a [recording](Self::open), if it is ours.
    pub(crate) fn remove_unannounced(parent: &Dir, name: &OsStr) {
        let Ok(dir) = parent.dir(name) else { return };
        let is_ours = dir.distrust().is_ok_and(|reason| reason.is_none());
        if is_ours && dir.has(RAW) && !dir.has(SUMMARY) {
            let _ = parent.remove_all(name);
        }
    }

    /// Opens a directory that is a recording.
    ///
    /// # Errors
    /// [`Error::NoRecording`] if there is no summary in it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let no = |reason: &str| Error::NoRecording { path: path.to_owned(), reason: reason.to_owned() };
        let dir = Dir::open(path).map_err(|error| no(&error.to_string()))?;
        let path = fs::read_link(dir.proc_path()).unwrap_or_else(|_| path.to_owned());
        Self { dir: Arc::new(dir), path, made: None }.if_recording().ok_or_else(|| no(NO_SUMMARY))
    }

    /// Opens the recording `name` in a directory that is held.
    pub(crate) fn open_in(parent: &Arc<Dir>, name: &str) -> Option<Self> {
        let dir = Arc::new(parent.dir(name).ok()?);
        let made =
            Made { dir: Arc::clone(&dir), parent: Arc::clone(parent), name: name.into(), is_new: false };
        Self { dir, path: parent.path().join(name), made: Some(made) }.if_recording()
    }

    fn if_recording(self) -> Option<Self> {
        Self::is_in(&self.dir).then_some(self)
    }

    /// Returns true if a directory is a recording, which has a summary.
    pub(crate) fn is_in(dir: &Dir) -> bool {
        dir.has(SUMMARY)
    }

    /// Opens the newest recording below `path` among those with a default name.
    ///
    /// # Errors
    /// [`Error::NoRecording`] if there is none.
    pub fn newest(path: &Path) -> Result<Self, Error> {
        let no = |reason: String| Error::NoRecording { path: path.to_owned(), reason };
        let entries = fs::read_dir(path).map_err(|error| no(error.to_string()))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let (mut recordings, mut others): (Vec<String>, Vec<String>) = names
            .filter(|name| name.starts_with(PREFIX))
            .partition(|name| path.join(name).join(SUMMARY).exists());
        recordings.sort_unstable();
        if let Some(newest) = recordings.pop() {
            return Self::open(&path.join(newest));
        }
        others.retain(|name| path.join(name).is_dir());
        others.sort_unstable();
        let such_as = if others.is_empty() { "" } else { ", such as " };
        let others = listed(others.iter().map(String::as_str));
        Err(no(format!("no recording called {PREFIX}... in it; name a directory{such_as}{others}")))
    }

    /// Returns the path at creation, for messages. Files are read and written through [`dir`](Self::dir).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory, which is held open.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns a shared handle of the directory that may outlive this value.
    pub(crate) fn held(&self) -> Arc<Dir> {
        Arc::clone(&self.dir)
    }

    /// Opens a part of the recording.
    pub fn part(&self, name: &str) -> Result<Dir, Error> {
        self.dir.dir(name).map_err(Error::output(self.path.join(name)))
    }

    pub(crate) fn create_file(&self, name: &str) -> Result<File, Error> {
        self.dir.create(name).map_err(Error::output(self.path.join(name)))
    }

    /// Returns a path for readers that open traces by path: it leads to this directory even after it was renamed.
    pub(crate) fn trace_path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.proc_path().join(name)
    }

    /// Formats the error of a reader that used [`trace_path`](Self::trace_path), with the path replaced by the
    /// directory's own.
    pub(crate) fn reader_error(&self, error: &dyn std::fmt::Display) -> String {
        error.to_string().replace(&*self.dir.proc_path().to_string_lossy(), &self.path.to_string_lossy())
    }

    pub(crate) fn read_summary(&self) -> io::Result<String> {
        let is_planted = self.made.is_some() && !self.is_ours();
        self.dir.read_text(SUMMARY, if is_planted { MOST_OF_OTHERS } else { MOST_SUMMARY })
    }

    /// Returns true if the directory is ours and no other user can write to it.
    pub fn is_ours(&self) -> bool {
        self.dir.distrust().is_ok_and(|reason| reason.is_none())
    }

    pub(crate) fn write_summary(&self, text: &str) -> Result<(), Error> {
        self.dir.replace(SUMMARY, text.as_bytes()).map_err(Error::output(self.path.join(SUMMARY)))
    }

    /// Rejects a directory in which another user could have put something.
    pub(crate) fn vet(&self) -> Result<(), Error> {
        self.dir.vet().map_err(|(place, error)| {
            // The reported place begins with the path by which the directory was opened.
            let below = place.strip_prefix(self.dir.path()).ok().filter(|below| *below != Path::new(""));
            let path = below.map_or(self.path.clone(), |below| self.path.join(below));
            let next =
                "recover it as the user whose it is, or look at what is in it, then chown and chmod go-w";
            Error::NotOurs { path, reason: error.to_string(), next }
        })
    }
}

/// The remedy for a directory that is not ours.
pub(crate) const ANOTHER: &str = "name another one with -o";

const NO_SUMMARY: &str = "there is no recording.json in it";

/// Prefix of default names of recordings.
pub const PREFIX: &str = "sordino-";

/// Returns the names in a directory that are valid UTF-8, sorted.
pub fn names(dir: &Dir) -> Result<Vec<String>, Error> {
    let names = dir.names().map_err(Error::output(dir.path()))?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Replaces the text `before` at the start of a file by `after`, in place, if both have the same length and differ only
/// within one page; returns false otherwise. So small a write is never interrupted by a kill. [`Dir::replace`] takes
/// ten times as long, because some file systems write the new file to disk before they replace the old one.
pub fn overwrite(dir: &Dir, name: &str, before: &str, after: &str) -> io::Result<bool> {
    /// The smallest page size of any architecture.
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
    dir.edit(name)?.write_all_at(&after.as_bytes()[first..=last], first as u64)?;
    Ok(true)
}

/// Appends to a file, or restores its previous length if that fails: half a declaration would invalidate all that
/// follow.
pub fn append(dir: &Dir, name: &str, text: &str) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    let mut file = dir.edit(name)?;
    let before = file.seek(SeekFrom::End(0))?;
    file.write_all(text.as_bytes()).inspect_err(|_| _ = file.set_len(before))
}

/// Returns the name of a CPU's file of pages, below [`RAW`].
pub fn page_name(cpu: Cpu) -> String {
    format!("cpu{cpu}")
}

/// Creates the file of a CPU's pages in the directory `raw`.
pub fn page_file(raw: &Dir, cpu: Cpu) -> io::Result<OwnedFd> {
    Ok(raw.create(page_name(cpu))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_few_bytes_are_overwritten_in_place_and_nothing_else_is() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        let text = || dir.read_text("text", 1 << 20).unwrap();
        let long = format!("{}a", "-".repeat(4096));
        dir.replace("text", b"freq = 12345; more").unwrap();
        assert!(overwrite(&dir, "text", "freq = 12345;", "freq = 12399;").unwrap());
        assert_eq!(text(), "freq = 12399; more");
        assert!(overwrite(&dir, "text", "freq", "freq").unwrap());
        assert!(!overwrite(&dir, "text", "freq", "freq = 1").unwrap());
        assert!(!overwrite(&dir, "text", &long, &long.replace('-', "=").replace('a', "b")).unwrap());
        assert!(overwrite(&dir, "none", "a", "b").is_err());
        append(&dir, "text", " and more").unwrap();
        assert_eq!(text(), "freq = 12399; more and more");
    }

    #[test]
    fn a_directory_with_something_in_it_or_open_to_others_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new/one");
        let directory = Directory::create(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&path), mode(&path.join(KERNEL))), (0o700, 0o700));
        assert!(matches!(Directory::create(&path), Err(Error::NotEmpty(_))));
        assert!(matches!(Directory::open(&path), Err(Error::NoRecording { .. })));
        directory.remove();
        assert!(!path.exists());

        let open = place.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Directory::create(&open), Err(Error::NotOurs { .. })));
        symlink(&open, place.path().join("link")).unwrap();
        assert!(matches!(Directory::create(&place.path().join("link")), Err(Error::Output(_))));
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
    }

    #[test]
    fn what_is_put_in_its_place_is_not_touched() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("recording");
        let directory = Directory::create(&path).unwrap();
        fs::rename(&path, place.path().join("away")).unwrap();
        fs::create_dir(&path).unwrap();
        let precious = place.path().join("precious");
        fs::write(&precious, "old").unwrap();
        for name in ["recording.json", ".recording.json.new", "kernel", "user", ".raw"] {
            symlink(&precious, path.join(name)).unwrap();
        }
        directory.write_summary("{}").unwrap();
        directory.create_file("kernel/metadata").unwrap();
        directory.use_room();
        assert_eq!(fs::read_to_string(place.path().join("away/recording.json")).unwrap(), "{}");
        directory.remove();
        assert_eq!(
            (fs::read_to_string(&precious).unwrap().as_str(), fs::read_dir(&path).unwrap().count()),
            ("old", 5)
        );
    }

    #[test]
    fn the_newest_recording_is_found_by_its_name() {
        let place = tempfile::tempdir().unwrap();
        assert!(Directory::newest(place.path()).is_err());
        for name in ["sordino-20260102-000000", "sordino-20260101-000000", "other-20270101-000000"] {
            let directory = Directory::create(&place.path().join(name)).unwrap();
            directory.write_summary("{}").unwrap();
        }
        let newest = Directory::newest(place.path()).unwrap();
        assert!(newest.path().ends_with("sordino-20260102-000000"));
    }
}
