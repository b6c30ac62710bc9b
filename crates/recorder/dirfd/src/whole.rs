//! A file that gets its name when it is whole.

use super::{Dir, Uid};
use rustix::fs::{Gid, fchown};
use std::fs::File;
use std::io::{self, Write};

/// A file that is written as `.NAME.new`, and gets its name when it is whole. It is removed if it is dropped before.
#[derive(Debug)]
pub struct WholeFile {
    dir: Dir,
    name: String,
    new: String,
    file: File,
    is_whole: bool,
}

impl WholeFile {
    /// Creates the file `.NAME.new` in `dir` with mode 0600, in place of one that a killed writer left behind.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn begin(dir: Dir, name: &str) -> io::Result<Self> {
        let new = format!(".{name}.new");
        let _ = dir.remove_file(&new);
        let file = dir.create(&new)?;
        Ok(Self { dir, name: name.to_owned(), new, file, is_whole: false })
    }

    /// Gives the file to a user and group, if they are named, and then its name. A file of that name is replaced.
    ///
    /// # Errors
    /// The kernel's error; the file is removed then.
    pub fn finish(mut self, owner: Option<(u32, u32)>) -> io::Result<()> {
        if let Some((uid, gid)) = owner {
            fchown(&self.file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        self.dir.rename(&self.new, &self.name)?;
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
    use std::fs;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_is_removed_before() {
        let place = tempfile::tempdir().unwrap();
        let file = || WholeFile::begin(Dir::open(place.path()).unwrap(), "trace").unwrap();
        let names = || fs::read_dir(place.path()).unwrap().flatten().map(|entry| entry.file_name());
        fs::write(place.path().join(".trace.new"), "left behind").unwrap();
        for text in ["one", "two"] {
            let mut new = file();
            new.write_all(text.as_bytes()).unwrap();
            assert!(names().any(|name| name == ".trace.new"));
            new.finish(None).unwrap();
            assert_eq!(fs::read_to_string(place.path().join("trace")).unwrap(), text);
        }
        file().write_all(b"three").unwrap();
        assert_eq!(names().collect::<Vec<_>>(), ["trace"]);
        assert_eq!(fs::read_to_string(place.path().join("trace")).unwrap(), "two");
    }
}
