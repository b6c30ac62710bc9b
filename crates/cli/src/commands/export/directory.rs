//! The output of an export that is a directory.

use super::output::failure;
use crate::Failure;
use crate::failure::UNUSABLE;
use crate::privilege::target;
use sordino_dirfd::Dir;
use sordino_export::Files;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Most files that are kept open.
const OPEN_MAX: usize = 64;

/// A directory that is written as `.NAME.new`, and gets its name when it is whole. It is removed if it is dropped before.
pub(super) struct Directory {
    path: PathBuf,
    parent: Dir,
    name: String,
    new: String,
    root: Dir,
    /// The directories in it, by path.
    inside: BTreeMap<String, Dir>,
    open: HashMap<String, File>,
    bytes: u64,
    is_whole: bool,
}

impl Directory {
    /// Creates the directory at `path`, under another name so far.
    ///
    /// # Errors
    /// Something of that name exists, or it can't be created.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let refused = |reason: &str| Failure::new(UNUSABLE, format!("{}: {reason}", path.display()));
        if path.symlink_metadata().is_ok() {
            return Err(refused("it exists, and this format is a directory: name one that does not exist"));
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| refused("its name is no text: name another directory"))?.to_owned();
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let new = format!(".{name}.new");
        let made = || {
            let parent = Dir::open(above)?;
            if parent.has(&new) {
                parent.remove_own(&new)?;
            }
            let root = parent.make_new(&new)?;
            io::Result::Ok((parent, root))
        };
        let (parent, root) = made().map_err(|error| failure(path, &error))?;
        let (inside, open) = (BTreeMap::new(), HashMap::new());
        Ok(Self { path: path.to_owned(), parent, name, new, root, inside, open, bytes: 0, is_whole: false })
    }

    /// Writes bytes to the ends of their files.
    pub(super) fn write(&mut self, files: &mut Files) -> Result<(), Failure> {
        for (name, bytes) in files.drain() {
            let written = self.file(&name).and_then(|file| file.write_all(&bytes));
            written.map_err(|error| failure(&self.path, &error))?;
            self.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    /// Returns the file of that name, open at its end.
    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        if !self.open.contains_key(name) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let (above, own) = name.rsplit_once('/').unwrap_or(("", name));
            let dir = self.dir(above)?;
            let file = match dir.create(own) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let mut file = dir.edit(own)?;
                    io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
                    file
                }
                created => created?,
            };
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

    /// Gives the directory its name, and to the user who called sudo. Returns the bytes of its files.
    pub(super) fn close(mut self) -> Result<u64, Failure> {
        self.open.clear();
        if let Some(reader) = target(None)? {
            self.root.give(reader.uid.as_raw(), reader.gid.as_raw());
        }
        self.parent.rename(&self.new, &self.name).map_err(|error| failure(&self.path, &error))?;
        self.is_whole = true;
        Ok(self.bytes)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_whole {
            // Nothing else could be done about a failure.
            let _ = self.parent.remove_own(&self.new);
        }
    }
}
