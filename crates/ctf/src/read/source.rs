//! Where the bytes of a stream come from.

use crate::Error;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A stream file. A recording can have more of them than a process may have open, so a file is open only while a
/// packet is read.
#[derive(Debug)]
pub(super) enum Source {
    File(PathBuf),
    Memory(PathBuf, Vec<u8>),
}

/// A source that can be read now.
pub(super) enum Reader<'a> {
    File(&'a Path, File),
    Memory(&'a [u8]),
}

impl Source {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Memory(path, _) => path,
        }
    }

    pub(super) fn open(&self) -> Result<Reader<'_>, Error> {
        match self {
            Self::File(path) => match File::open(path) {
                Ok(file) => Ok(Reader::File(path, file)),
                Err(source) => Err(Error::Io { action: "open", path: path.clone(), source }),
            },
            Self::Memory(_, bytes) => Ok(Reader::Memory(bytes)),
        }
    }
}

impl Reader<'_> {
    /// In bytes.
    pub(super) fn length(&self) -> Result<u64, Error> {
        match self {
            Self::File(path, file) => match file.metadata() {
                Ok(metadata) => Ok(metadata.len()),
                Err(source) => Err(Error::Io { action: "examine", path: path.into(), source }),
            },
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Reads what there is at `offset` into `room`, as much as fits; how much.
    pub(super) fn read(&self, offset: u64, room: &mut [u8]) -> Result<usize, Error> {
        match self {
            Self::File(path, file) => read_full(file, offset, room).map_err(|source| Error::Io {
                action: "read",
                path: path.into(),
                source,
            }),
            Self::Memory(bytes) => {
                let rest =
                    usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
                let length = rest.len().min(room.len());
                room[..length].copy_from_slice(&rest[..length]);
                Ok(length)
            }
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
