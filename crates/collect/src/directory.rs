//! Where things lie in a recording.
//!
//! ```text
//! DIR/recording.json       what was recorded and what was lost; also says whether the recording is finished
//! DIR/kernel/              a CTF trace: the kernel's events, and the state at the start
//! DIR/user/0001-npt-4711/  a CTF trace for each program
//! DIR/.raw/                only while recording: the kernel's own pages and their formats
//! ```
//!
//! The directory is held by its descriptor from its making on: a traced program may rename it away and put something else in its
//! place, and nothing is ever written there. Directories and files are their owner's alone.

use crate::Error;
use crate::similar::listed;
use sordino_dirfd::{Dir, Made};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kernel's trace.
pub(crate) const KERNEL: &str = "kernel";
/// The programs' traces.
pub(crate) const USER: &str = "user";
/// The kernel's own pages, while recording.
pub(crate) const RAW: &str = ".raw";
/// What was recorded.
pub(crate) const SUMMARY: &str = "recording.json";
/// Some space on the disk, in [`RAW`]: for what completes the traces, and for the summary, which is written last. In bytes, more than
/// either takes for some hundred programs.
const ROOMS: [(&str, u64); 2] = [("room", 1 << 20), ("room-for-summary", 1 << 19)];
/// More bytes than any summary has.
const MOST_SUMMARY: u64 = 64 << 20;
/// The same in a session's directory, of recordings that its user could have put there: a session reads a hundred of them at once.
const MOST_OF_OTHERS: u64 = 1 << 20;

/// A recording's directory.
#[derive(Clone, Debug)]
pub struct Directory {
    dir: Arc<Dir>,
    /// For messages, and for those who read the recording later.
    path: PathBuf,
    /// How it was made, or where it was found in another directory that is held.
    made: Option<Made>,
}

impl Directory {
    /// Makes the directory and its parts; it may be there already, but ours alone and empty.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::NotOurs`], or that it can't be written to.
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
        // Also of a new one: whoever may rename it can have put another of ours in its place.
        if !made.dir.is_empty().map_err(Error::output(path))? {
            return Err(Error::NotEmpty(path.to_owned()));
        }
        // As it is called in the whole file system: the summary tells it to readers that are called elsewhere.
        let path = fs::read_link(made.dir.proc_path()).unwrap_or_else(|_| path.to_owned());
        Self { dir: Arc::clone(&made.dir), path, made: Some(made) }.with_parts()
    }

    /// Makes the directory `name` and its parts in a directory that is held.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if there is something of that name, or that it can't be written to.
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
        // Space for what is written at the end, when the events may have filled the disk.
        for (name, bytes) in ROOMS {
            let file = self.create_file(&format!("{RAW}/{name}"))?;
            // Not every file system can; then a full disk leaves the recording unfinished.
            let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes);
        }
        Ok(())
    }

    /// Gives back the space that was kept, but for that of the summary.
    pub(crate) fn use_room(&self) {
        let _ = self.part(RAW).map(|raw| raw.remove_file(ROOMS[0].0));
    }

    /// Gives back the space that was kept for the summary, which is written next.
    pub(crate) fn use_last_room(&self) {
        let _ = self.part(RAW).map(|raw| raw.remove_file(ROOMS[1].0));
    }

    /// Removes a recording that has not begun; a directory that was there before stays, empty as it was.
    pub(crate) fn remove(&self) {
        for part in [KERNEL, USER, RAW, SUMMARY] {
            let _ = self.dir.remove_all(part);
        }
        if let Some(made) = self.made.as_ref().filter(|made| made.is_new) {
            let _ = made.remove();
        }
    }

    /// Removes a recording that was found in a [session's directory](crate::recordings), with all that is in it.
    ///
    /// # Errors
    /// What the kernel says; what is left then is no recording.
    pub fn remove_whole(&self) -> io::Result<()> {
        self.made.as_ref().map_or(Ok(()), |made| made.parent.remove_all(&made.name))
    }

    /// Removes what was begun under this name and never became a [recording](Self::open), if it is ours.
    pub(crate) fn remove_unannounced(parent: &Dir, name: &OsStr) {
        let Ok(dir) = parent.dir(name) else { return };
        let is_ours = dir.distrust().is_ok_and(|reason| reason.is_none());
        if is_ours && dir.has(RAW) && !dir.has(SUMMARY) {
            let _ = parent.remove_all(name);
        }
    }

    /// A directory that is a recording.
    ///
    /// # Errors
    /// [`Error::NoRecording`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let no = |reason: &str| Error::NoRecording { path: path.to_owned(), reason: reason.to_owned() };
        let dir = Dir::open(path).map_err(|error| no(&error.to_string()))?;
        let path = fs::read_link(dir.proc_path()).unwrap_or_else(|_| path.to_owned());
        Self { dir: Arc::new(dir), path, made: None }.if_recording().ok_or_else(|| no(NO_SUMMARY))
    }

    /// The recording `name` in a directory that is held.
    pub(crate) fn open_in(parent: &Arc<Dir>, name: &str) -> Option<Self> {
        let dir = Arc::new(parent.dir(name).ok()?);
        let made =
            Made { dir: Arc::clone(&dir), parent: Arc::clone(parent), name: name.into(), is_new: false };
        Self { dir, path: parent.path().join(name), made: Some(made) }.if_recording()
    }

    fn if_recording(self) -> Option<Self> {
        Self::is_in(&self.dir).then_some(self)
    }

    /// Whether a directory is a recording.
    pub(crate) fn is_in(dir: &Dir) -> bool {
        dir.has(SUMMARY)
    }

    /// The newest recording below `path`: of those that sordino named itself.
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

    /// Where it lies, as of its making: for messages. Whoever reads or writes its files does so through [`dir`](Self::dir).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory, held.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The same, for those that outlive this.
    pub(crate) fn held(&self) -> Arc<Dir> {
        Arc::clone(&self.dir)
    }

    /// One of its parts.
    pub(crate) fn part(&self, name: &str) -> Result<Dir, Error> {
        self.dir.dir(name).map_err(Error::output(self.path.join(name)))
    }

    /// Makes a file in it.
    pub(crate) fn create_file(&self, name: &str) -> Result<File, Error> {
        self.dir.create(name).map_err(Error::output(self.path.join(name)))
    }

    /// A path for those who read traces by path: it leads here whatever has become of the directory's name.
    pub(crate) fn trace_path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.proc_path().join(name)
    }

    /// What went wrong with a [path for readers](Self::trace_path), with the path that a person knows.
    pub(crate) fn reader_error(&self, error: &dyn std::fmt::Display) -> String {
        error.to_string().replace(&*self.dir.proc_path().to_string_lossy(), &self.path.to_string_lossy())
    }

    /// The summary's text.
    pub(crate) fn read_summary(&self) -> io::Result<String> {
        let is_planted = self.made.is_some() && !self.is_ours();
        self.dir.read_text(SUMMARY, if is_planted { MOST_OF_OTHERS } else { MOST_SUMMARY })
    }

    /// Whether it is ours, and nobody else can write there.
    pub(crate) fn is_ours(&self) -> bool {
        self.dir.distrust().is_ok_and(|reason| reason.is_none())
    }

    pub(crate) fn write_summary(&self, text: &str) -> Result<(), Error> {
        self.dir.replace(SUMMARY, text.as_bytes()).map_err(Error::output(self.path.join(SUMMARY)))
    }

    /// Refuses a directory in which others than we could have put something.
    pub(crate) fn vet(&self) -> Result<(), Error> {
        self.dir.vet().map_err(|(place, error)| {
            // The place begins with the path by which the directory was opened.
            let below = place.strip_prefix(self.dir.path()).ok().filter(|below| *below != Path::new(""));
            let path = below.map_or(self.path.clone(), |below| self.path.join(below));
            let next =
                "recover it as the user whose it is, or look at what is in it, then chown and chmod go-w";
            Error::NotOurs { path, reason: error.to_string(), next }
        })
    }
}

/// What to do where a directory is not ours.
pub(crate) const ANOTHER: &str = "name another one with -o";

const NO_SUMMARY: &str = "there is no recording.json in it";

/// What the names of recordings begin with that nobody gave a name.
pub const PREFIX: &str = "sordino-";

/// The names in a directory that are text, sorted.
pub(crate) fn names(dir: &Dir) -> Result<Vec<String>, Error> {
    let names = dir.names().map_err(Error::output(dir.path()))?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Makes of a file that begins with `before` one that begins with `after`, in place, if they differ in a few bytes of one page only; whether
/// it did. One that writes so little is never killed in the middle of it. [`Dir::replace`] takes ten times as long: a file system that fears
/// for the new text writes it to disk before it lets go of the old.
pub(crate) fn overwrite(dir: &Dir, name: &str, before: &str, after: &str) -> io::Result<bool> {
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
    dir.edit(name)?.write_all_at(&after.as_bytes()[first..=last], first as u64)?;
    Ok(true)
}

/// Appends to a file of ours, or leaves it as it was: half of a declaration would spoil all that follow.
pub(crate) fn append(dir: &Dir, name: &str, text: &str) -> io::Result<()> {
    use std::io::{Seek, SeekFrom};
    let mut file = dir.edit(name)?;
    let before = file.seek(SeekFrom::End(0))?;
    file.write_all(text.as_bytes()).inspect_err(|_| _ = file.set_len(before))
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
        assert!(matches!(Directory::create(&place.path().join("link")), Err(Error::Output { .. })));
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
