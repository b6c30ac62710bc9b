//! The sending end of a stream.

use crate::{ANNOUNCED, LAST};
use sordino_collect::{Directory, Kind, State, Summary, recordings};
use sordino_dirfd::Dir;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tar::{Builder, Header};

/// Interval at which finished chunks are searched for.
const LOOK: Duration = Duration::from_millis(100);

/// The sending end of a stream.
pub struct StreamSender<W: Write> {
    pub(crate) archive: Builder<W>,
    pub(crate) chunks: u32,
}

impl<W: Write> StreamSender<W> {
    /// Sends to this stream.
    pub fn new(stream: W) -> Self {
        let mut archive = Builder::new(stream);
        // A recording has no symbolic links.
        archive.follow_symlinks(false);
        Self { archive, chunks: 0 }
    }

    /// Sends chunks as they are finished, and the remaining ones when recording has `ended`.
    ///
    /// # Errors
    /// The stream can't be written to, or a chunk can't be read.
    pub fn send_until(&mut self, output: &Path, ended: &AtomicBool) -> io::Result<()> {
        loop {
            let is_last = ended.load(Relaxed);
            for chunk in recordings(output, Kind::Chunk) {
                let is_complete =
                    Summary::read(&chunk).is_ok_and(|summary| summary.state != State::Recording);
                if is_complete || is_last {
                    self.send(&chunk)?;
                }
            }
            if is_last {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends the stream, and returns the number of chunks that were sent.
    ///
    /// # Errors
    /// The stream can't be written to.
    pub fn finish(mut self) -> io::Result<u32> {
        self.archive.finish()?;
        Ok(self.chunks)
    }

    /// Sends a chunk, then removes it.
    fn send(&mut self, chunk: &Directory) -> io::Result<()> {
        let path = chunk.path();
        let name = Path::new(path.file_name().unwrap_or(OsStr::new("chunk")));
        self.announce(&name.join(ANNOUNCED), chunk)?;
        // `.raw` holds pages of the kernel that this disk had no room to convert: the receiver's may have it.
        for part in ["kernel", "user", ".raw"].into_iter().filter(|part| chunk.dir().has(part)) {
            self.send_directory(&name.join(part), &chunk.dir().dir(part)?)?;
        }
        self.archive.append_file(name.join(LAST), &mut chunk.dir().read(LAST)?)?;
        self.archive.get_mut().flush()?;
        self.chunks += 1;
        chunk.remove_whole()
    }

    /// Sends the summary ahead: if the rest does not arrive, it shows what is missing.
    fn announce(&mut self, name: &Path, chunk: &Directory) -> io::Result<()> {
        let summary = chunk.dir().read(LAST)?;
        let mut header = Header::new_gnu();
        header.set_metadata(&summary.metadata()?);
        self.archive.append_data(&mut header, name, summary)
    }

    /// Sends a directory with its files, the metadata first: without it, nothing else of a trace can be read.
    fn send_directory(&mut self, name: &Path, dir: &Dir) -> io::Result<()> {
        self.archive.append_dir(name, dir.proc_path())?;
        let mut entries = dir.names()?;
        entries.sort_by_key(|entry| (entry != "metadata", entry.clone()));
        for entry in entries {
            let name = name.join(&entry);
            match dir.dir(&entry) {
                Ok(below) => self.send_directory(&name, &below)?,
                Err(_) => self.archive.append_file(&name, &mut dir.read(&entry)?)?,
            }
        }
        Ok(())
    }
}
