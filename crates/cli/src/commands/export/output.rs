//! The output of an export: a file, or standard output.

use crate::Failure;
use crate::commands::events::is_read;
use crate::failure::UNUSABLE;
use crate::privilege::target;
use crate::terminal::{Output, is_terminal};
use sordino_dirfd::{Dir, WholeFile, remedy};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The destination of an export's bytes.
pub(super) enum Destination {
    File(PathBuf, WholeFile),
    Standard(Output),
}

impl Destination {
    /// Opens the file at `path`, or standard output.
    ///
    /// # Errors
    /// The file exists and `may_replace` is false, it is no regular file, or it can't be created.
    pub(super) fn open(path: Option<&Path>, may_replace: bool, is_text: bool) -> Result<Self, Failure> {
        if let Some(path) = path {
            let file = create(path, may_replace)?;
            return Ok(Self::File(path.to_owned(), file));
        }
        // A pipe and a file get the bytes as they are.
        if is_text && is_terminal() {
            return Ok(Self::Standard(Output::of_json()));
        }
        let refusal = "this format is not for a terminal: name a file with -o, or redirect the output";
        Output::of_bytes().map(Self::Standard).ok_or_else(|| Failure::new(UNUSABLE, refusal))
    }

    /// Writes bytes. Returns false if the reader closed standard output.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        match self {
            Self::File(path, file) => {
                file.write_all(bytes).map(|()| true).map_err(|error| failure(path, &error))
            }
            Self::Standard(output) => is_read(output.write_all(bytes)),
        }
    }

    /// Completes the output. Returns the file's path, if it is a file.
    pub(super) fn close(self) -> Result<Option<PathBuf>, Failure> {
        match self {
            Self::File(path, file) => {
                // The file belongs to the user who called sudo.
                let owner = target(None)?.map(|reader| (reader.uid.as_raw(), reader.gid.as_raw()));
                file.finish(owner).map_err(|error| failure(&path, &error))?;
                Ok(Some(path))
            }
            Self::Standard(mut output) => is_read(output.flush()).map(|_| None),
        }
    }
}

fn create(path: &Path, may_replace: bool) -> Result<WholeFile, Failure> {
    let refused = |reason: &str| Failure::new(UNUSABLE, format!("{}: {reason}", path.display()));
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => return Err(refused("it is a directory: name a file in it")),
        Ok(found) if !found.is_file() => {
            return Err(refused("it is no regular file: leave -o out, and redirect standard output there"));
        }
        Ok(_) if !may_replace => {
            return Err(refused("it exists: name another file, or replace it with --force"));
        }
        _ => {}
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| refused("its name is no text: name another file"))?;
    Dir::open(parent).and_then(|dir| WholeFile::begin(dir, name)).map_err(|error| failure(path, &error))
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(UNUSABLE, format!("can't write {}: {error}{}", path.display(), remedy(error)))
}
