//! The numbered recordings in a session's directory.
//!
//! ```text
//! DIR/chunk-0001/      of a session that writes to disk: each one a complete recording
//! DIR/snapshot-0001/   of a flight recorder
//! ```

use crate::Error;
use crate::directory::Directory;
use crate::options::Keep;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

/// Of what kind they are, which is also how their names begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A part of what is recorded.
    Chunk,
    /// The newest data, copied.
    Snapshot,
}

impl Kind {
    /// As their names begin.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Chunk => "chunk-",
            Self::Snapshot => "snapshot-",
        }
    }
}

/// The recordings of one session.
#[derive(Debug)]
pub(crate) struct Series {
    path: PathBuf,
    kind: Kind,
    /// The last one's number.
    last: u32,
    /// Those that are finished, oldest first, and their bytes, if anybody asked.
    finished: VecDeque<(Directory, Option<u64>)>,
}

impl Series {
    /// Goes on in `path`, which is made if it is not there; what it holds of this kind counts as finished. What a recorder that was
    /// killed had not announced yet holds no event, and is removed.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if there are other things in it, or that it can't be read or made.
    pub(crate) fn open(path: &Path, kind: Kind) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(Error::output(path))?;
        let path = path.canonicalize().map_err(Error::output(path))?;
        let (mut last, mut unannounced) = (0, Vec::new());
        for entry in fs::read_dir(&path).map_err(Error::output(&path))?.flatten() {
            let name = entry.file_name();
            let Some(number) = number(&name.to_string_lossy()) else { return Err(Error::NotEmpty(path)) };
            last = last.max(number);
            unannounced.push(entry.path());
        }
        unannounced.iter().for_each(|path| Directory::remove_unannounced(path));
        let mut series = Self { path, kind, last, finished: VecDeque::new() };
        series.finished.extend(recordings(&series.path, kind).into_iter().map(|directory| (directory, None)));
        Ok(series)
    }

    /// Removes what a session that could not begin has made.
    pub(crate) fn abandon(path: &Path, was_there: bool) {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| number(&entry.file_name().to_string_lossy()).is_some());
        ours.for_each(|entry| Directory::remove_unannounced(&entry.path()));
        if !was_there {
            let _ = fs::remove_dir(path);
        }
    }

    /// Where they lie.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Those that are finished.
    pub(crate) fn finished(&self) -> impl ExactSizeIterator<Item = &Directory> {
        self.finished.iter().map(|(directory, _)| directory)
    }

    /// Makes the directory of the next one.
    pub(crate) fn next(&mut self) -> Result<Directory, Error> {
        let made = Directory::create(&self.path.join(format!("{}{:04}", self.kind.prefix(), self.last + 1)));
        // Where nothing could be made, the number is free for the next try.
        if matches!(made, Ok(_) | Err(Error::NotEmpty(_))) {
            self.last += 1;
        }
        made
    }

    /// Removes the last one: it could not be begun.
    pub(crate) fn take_back(&mut self, last: &Directory) {
        last.remove(false);
        if !last.path().exists() {
            self.last -= 1;
        }
    }

    /// One of those that are finished is none of them any more.
    pub(crate) fn forget(&mut self, directory: &Directory) {
        self.finished.retain(|(known, _)| known.path() != directory.path());
    }

    /// One is complete; the oldest that are too many or too large together, but never the newest, are to be removed.
    pub(crate) fn finish(&mut self, directory: Directory, keep: Keep) -> Vec<Directory> {
        self.finished.push_back((directory, None));
        let many = keep.count.map_or(0, |most| self.finished.len().saturating_sub(most));
        let large = keep.bytes.map_or(0, |most| self.beyond(most));
        let too_many = many.max(large).min(self.finished.len() - 1);
        self.finished.drain(..too_many).map(|(directory, _)| directory).collect()
    }

    /// How many of the oldest there are beside so many bytes of the newest.
    fn beyond(&mut self, most: u64) -> usize {
        let sizes = self.finished.iter_mut().rev();
        let sizes = sizes.map(|(directory, bytes)| *bytes.get_or_insert_with(|| size(directory.path())));
        let totals = sizes.scan(0u64, |total, bytes| {
            *total += bytes;
            Some(*total)
        });
        let kept = totals.take_while(|total| *total <= most).count();
        self.finished.len() - kept
    }
}

/// The recordings of a kind in a session's directory, in the order of their numbers.
pub fn recordings(path: &Path, kind: Kind) -> Vec<Directory> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<(u32, String)> = names
        .filter(|name| name.starts_with(kind.prefix()))
        .filter_map(|name| number(&name).map(|number| (number, name)))
        .collect();
    names.sort_unstable();
    names.iter().filter_map(|(_, name)| Directory::open(&path.join(name)).ok()).collect()
}

/// The number of `chunk-0007` or `snapshot-0007`.
fn number(name: &str) -> Option<u32> {
    let prefixes = [Kind::Chunk, Kind::Snapshot].map(Kind::prefix);
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)?.parse().ok())
}

/// Bytes of all files below.
pub(crate) fn size(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(series: &mut Series, keep: Keep) -> Directory {
        let directory = series.next().unwrap();
        fs::write(directory.summary(), "{}").unwrap();
        fs::write(directory.kernel().join("cpu0"), vec![0; 10_000]).unwrap();
        directory.use_room();
        let removed = series.finish(directory.clone(), keep);
        removed.iter().for_each(|directory| fs::remove_dir_all(directory.path()).unwrap());
        directory
    }

    #[test]
    fn the_oldest_are_removed_and_numbers_go_on() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new");
        let keep = Keep { count: Some(2), bytes: None };
        let mut series = Series::open(&path, Kind::Chunk).unwrap();
        let made: Vec<Directory> = (0..3).map(|_| finished(&mut series, keep)).collect();
        assert!(!made[0].path().exists() && made[1].path().exists());
        let mut again = Series::open(&path, Kind::Chunk).unwrap();
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
        let mut series = Series::open(place.path(), Kind::Chunk).unwrap();
        let first = finished(&mut series, Keep::default());
        let half = series.next().unwrap();
        let mut again = Series::open(place.path(), Kind::Chunk).unwrap();
        assert!(first.path().exists() && !half.path().exists());
        // Something else has its name.
        fs::write(place.path().join("chunk-0003"), "").unwrap();
        assert!(again.next().is_err() && again.next().is_err());
        fs::remove_file(place.path().join("chunk-0003")).unwrap();
        let second = again.next().unwrap();
        assert!(second.path().ends_with("chunk-0003"));
        again.take_back(&second);
        assert!(again.next().unwrap().path().ends_with("chunk-0003"));
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_refused() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("thesis.tex"), "").unwrap();
        assert!(matches!(Series::open(place.path(), Kind::Snapshot), Err(Error::NotEmpty(_))));
    }
}
