//! The numbered recordings in a session's directory.
//!
//! ```text
//! DIR/chunk-0001/      of a session that writes to disk: each one a complete recording
//! DIR/snapshot-0001/   of a flight recorder
//! ```

use crate::directory::{ANOTHER, Directory};
use crate::error::Error;
use crate::options::Keep;
use sordino_dirfd::{Dir, Made};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// The kind of a session's recordings, which is also the prefix of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of the recorded data, written to disk.
    Chunk,
    /// A copy of the newest data.
    Snapshot,
}

impl Kind {
    /// Returns the prefix of the names.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Chunk => "chunk-",
            Self::Snapshot => "snapshot-",
        }
    }
}

/// The directory of a session, and its state before the session.
#[derive(Debug)]
pub struct Ground {
    made: Made,
    /// True if it belonged to the reader, so that its previous contents are not ours.
    is_taken: bool,
    /// The names of the recordings that existed, and the highest number.
    names: Vec<OsString>,
    last: u32,
}

impl Ground {
    /// Prepares the directory at `path`, which is created if it does not exist. If an earlier session gave it to its
    /// `reader`, a user, it is taken back, without its contents.
    ///
    /// # Errors
    /// [`Error::NotOurs`] if others could have put something there, [`Error::NotEmpty`] if it contains anything but
    /// recordings, or an output error.
    pub fn take(path: &Path, reader: Option<(u32, u32)>) -> Result<Self, Error> {
        let made = Dir::make(path).map_err(Error::output(path))?;
        // Checked before anything is changed, and again once only we can change names.
        numbered(&made.dir)?;
        let is_taken = take_over(&made, reader)?;
        let mut ground = Self { made, is_taken, names: Vec::new(), last: 0 };
        match numbered(&ground.made.dir) {
            Ok((names, last)) => (ground.names, ground.last) = (names, last),
            Err(error) => {
                ground.return_to(reader);
                return Err(error);
            }
        }
        Ok(ground)
    }

    /// Undoes what a session that could not begin has changed: removes its files, and returns a directory that it took.
    /// Nothing that existed before is given away.
    pub fn abandon(&self, reader: Option<(u32, u32)>) {
        let names = self.made.dir.names().unwrap_or_default();
        let ours = names.iter().filter(|name| number(&name.to_string_lossy()).is_some());
        ours.for_each(|name| Directory::remove_unannounced(&self.made.dir, name));
        if self.made.is_new {
            let _ = self.made.remove();
        }
        self.return_to(reader);
    }

    fn return_to(&self, reader: Option<(u32, u32)>) {
        if let Some((user, group)) = reader.filter(|_| self.is_taken) {
            self.made.dir.give_alone(user, group);
        }
    }

    /// Gives the directory and this session's recordings to a user, as well as earlier recordings that are ours. Of a
    /// directory that was taken from its user, earlier contents are excluded: the user could have moved root's files
    /// there.
    pub fn give(&self, (user, group): (u32, u32)) {
        let dir = &self.made.dir;
        for name in dir.names().unwrap_or_default() {
            let Some(number) = name.to_str().and_then(number) else { continue };
            let Ok(inside) = dir.dir(&name) else { continue };
            if number > self.last || !self.is_taken && Directory::is_in(&inside) {
                inside.give(user, group);
            }
        }
        dir.give_alone(user, group);
    }
}

/// The recordings of one session.
#[derive(Debug)]
pub struct Series {
    dir: Arc<Dir>,
    kind: Kind,
    /// The number of the last recording.
    last: u32,
    /// The finished recordings, oldest first, each with its size in bytes once that was needed.
    finished: VecDeque<(Directory, Option<u64>)>,
}

impl Series {
    /// Continues in a directory; its recordings of this kind count as finished. A recording that a killed recorder had
    /// not announced yet holds no event and is removed.
    pub fn open(ground: &Ground, kind: Kind) -> Self {
        let dir = Arc::clone(&ground.made.dir);
        ground.names.iter().for_each(|name| Directory::remove_unannounced(&dir, name));
        // ext4 without a journal does not use an inode again for a minute after its file was removed, and looks at each
        // of them for every new file near by (`recently_deleted`): new chunks do not lie where old ones were.
        dir.place_apart();
        let finished = recordings_in(&dir, kind).into_iter().map(|directory| (directory, None)).collect();
        Self { dir, kind, last: ground.last, finished }
    }

    /// Returns the directory of the recordings.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the finished recordings, oldest first.
    pub fn finished(&self) -> impl ExactSizeIterator<Item = &Directory> {
        self.finished.iter().map(|(directory, _)| directory)
    }

    /// Creates the directory of the next recording.
    #[expect(clippy::should_implement_trait, reason = "it creates, and never ends")]
    pub fn next(&mut self) -> Result<Directory, Error> {
        let made = Directory::create_in(&self.dir, &format!("{}{:04}", self.kind.prefix(), self.last + 1));
        // If nothing was created, the number can be used again.
        if matches!(made, Ok(_) | Err(Error::NotEmpty(_))) {
            self.last += 1;
        }
        made
    }

    /// Removes the last recording, which could not be begun.
    pub fn take_back(&mut self, last: &Directory) {
        last.remove();
        if !last.path().file_name().is_some_and(|name| self.dir.has(name)) {
            self.last -= 1;
        }
    }

    /// Removes a recording from the list of finished ones.
    pub fn forget(&mut self, directory: &Directory) {
        self.finished.retain(|(known, _)| known.path() != directory.path());
    }

    /// Adds a complete recording. Returns the oldest ones that exceed the limits, which are to be removed; never the
    /// newest.
    pub fn finish(&mut self, directory: Directory, keep: Keep) -> Vec<Directory> {
        self.finished.push_back((directory, None));
        let many = keep.count.map_or(0, |most| self.finished.len().saturating_sub(most));
        let large = keep.bytes.map_or(0, |most| self.beyond(most));
        let too_many = many.max(large).min(self.finished.len() - 1);
        self.finished.drain(..too_many).map(|(directory, _)| directory).collect()
    }

    /// Returns the number of oldest recordings that exceed a total size of `most` bytes.
    fn beyond(&mut self, most: u64) -> usize {
        let sizes = self.finished.iter_mut().rev();
        let sizes = sizes.map(|(directory, bytes)| *bytes.get_or_insert_with(|| directory.dir().bytes()));
        let totals = sizes.scan(0u64, |total, bytes| {
            *total += bytes;
            Some(*total)
        });
        let kept = totals.take_while(|total| *total <= most).count();
        self.finished.len() - kept
    }
}

/// Returns the recordings of a kind in a session's directory, in the order of their numbers.
pub fn recordings(path: &Path, kind: Kind) -> Vec<Directory> {
    Dir::open(path).map_or(Vec::new(), |dir| recordings_in(&Arc::new(dir), kind))
}

fn recordings_in(dir: &Arc<Dir>, kind: Kind) -> Vec<Directory> {
    let names = dir.names().unwrap_or_default().into_iter().filter_map(|name| name.into_string().ok());
    let mut names: Vec<(u32, String)> = names
        .filter(|name| name.starts_with(kind.prefix()))
        .filter_map(|name| number(&name).map(|number| (number, name)))
        .collect();
    names.sort_unstable();
    names.iter().filter_map(|(_, name)| Directory::open_in(dir, name)).collect()
}

/// Returns the names of the recordings in a directory, and their highest number. Fails if it contains anything else.
fn numbered(dir: &Dir) -> Result<(Vec<OsString>, u32), Error> {
    let names = dir.names().map_err(Error::output(dir.path()))?;
    let numbers = names.iter().map(|name| number(&name.to_string_lossy()));
    let numbers = numbers.collect::<Option<Vec<u32>>>().ok_or(Error::NotEmpty(dir.path().to_owned()))?;
    Ok((names, numbers.into_iter().max().unwrap_or(0)))
}

/// Makes sure that only we can change a directory. If an earlier session gave it, with recordings, to `reader`, it is
/// taken back; files that the user has put there since, even under a recording's name, are neither completed nor
/// trusted. Returns true if it was taken back.
fn take_over(made: &Made, reader: Option<(u32, u32)>) -> Result<bool, Error> {
    let dir = &made.dir;
    let not_ours = |reason: String| Error::NotOurs { path: dir.path().to_owned(), reason, next: ANOTHER };
    dir.close_to_group().map_err(Error::output(dir.path()))?;
    let Some(reason) = dir.distrust().map_err(Error::output(dir.path()))? else { return Ok(false) };
    let is_roots = rustix::process::geteuid().is_root();
    match reader {
        Some((user, _)) if is_roots && !numbered(dir)?.0.is_empty() => {
            dir.take_back(user).map_err(|error| not_ours(error.to_string()))?;
            Ok(true)
        }
        _ => Err(not_ours(reason)),
    }
}

/// Upper limit for recordings' numbers: a higher one could only be planted to break the numbering.
const MOST_RECORDINGS: u32 = 1 << 31;

/// Returns the number of `chunk-0007` or `snapshot-0007`.
fn number(name: &str) -> Option<u32> {
    let prefixes = [Kind::Chunk, Kind::Snapshot].map(Kind::prefix);
    let number = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)?.parse().ok());
    number.filter(|number| *number < MOST_RECORDINGS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    use std::fs;
    use std::io::Write;

    fn finished(series: &mut Series, keep: Keep) -> Directory {
        let directory = series.next().unwrap();
        directory.write_summary("{}").unwrap();
        directory.create_file("kernel/cpu0").unwrap().write_all(&[0; 10_000]).unwrap();
        directory.use_room();
        directory.use_last_room();
        let removed = series.finish(directory.clone(), keep);
        removed.iter().for_each(|directory| directory.remove_whole().unwrap());
        directory
    }

    #[test]
    fn the_oldest_are_removed_and_numbers_go_on() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new");
        let keep = Keep { count: Some(2), bytes: None };
        let mut series = Series::open(&Ground::take(&path, None).unwrap(), Kind::Chunk);
        let made: Vec<Directory> = (0..3).map(|_| finished(&mut series, keep)).collect();
        assert!(!made[0].path().exists() && made[1].path().exists());
        let mut again = Series::open(&Ground::take(&path, None).unwrap(), Kind::Chunk);
        assert_eq!(again.finished().count(), 2);
        assert!(finished(&mut again, keep).path().ends_with("chunk-0004"));
        finished(&mut again, Keep { count: None, bytes: Some(25_000) });
        assert_eq!(again.finished().count(), 2);
        let last = finished(&mut again, Keep { count: None, bytes: Some(1) });
        assert_eq!(again.finished().map(Directory::path).collect::<Vec<_>>(), [last.path()]);
    }

    #[test]
    fn what_was_never_announced_is_removed_and_what_could_not_be_made_takes_no_number() {
        let place = tempfile::tempdir().unwrap();
        let mut series = Series::open(&Ground::take(place.path(), None).unwrap(), Kind::Chunk);
        let first = finished(&mut series, Keep::default());
        let half = series.next().unwrap();
        let mut again = Series::open(&Ground::take(place.path(), None).unwrap(), Kind::Chunk);
        assert!(first.path().exists() && !half.path().exists());
        // Another file has this name.
        fs::write(place.path().join("chunk-0003"), "").unwrap();
        assert!(again.next().is_err() && again.next().is_err());
        fs::remove_file(place.path().join("chunk-0003")).unwrap();
        let second = again.next().unwrap();
        assert!(second.path().ends_with("chunk-0003"));
        again.take_back(&second);
        assert!(again.next().unwrap().path().ends_with("chunk-0003"));
    }

    #[test]
    fn recordings_are_placed_apart_where_the_file_system_can() {
        let place = tempfile::tempdir().unwrap();
        let flags = |path: &Path| ioctl_getflags(fs::File::open(path).unwrap());
        let [ours, other] = ["ours", "other"].map(|name| place.path().join(name));
        fs::create_dir(&other).unwrap();
        let can = ioctl_setflags(fs::File::open(&other).unwrap(), IFlags::TOPDIR).is_ok();
        Series::open(&Ground::take(&ours, None).unwrap(), Kind::Chunk);
        assert_eq!(flags(&ours).is_ok_and(|flags| flags.contains(IFlags::TOPDIR)), can);
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_refused() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("thesis.tex"), "").unwrap();
        assert!(matches!(Ground::take(place.path(), None), Err(Error::NotEmpty(_))));
    }
}
