//! The output of an export: a file, or standard output.

use crate::Failure;
use crate::commands::events::is_read;
use crate::failure::UNUSABLE;
use crate::privilege::target;
use crate::terminal::{Output, is_terminal};
use sordino_dirfd::{Dir, WholeFile, remedy};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// The destination of an export's bytes.
pub(super) enum Destination {
    File(PathBuf, Writer),
    Standard(Output),
}

/// A thread that writes a file while the next portion is made.
pub(super) struct Writer {
    portions: SyncSender<Vec<u8>>,
    thread: JoinHandle<io::Result<WholeFile>>,
}

impl Destination {
    /// Opens the file at `path`, or standard output.
    ///
    /// # Errors
    /// The file exists and `may_replace` is false, it is no regular file, or it can't be created.
    pub(super) fn open(path: Option<&Path>, may_replace: bool, is_text: bool) -> Result<Self, Failure> {
        if let Some(path) = path {
            let file = create(path, may_replace)?;
            return Ok(Self::File(path.to_owned(), Writer::start(file)));
        }
        // A pipe and a file get the bytes as they are.
        if is_text && is_terminal() {
            return Ok(Self::Standard(Output::of_json()));
        }
        let refusal = "this format is not for a terminal: name a file with -o, or redirect the output";
        Output::of_bytes().map(Self::Standard).ok_or_else(|| Failure::new(UNUSABLE, refusal))
    }

    /// Writes bytes. Returns false if nobody takes more: the reader closed standard output, or the file can't be written,
    /// which [`close`](Self::close) reports.
    pub(super) fn write(&mut self, bytes: Vec<u8>) -> Result<bool, Failure> {
        match self {
            Self::File(_, writer) => Ok(writer.portions.send(bytes).is_ok()),
            Self::Standard(output) => is_read(output.write_all(&bytes)),
        }
    }

    /// Completes the output. Returns the file's path, if it is a file.
    pub(super) fn close(self) -> Result<Option<PathBuf>, Failure> {
        match self {
            Self::File(path, writer) => {
                let file = writer.end().map_err(|error| failure(&path, &error))?;
                // The file belongs to the user who called sudo.
                let owner = target(None)?.map(|reader| (reader.uid.as_raw(), reader.gid.as_raw()));
                file.finish(owner).map_err(|error| failure(&path, &error))?;
                Ok(Some(path))
            }
            Self::Standard(mut output) => is_read(output.flush()).map(|_| None),
        }
    }
}

impl Writer {
    fn start(mut file: WholeFile) -> Self {
        // One portion is written, one waits, one is being made.
        let (portions, received) = sync_channel::<Vec<u8>>(1);
        let write = move || {
            received.iter().try_for_each(|portion| file.write_all(&portion))?;
            Ok(file)
        };
        Self { portions, thread: thread::spawn(write) }
    }

    /// Waits until all is written.
    fn end(self) -> io::Result<WholeFile> {
        drop(self.portions);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes it panicked")))
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

pub(super) fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(UNUSABLE, format!("can't write {}: {error}{}", path.display(), remedy(error)))
}
