//! Cuts incomplete ends off the files of a trace.

use crate::directory::names;
use crate::error::Error;
use crate::program::{METADATA, MOST_METADATA};
use sordino_ctf::write::PacketHeader;
use sordino_dirfd::Dir;
use std::io::{Read, Seek, SeekFrom};

/// The end of a block of metadata.
const END_OF_BLOCK: &str = "\n};\n";

/// A stream's file that was cut to its last complete packet.
pub(crate) struct Cut {
    pub name: String,
    /// Number of bytes that stay.
    pub bytes: u64,
    /// Number of missing packets, from the packet sequence numbers.
    pub skipped: u64,
    /// The last packet's header.
    pub last: Option<PacketHeader>,
}

/// Cuts incomplete ends off a trace's files: the metadata to its last complete block, the streams to their last
/// complete packet.
pub(crate) fn cut_trace(dir: &Dir) -> Result<Vec<Cut>, Error> {
    let mut files = Vec::new();
    for name in names(dir)?.into_iter().filter(|name| !name.starts_with('.')) {
        let failed = Error::output(dir.path().join(&name));
        if name == METADATA {
            cut_metadata(dir).map_err(failed)?;
        } else {
            files.push(cut(dir, name).map_err(failed)?);
        }
    }
    Ok(files)
}

fn cut_metadata(dir: &Dir) -> std::io::Result<()> {
    let mut text = Vec::new();
    let mut file = dir.edit(METADATA)?;
    (&mut file).take(MOST_METADATA).read_to_end(&mut text)?;
    let end = END_OF_BLOCK.as_bytes();
    let whole = text.windows(end.len()).rposition(|window| window == end).map(|place| place + end.len());
    match whole {
        Some(whole) if whole < text.len() => file.set_len(whole as u64),
        _ => Ok(()),
    }
}

/// Cuts an incomplete packet off.
pub(crate) fn cut(dir: &Dir, name: String) -> std::io::Result<Cut> {
    let mut file = dir.edit(&name)?;
    let length = file.metadata()?.len();
    let mut cut = Cut { name, bytes: 0, skipped: 0, last: None };
    let mut bytes = [0; sordino_ctf::write::FIRST_EVENT];
    while cut.bytes + bytes.len() as u64 <= length {
        file.seek(SeekFrom::Start(cut.bytes))?;
        file.read_exact(&mut bytes)?;
        match PacketHeader::decode(&bytes) {
            Some(header) if header.packet_bytes > 0 && cut.bytes + header.packet_bytes <= length => {
                let previous = cut.last.as_ref().map(|last| last.seqno);
                let missing =
                    previous.map_or(header.seqno.0, |previous| header.seqno.missing_since(previous));
                cut.skipped = cut.skipped.saturating_add(missing);
                cut.bytes += header.packet_bytes;
                cut.last = Some(header);
            }
            _ => break,
        }
    }
    if cut.bytes < length {
        file.set_len(cut.bytes)?;
    }
    Ok(cut)
}
