//! One stream's file: packets straight from a ring to the disk.

use rustix::fs::OFlags;
use sordino_ctf::Uuid;
use sordino_ctf::write::{FIRST_EVENT, PacketHeader, StreamClass};
use sordino_dirfd::Dir;
use sordino_event::Cpu;
use sordino_ring::read::{Content, Lost, Packet, SubBuffer};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// Packets are this much or a multiple of it: what the page cache can be passed by with.
const BLOCK: u64 = 4096;

/// A stream's file.
#[derive(Debug)]
pub(crate) struct Output {
    dir: Arc<Dir>,
    name: String,
    file: Option<OwnedFd>,
    uuid: Uuid,
    class: StreamClass,
    cpu: Option<u32>,
    /// Where the next packet goes.
    offset: u64,
    sequence: u64,
    /// Records that the ring had lost before this file.
    before: Lost,
    /// The count of lost records that the last packet says.
    discarded: u64,
}

impl Output {
    /// The file `name` in `dir`, which is made when there is a packet for it.
    pub(crate) fn new(dir: Arc<Dir>, name: String, uuid: Uuid, cpu: Option<u32>) -> Self {
        let class = if cpu.is_some() { StreamClass::Cpu } else { StreamClass::Shared };
        Self {
            dir,
            name,
            file: None,
            uuid,
            class,
            cpu,
            offset: 0,
            sequence: 0,
            before: Lost::default(),
            discarded: 0,
        }
    }

    /// The same, for a ring that had lost so much `before`.
    pub(crate) fn after(self, before: Lost) -> Self {
        Self { before, ..self }
    }

    /// Whether a packet of this content says anything that the file does not.
    pub(crate) fn is_news(&self, content: &Content) -> bool {
        content.end as usize > FIRST_EVENT || self.since(content.lost).total != self.discarded
    }

    /// Where it is, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    /// Bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.offset
    }

    /// Writes a sub-buffer as a packet. After an error the file ends with the packet before.
    pub(crate) fn write(&mut self, sub_buffer: &mut SubBuffer<'_>) -> io::Result<()> {
        self.count_from_nothing(&sub_buffer.content)?;
        let header = self.header(&sub_buffer.content);
        sub_buffer.set_header(&header.encode());
        let length = header.packet_bytes as usize;
        debug_assert!(length <= sub_buffer.size());
        self.packet(length, |file, offset| sub_buffer.write(file.as_fd(), offset, length))?;
        self.discarded = header.discarded;
        Ok(())
    }

    /// Writes a copy.
    pub(crate) fn write_packet(&mut self, packet: &mut Packet) -> io::Result<()> {
        self.count_from_nothing(&packet.content)?;
        let header = self.header(&packet.content);
        let encoded = header.encode();
        packet.bytes[..encoded.len()].copy_from_slice(&encoded);
        packet.bytes.resize(header.packet_bytes as usize, 0);
        // Memory of our own has no alignment that passing by the page cache would want.
        let bytes = &packet.bytes;
        self.packet(bytes.len(), |file, offset| {
            set_direct(file, false);
            let written = rustix::io::pwrite(file, bytes, offset);
            set_direct(file, true);
            Ok(written?)
        })?;
        self.discarded = header.discarded;
        Ok(())
    }

    /// Before a first packet with losses, writes an empty one without: babeltrace2 counts from packet to packet, and of
    /// losses in the first it says only that there may be some.
    fn count_from_nothing(&mut self, first: &Content) -> io::Result<()> {
        if self.sequence > 0 || self.since(first.lost).total == 0 {
            return Ok(());
        }
        let (end, stamp) = (FIRST_EVENT as u32, first.first_stamp);
        let content = Content { end, first_stamp: stamp, last_stamp: stamp, lost: self.before };
        self.write_packet(&mut Packet { bytes: vec![0; FIRST_EVENT], content })
    }

    /// Leaves a packet out; the next one's number says so.
    pub(crate) fn skip(&mut self) {
        self.sequence += 1;
    }

    /// What was lost since the file began, of all that the ring lost.
    pub(crate) fn since(&self, lost: Lost) -> Lost {
        let total = lost.total.saturating_sub(self.before.total);
        Lost { total, too_large: lost.too_large.saturating_sub(self.before.too_large).min(total) }
    }

    fn header(&self, content: &Content) -> PacketHeader {
        let lost = self.since(content.lost);
        PacketHeader {
            uuid: self.uuid,
            stream_id: self.class.id(),
            begin: content.first_stamp,
            end: content.last_stamp,
            content_bytes: content.end.into(),
            packet_bytes: u64::from(content.end).next_multiple_of(BLOCK),
            discarded: lost.total,
            too_large: lost.too_large as u32,
            sequence: self.sequence,
            cpu: self.cpu.map(Cpu),
        }
    }

    /// Has `write` write a packet of `length` bytes at the file's end, whole or not at all.
    fn packet(
        &mut self,
        length: usize,
        write: impl Fn(&OwnedFd, u64) -> io::Result<usize>,
    ) -> io::Result<()> {
        let offset = self.offset;
        let file = self.open()?;
        let mut result = write(file, offset);
        if result
            .as_ref()
            .is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()))
        {
            // A file system that takes the flag when a file is opened and refuses it here.
            set_direct(file, false);
            result = write(file, offset);
        }
        let whole = match result {
            Ok(written) if written == length => Ok(()),
            Ok(_) => Err(io::ErrorKind::StorageFull.into()),
            Err(error) => Err(error),
        };
        if whole.is_err() {
            // If this fails too, the reader of the trace finds a packet that is cut off, and says so.
            let _ = rustix::fs::ftruncate(file, offset);
            return whole;
        }
        self.offset += length as u64;
        self.sequence += 1;
        Ok(())
    }

    fn open(&mut self) -> io::Result<&OwnedFd> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = self.dir.create(&self.name)?.into();
                set_direct(&file, true);
                file
            }
        };
        Ok(self.file.insert(file))
    }
}

/// Whether writes pass by the page cache: five times less of the collector's time for each byte. It is only a request.
fn set_direct(file: &OwnedFd, direct: bool) {
    if let Ok(flags) = rustix::fs::fcntl_getfl(file) {
        let flags = if direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
        let _ = rustix::fs::fcntl_setfl(file, flags);
    }
}
