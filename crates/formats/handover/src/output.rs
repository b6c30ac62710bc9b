//! The output of an export: a file, or standard output.

use crate::HandoverError;
use sordino_dirfd::{Dir, WholeDir, WholeFile};
use sordino_export::Files;
use sordino_terminal::{ListingOutput, is_read, is_terminal};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Reason why a file is not written, and the remedy.
const EXISTS: &str = "it exists: name another file, or replace it with --force";

/// The destination of an export's bytes.
pub enum ExportStream {
    /// A file that gets its name when it is complete.
    File(PathBuf, FileWriter),
    /// Standard output, as text on a terminal, or as bytes.
    Standard(ListingOutput),
}

/// A thread that writes a file while the next portion is made.
pub struct FileWriter {
    portions: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<io::Result<WholeFile>>>,
}

impl ExportStream {
    /// Opens the file at `path`, or standard output.
    ///
    /// # Errors
    /// The file exists and `may_replace` is false, it is no regular file, or it can't be created.
    pub fn open(path: Option<&Path>, may_replace: bool, is_text: bool) -> Result<Self, HandoverError> {
        if let Some(path) = path {
            let file = create(path, may_replace)?;
            return Ok(Self::File(path.to_owned(), FileWriter::start(file)));
        }
        // A pipe and a file get the bytes as they are.
        if is_text && is_terminal() {
            return Ok(Self::Standard(ListingOutput::of_json()));
        }
        let refusal = "this format is not for a terminal: name a file with -o, or redirect the output";
        ListingOutput::of_bytes()
            .map(Self::Standard)
            .ok_or_else(|| HandoverError::Refused(refusal.to_owned()))
    }

    /// Writes bytes. Returns false if no more can be written: the reader closed standard output, or the file can't be
    /// written, which [`close`](Self::close) reports.
    ///
    /// # Errors
    /// Standard output's error, except for a closed pipe.
    pub fn write(&mut self, bytes: Vec<u8>) -> Result<bool, HandoverError> {
        match self {
            Self::File(_, writer) => {
                Ok(writer.portions.as_ref().is_some_and(|portions| portions.send(bytes).is_ok()))
            }
            Self::Standard(output) => Ok(is_read(output.write_all(&bytes))?),
        }
    }

    /// Completes the output. A file then belongs to the user and the group `owner`, if given. Returns the file's path,
    /// if it is a file.
    ///
    /// # Errors
    /// [`HandoverError::Unwritten`], and no file is left then.
    pub fn close(self, owner: Option<(u32, u32)>) -> Result<Option<PathBuf>, HandoverError> {
        match self {
            Self::File(path, mut writer) => {
                let file = writer.end().map_err(|error| failure(&path, &error))?;
                file.finish(owner).map_err(|error| failure(&path, &error))?;
                Ok(Some(path))
            }
            Self::Standard(mut output) => {
                is_read(output.flush())?;
                Ok(None)
            }
        }
    }
}

impl FileWriter {
    fn start(mut file: WholeFile) -> Self {
        // One portion is written, one waits, one is being made.
        let (portions, received) = sync_channel::<Vec<u8>>(1);
        let write = move || {
            received.iter().try_for_each(|portion| file.write_all(&portion))?;
            Ok(file)
        };
        Self { portions: Some(portions), thread: Some(thread::spawn(write)) }
    }

    /// Waits until all is written.
    fn end(&mut self) -> io::Result<WholeFile> {
        self.portions = None;
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(file)) => file,
            _ => Err(io::Error::other("the thread that writes it panicked")),
        }
    }
}

/// Waits for the thread, which removes an incomplete file.
impl Drop for FileWriter {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A directory that is written, or a file in parts.
pub struct ExportParts {
    path: PathBuf,
    dir: WholeDir,
    /// The file to which the parts are joined.
    file: Option<WholeFile>,
}

impl ExportParts {
    /// Creates the directory at `path`, or the directory for the parts of the file there.
    ///
    /// # Errors
    /// `path` is not named or exists, or it can't be created.
    pub fn create(path: Option<&Path>, may_replace: bool, is_file: bool) -> Result<Self, HandoverError> {
        let unnamed = if is_file {
            "this format is no stream: name a file with -o"
        } else {
            "this format is a directory: name it with -o"
        };
        let path = path.ok_or_else(|| HandoverError::Refused(unnamed.to_owned()))?;
        if !is_file && path.symlink_metadata().is_ok() {
            let reason = "it exists, and this format is a directory: name one that does not exist";
            return Err(HandoverError::Refused(format!("{}: {reason}", path.display())));
        }
        let file = is_file.then(|| create(path, may_replace)).transpose()?;
        let (parent, name) = place(path)?;
        let name = if is_file { format!("{name}.parts") } else { name.to_owned() };
        let dir = Dir::open(parent).and_then(|parent| WholeDir::begin(parent, &name));
        Ok(Self { path: path.to_owned(), dir: dir.map_err(|error| failure(path, &error))?, file })
    }

    /// Writes bytes to the ends of their files.
    ///
    /// # Errors
    /// [`HandoverError::Unwritten`] with the path of the whole.
    pub fn write(&mut self, files: &mut Files) -> Result<(), HandoverError> {
        let mut written = files.drain().map(|(name, bytes)| self.dir.append(&name, &bytes));
        written.try_for_each(|written| written).map_err(|error| failure(&self.path, &error))
    }

    /// Returns the path of the directory that is written.
    pub fn directory(&self) -> PathBuf {
        self.dir.root().proc_path()
    }

    /// Returns the failure for an error of writing.
    pub fn failure(&self, error: &io::Error) -> HandoverError {
        failure(&self.path, error)
    }

    /// Completes the output, which belongs to the user and the group `owner` then, if given. Returns its path and
    /// bytes.
    ///
    /// # Errors
    /// [`HandoverError::Unwritten`], and nothing is left then.
    pub fn close(self, owner: Option<(u32, u32)>) -> Result<(PathBuf, u64), HandoverError> {
        let Self { path, dir, file } = self;
        let bytes = dir.root().bytes();
        let closed = match file {
            Some(mut file) => dir.join(&mut file).and_then(|()| file.finish(owner)),
            None => dir.finish(owner),
        };
        closed.map_err(|error| failure(&path, &error))?;
        Ok((path, bytes))
    }
}

/// Returns the directory of a path and the name in it.
fn place(path: &Path) -> Result<(&Path, &str), HandoverError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| name.to_str());
    let refused = || HandoverError::Refused(format!("{}: its name is no text: use another", path.display()));
    Ok((parent, name.ok_or_else(refused)?))
}

fn create(path: &Path, may_replace: bool) -> Result<WholeFile, HandoverError> {
    let refused = |reason: &str| HandoverError::Refused(format!("{}: {reason}", path.display()));
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => return Err(refused("it is a directory: name a file in it")),
        Ok(found) if !found.is_file() => {
            return Err(refused("it is no regular file: leave -o out, and redirect standard output there"));
        }
        Ok(_) if !may_replace => {
            return Err(refused(EXISTS));
        }
        _ => {}
    }
    let (parent, name) = place(path)?;
    Dir::open(parent)
        .and_then(|dir| WholeFile::begin(dir, name, may_replace))
        .map_err(|error| failure(path, &error))
}

fn failure(path: &Path, error: &io::Error) -> HandoverError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        // It appeared while the output was written.
        return HandoverError::Refused(format!("{}: {EXISTS}", path.display()));
    }
    // The kind and the number of the error are what its remedy is chosen by.
    let source = error
        .raw_os_error()
        .map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error);
    HandoverError::Unwritten { path: path.to_owned(), source }
}
