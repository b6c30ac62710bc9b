//! The sources of a stream's bytes.

use super::regular;
use crate::Error;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of files that all streams together keep open from one packet to the next: a recording can have more of
/// them than a process may have open.
const KEPT_MAX: usize = 64;

/// The minimum length of a hole in a file that ends the content: no tracer leaves such a hole, and with one, a file can
/// claim any number of bytes.
const HOLE: u64 = 1 << 20;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A stream file, on disk or in memory.
#[derive(Debug)]
pub(super) enum ByteSource {
    File(PathBuf),
    Memory(PathBuf, Vec<u8>),
}

/// The state of an open source.
#[derive(Debug)]
pub(super) struct OpenSource {
    /// The open file; `None` for a source in memory.
    file: Option<File>,
    /// True if it is one of the [`KEPT_MAX`] files.
    kept: bool,
}

/// A source that can be read now.
#[derive(Clone, Copy)]
pub(super) struct SourceReader<'a>(&'a ByteSource, &'a OpenSource);

impl ByteSource {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Memory(path, _) => path,
        }
    }

    pub(super) fn open(&self) -> Result<OpenSource, Error> {
        let file = match self {
            Self::File(path) => Some(regular::open(path).map_err(self.failed("open"))?),
            Self::Memory(..) => None,
        };
        Ok(OpenSource { file, kept: false })
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| Error::Io { action, path: self.path().to_owned(), source }
    }
}

impl OpenSource {
    /// Keeps the file open for later, unless too many files are open already.
    pub(super) fn keep(mut self) -> Option<Self> {
        let more = |kept| (kept < KEPT_MAX).then_some(kept + 1);
        if self.file.is_some() && !self.kept {
            self.kept = KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        }
        self.kept.then_some(self)
    }

    /// Returns a reader of `source`, the source that this was opened from.
    pub(super) fn reader<'a>(&'a self, source: &'a ByteSource) -> SourceReader<'a> {
        SourceReader(source, self)
    }
}

impl Drop for OpenSource {
    fn drop(&mut self) {
        if self.kept {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl SourceReader<'_> {
    /// Returns the length in bytes.
    pub(super) fn length(self) -> Result<u64, Error> {
        match (self.0, &self.1.file) {
            (_, Some(file)) => Ok(file.metadata().map_err(self.0.failed("examine"))?.len()),
            (ByteSource::Memory(_, bytes), None) => Ok(bytes.len() as u64),
            (ByteSource::File(_), None) => Ok(0),
        }
    }

    /// Reads the bytes at `offset` into `room`, as many as there are and fit. Returns their number.
    pub(super) fn read(self, offset: u64, room: &mut [u8]) -> Result<usize, Error> {
        match (self.0, &self.1.file) {
            (_, Some(file)) => read_full(file, offset, room).map_err(self.0.failed("read")),
            (ByteSource::Memory(_, bytes), None) => {
                let rest =
                    usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
                let length = rest.len().min(room.len());
                room[..length].copy_from_slice(&rest[..length]);
                Ok(length)
            }
            (ByteSource::File(_), None) => Ok(0),
        }
    }

    /// Returns true if a hole begins at `offset` that is too long to be part of an event.
    pub(super) fn is_hole(self, offset: u64) -> bool {
        let Some(file) = &self.1.file else { return false };
        match seek(file, SeekFrom::Data(offset)) {
            Ok(data) => data - offset >= HOLE,
            // There is no data behind the offset.
            Err(Errno::NXIO) => self.length().is_ok_and(|length| length.saturating_sub(offset) >= HOLE),
            // The file system does not report holes.
            Err(_) => false,
        }
    }
}

fn read_full(file: &File, offset: u64, room: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read_at(&mut room[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
