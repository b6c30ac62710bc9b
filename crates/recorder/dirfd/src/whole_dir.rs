//! A directory that gets its name when it is whole.

use super::Dir;
use super::unfinished::{lock, new_name, remove_left_behind, rename_new};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// Most files that are kept open.
const OPEN_MAX: usize = 64;

/// A directory that is written as `.NAME.RANDOM.new`, and gets its name when it is whole. Several writers of one name
/// do not disturb each other. It is removed if it is dropped before.
#[derive(Debug)]
pub struct WholeDir {
    parent: Dir,
    name: String,
    new: String,
    /// The directory itself, locked as long as it is written.
    root: Dir,
    /// The directories in it, by path.
    inside: BTreeMap<String, Dir>,
    open: HashMap<String, File>,
    /// The files that were made.
    files: BTreeMap<String, u64>,
    is_whole: bool,
}

impl WholeDir {
    /// Creates the directory `.NAME.RANDOM.new` in `parent` with mode 0700, and removes those that killed writers left
    /// behind.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn begin(parent: Dir, name: &str) -> io::Result<Self> {
        remove_left_behind(&parent, name);
        let new = new_name(name)?;
        let root = parent.make_new(&new)?;
        lock(&root);
        let (inside, open, files) = (BTreeMap::new(), HashMap::new(), BTreeMap::new());
        Ok(Self { parent, name: name.to_owned(), new, root, inside, open, files, is_whole: false })
    }

    /// Appends bytes to a file, which is made if it is new; slashes in its name stand between directories.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.file(name)?.write_all(bytes)?;
        *self.files.entry(name.to_owned()).or_default() += bytes.len() as u64;
        Ok(())
    }

    /// Creates a file that a library writes; slashes in its name stand between directories.
    ///
    /// # Errors
    /// `AlreadyExists` if it was made before; otherwise the kernel's error.
    pub fn create(&mut self, name: &str) -> io::Result<File> {
        let (above, own) = name.rsplit_once('/').unwrap_or(("", name));
        self.dir(above)?.create(own)
    }

    /// Returns the directory itself, for libraries that write files in it.
    pub fn root(&self) -> &Dir {
        &self.root
    }

    /// Returns the number of bytes that were appended to files.
    pub fn bytes(&self) -> u64 {
        self.files.values().sum()
    }

    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        if !self.open.contains_key(name) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let is_new = !self.files.contains_key(name);
            let (above, own) = name.rsplit_once('/').unwrap_or(("", name));
            let dir = self.dir(above)?;
            let mut file = if is_new { dir.create(own)? } else { dir.edit(own)? };
            file.seek(SeekFrom::End(0))?;
            self.open.insert(name.to_owned(), file);
        }
        self.open.get_mut(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn dir(&mut self, path: &str) -> io::Result<&Dir> {
        if path.is_empty() {
            return Ok(&self.root);
        }
        if !self.inside.contains_key(path) {
            let (above, own) = path.rsplit_once('/').unwrap_or(("", path));
            let made = self.dir(above)?.make_new(own)?;
            self.inside.insert(path.to_owned(), made);
        }
        self.inside.get(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Gives the directory to a user and group, if they are named, and then its name.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken; otherwise the kernel's error. The directory is removed then.
    pub fn finish(mut self, owner: Option<(u32, u32)>) -> io::Result<()> {
        self.open.clear();
        if let Some((uid, gid)) = owner {
            self.root.give(uid, gid);
        }
        rename_new(&self.parent, &self.new, &self.name)?;
        self.is_whole = true;
        Ok(())
    }

    /// Writes the content of all files to `out`, in the order of their names, and removes them.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn join(mut self, out: &mut impl Write) -> io::Result<()> {
        self.open.clear();
        for name in std::mem::take(&mut self.files).into_keys() {
            let (above, own) = name.rsplit_once('/').unwrap_or(("", &name));
            let dir = self.dir(above)?;
            io::copy(&mut dir.read(own)?, out)?;
            dir.remove_file(own)?;
        }
        Ok(())
    }
}

impl Drop for WholeDir {
    fn drop(&mut self) {
        if !self.is_whole {
            // Nothing else could be done about a failure.
            let _ = self.parent.remove_own(&self.new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_has_its_name_when_it_is_whole_and_is_removed_before() {
        let place = tempfile::tempdir().unwrap();
        let begin = || WholeDir::begin(Dir::open(place.path()).unwrap(), "out").unwrap();
        let names = || fs::read_dir(place.path()).unwrap().flatten().map(|entry| entry.file_name());
        let left = place.path().join(".out.0123456789abcdef.new");
        fs::create_dir_all(left.join("inside")).unwrap();
        File::open(&left).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        let mut dir = begin();
        for number in 0..200 {
            dir.append(&format!("a/b/{}", number % 100), b"x").unwrap();
        }
        assert_eq!((names().collect::<Vec<_>>(), dir.bytes()), (vec![dir.new.clone().into()], 200));
        dir.create("a/c/new").unwrap().write_all(b"z").unwrap();
        assert!(dir.create("a/c/new").is_err());
        let other = begin();
        dir.finish(None).unwrap();
        assert_eq!(fs::read(place.path().join("out/a/c/new")).unwrap(), b"z");
        assert_eq!(fs::read(place.path().join("out/a/b/7")).unwrap(), b"xx");
        assert_eq!(other.finish(None).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        begin().append("c", b"y").unwrap();
        assert_eq!(names().collect::<Vec<_>>(), ["out"]);
    }

    #[test]
    fn joined_files_stand_in_the_order_of_their_names() {
        let place = tempfile::tempdir().unwrap();
        let mut dir = WholeDir::begin(Dir::open(place.path()).unwrap(), "out").unwrap();
        for (name, bytes) in [("2", b"cd"), ("1", b"ab"), ("2", b"ef")] {
            dir.append(name, bytes).unwrap();
        }
        let mut joined = Vec::new();
        dir.join(&mut joined).unwrap();
        assert_eq!((joined, fs::read_dir(place.path()).unwrap().count()), (b"abcdef".to_vec(), 0));
    }
}
