//! A file that gets its name when it is whole.

use super::unfinished::{lock, new_name, remove_left_behind, rename_new};
use super::{Dir, Uid};
use rustix::fs::{Gid, fchown};
use std::fs::File;
use std::io::{self, Write};

/// A file that is written as `.NAME.RANDOM.new`, and gets its name when it is whole. Several writers of one name do not
/// disturb each other. It is removed if it is dropped before.
#[derive(Debug)]
pub struct WholeFile {
    dir: Dir,
    name: String,
    new: String,
    /// Locked as long as it is written.
    file: File,
    may_replace: bool,
    is_whole: bool,
}

impl WholeFile {
    /// Creates the file `.NAME.RANDOM.new` in `dir` with mode 0600, and removes those that killed writers left behind.
    /// The file replaces one called `name` in the end if it `may_replace` it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn begin(dir: Dir, name: &str, may_replace: bool) -> io::Result<Self> {
        remove_left_behind(&dir, name);
        let new = new_name(name)?;
        let file = dir.create(&new)?;
        lock(&file);
        Ok(Self { dir, name: name.to_owned(), new, file, may_replace, is_whole: false })
    }

    /// Gives the file to a user and group, if they are named, and then its name.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a file of that name which it may not replace; otherwise the kernel's error. The file
    /// is removed then.
    pub fn finish(mut self, owner: Option<(u32, u32)>) -> io::Result<()> {
        if let Some((uid, gid)) = owner {
            fchown(&self.file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        match self.may_replace {
            true => self.dir.rename(&self.new, &self.name)?,
            false => rename_new(&self.dir, &self.new, &self.name)?,
        }
        self.is_whole = true;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // Nothing else could be done about a failure.
            let _ = self.dir.remove_file(&self.new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unfinished::is_new_name;
    use std::fs;
    use std::path::Path;
    use std::time::UNIX_EPOCH;

    fn names(place: &Path) -> Vec<std::ffi::OsString> {
        let mut names: Vec<_> =
            fs::read_dir(place).unwrap().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names
    }

    fn begin(place: &Path, may_replace: bool) -> WholeFile {
        WholeFile::begin(Dir::open(place).unwrap(), "trace", may_replace).unwrap()
    }

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_is_removed_before() {
        let place = tempfile::tempdir().unwrap();
        for text in ["one", "two"] {
            let mut new = begin(place.path(), true);
            new.write_all(text.as_bytes()).unwrap();
            assert!(names(place.path()).iter().any(|name| is_new_name(name, "trace")));
            new.finish(None).unwrap();
            assert_eq!(fs::read_to_string(place.path().join("trace")).unwrap(), text);
        }
        begin(place.path(), true).write_all(b"three").unwrap();
        assert_eq!(names(place.path()), ["trace"]);
        assert_eq!(fs::read_to_string(place.path().join("trace")).unwrap(), "two");
    }

    #[test]
    fn writers_of_one_name_do_not_disturb_each_other_and_the_first_has_it() {
        let place = tempfile::tempdir().unwrap();
        let mut writers = [0, 1].map(|_| begin(place.path(), false));
        for (writer, text) in writers.iter_mut().zip(["one", "two"]) {
            writer.write_all(text.as_bytes()).unwrap();
        }
        let [first, second] = writers;
        second.finish(None).unwrap();
        let refused = first.finish(None).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(names(place.path()), ["trace"]);
        assert_eq!(fs::read_to_string(place.path().join("trace")).unwrap(), "two");
    }

    #[test]
    fn what_a_killed_writer_left_behind_is_removed_and_no_file_that_is_written() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join(".trace.0123456789abcdef.new");
        fs::write(&left, "left behind").unwrap();
        drop(begin(place.path(), false));
        assert!(left.exists(), "it may be a writer's that has no lock yet");
        let writer = begin(place.path(), false);
        for path in [&left, &place.path().join(&writer.new)] {
            File::options().write(true).open(path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        }
        let other = place.path().join(".trace.mine.new");
        fs::write(&other, "of another name").unwrap();
        drop(begin(place.path(), false));
        assert!(!left.exists() && other.exists());
        writer.finish(None).unwrap();
        assert_eq!(names(place.path()), [".trace.mine.new", "trace"]);
    }
}
