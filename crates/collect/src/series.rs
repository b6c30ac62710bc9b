//! The numbered recordings in a session's directory.
//!
//! ```text
//! DIR/chunk-0001/      of a session that writes to disk: each one a complete recording
//! DIR/snapshot-0001/   of a flight recorder
//! ```

use crate::Error;
use crate::directory::{ANOTHER, Directory};
use crate::options::Keep;
use sordino_dirfd::{Dir, Made};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

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

/// The directory of a session, as it was before the session.
#[derive(Debug)]
pub(crate) struct Ground {
    made: Made,
    /// It was its reader's, and what was in it then is not ours.
    is_taken: bool,
    /// The recordings that were there, and the last one's number.
    names: Vec<OsString>,
    last: u32,
}

impl Ground {
    /// Takes the directory at `path`, which is made if it is not there. One that an earlier session gave to its `reader`, a user, is
    /// taken back, but not what is in it.
    ///
    /// # Errors
    /// [`Error::NotOurs`] if others could have put something there, [`Error::NotEmpty`] if there are other things in it, or that it can't
    /// be read or made.
    pub(crate) fn take(path: &Path, reader: Option<(u32, u32)>) -> Result<Self, Error> {
        let made = Dir::make(path).map_err(Error::output(path))?;
        // Before anything is changed; another time when only we change names.
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

    /// Removes what a session that could not begin has made, and gives back what it took: nothing is given away that was there.
    pub(crate) fn abandon(&self, reader: Option<(u32, u32)>) {
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

    /// Gives the directory and the recordings that we made in it to a user. Of what was there before, recordings that are ours; but
    /// nothing of a directory that was taken from its user, who can have moved files of root's to it.
    pub(crate) fn give(&self, (user, group): (u32, u32)) {
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
pub(crate) struct Series {
    dir: Arc<Dir>,
    kind: Kind,
    /// The last one's number.
    last: u32,
    /// Those that are finished, oldest first, and their bytes, if anybody asked.
    finished: VecDeque<(Directory, Option<u64>)>,
}

impl Series {
    /// Goes on in a directory; what it holds of this kind counts as finished. What a recorder that was killed had not announced yet
    /// holds no event, and is removed.
    pub(crate) fn open(ground: &Ground, kind: Kind) -> Self {
        let dir = Arc::clone(&ground.made.dir);
        ground.names.iter().for_each(|name| Directory::remove_unannounced(&dir, name));
        let finished = recordings_in(&dir, kind).into_iter().map(|directory| (directory, None)).collect();
        Self { dir, kind, last: ground.last, finished }
    }

    /// Where they lie.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Those that are finished.
    pub(crate) fn finished(&self) -> impl ExactSizeIterator<Item = &Directory> {
        self.finished.iter().map(|(directory, _)| directory)
    }

    /// Makes the directory of the next one.
    pub(crate) fn next(&mut self) -> Result<Directory, Error> {
        let made = Directory::create_in(&self.dir, &format!("{}{:04}", self.kind.prefix(), self.last + 1));
        // Where nothing could be made, the number is free for the next try.
        if matches!(made, Ok(_) | Err(Error::NotEmpty(_))) {
            self.last += 1;
        }
        made
    }

    /// Removes the last one: it could not be begun.
    pub(crate) fn take_back(&mut self, last: &Directory) {
        last.remove();
        if !last.path().file_name().is_some_and(|name| self.dir.has(name)) {
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
        let sizes = sizes.map(|(directory, bytes)| *bytes.get_or_insert_with(|| directory.dir().bytes()));
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

/// The names of the recordings in a directory that holds nothing else, and their highest number.
fn numbered(dir: &Dir) -> Result<(Vec<OsString>, u32), Error> {
    let names = dir.names().map_err(Error::output(dir.path()))?;
    let numbers = names.iter().map(|name| number(&name.to_string_lossy()));
    let numbers = numbers.collect::<Option<Vec<u32>>>().ok_or(Error::NotEmpty(dir.path().to_owned()))?;
    Ok((names, numbers.into_iter().max().unwrap_or(0)))
}

/// Makes sure that only we can change a directory. One with recordings that an earlier session gave to `reader` is taken back: what
/// its user has put there meanwhile under the name of a recording is not ours, and is neither completed nor believed. Whether it was
/// taken back.
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

/// A greater number has no recording: whoever chose it wants the next one not to be counted.
const MOST_RECORDINGS: u32 = 1 << 31;

/// The number of `chunk-0007` or `snapshot-0007`.
fn number(name: &str) -> Option<u32> {
    let prefixes = [Kind::Chunk, Kind::Snapshot].map(Kind::prefix);
    let number = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)?.parse().ok());
    number.filter(|number| *number < MOST_RECORDINGS)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert!(matches!(Ground::take(place.path(), None), Err(Error::NotEmpty(_))));
    }
}
