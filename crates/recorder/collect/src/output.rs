//! The file of one stream: packets are written straight from a ring to the disk.

use crate::unanswered::Lack;
use rustix::fs::OFlags;
use rustix::io::Errno;
use sordino_ctf::write::{FIRST_EVENT, PacketHeader, StreamClass};
use sordino_ctf::{PacketSeqno, Uuid};
use sordino_dirfd::Dir;
use sordino_event::{Cpu, Ticks};
use sordino_ring::layout::{PACKET_HEADER, RECORD_HEADER, SHARED_EXTRA};
use sordino_ring::read::{self, Content, Lost, Packet, SubBuffer};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

// Packets go to the file as they lie in the ring, so what the ring's writers store is what the trace declares.
const _: () = assert!(PACKET_HEADER == FIRST_EVENT);
const _: () = assert!(RECORD_HEADER == StreamClass::Cpu.record_header());
const _: () = assert!(RECORD_HEADER + SHARED_EXTRA == StreamClass::Shared.record_header());

/// Alignment of packets' sizes, in bytes, as direct I/O (`O_DIRECT`) requires.
const BLOCK: u64 = 4096;

/// The file of a stream, and the packets written to it.
#[derive(Debug)]
pub struct Output {
    dir: Arc<Dir>,
    name: String,
    file: Option<OwnedFd>,
    uuid: Uuid,
    class: StreamClass,
    cpu: Option<Cpu>,
    /// The file offset of the next packet.
    offset: u64,
    /// The next packet's number.
    seqno: PacketSeqno,
    /// Records that the ring had lost before this file.
    before: Lost,
    /// The count of lost records in the last packet.
    discarded: u64,
    /// Packets that were left out after the last one written.
    gap: Option<PacketGap>,
    unwritten: UnwrittenData,
}

/// Packets that were left out, which no later packet indicates yet.
#[derive(Clone, Copy, Debug)]
struct PacketGap {
    /// The first record's timestamp.
    begin: Ticks,
    /// The contents of the last packet that was left out.
    last: Content,
}

/// Packets that are not in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnwrittenData {
    /// The number of sub-buffers, or of packets.
    pub packets: u64,
    /// Bytes of records in them, as far as that is known.
    pub bytes: u64,
}

impl Output {
    /// Describes the file `name` in `dir`, which is created with its first packet.
    pub fn new(dir: Arc<Dir>, name: String, uuid: Uuid, cpu: Option<Cpu>) -> Self {
        let class = if cpu.is_some() { StreamClass::Cpu } else { StreamClass::Shared };
        Self::of(class, dir, name, uuid, cpu)
    }

    /// Writes the file `name` in `dir` anew: a stream of packets without events, whose losses are the unanswered hits.
    pub(crate) fn write_unanswered(dir: Arc<Dir>, name: String, uuid: Uuid, lack: &Lack) -> io::Result<()> {
        let mut output = Self::of(StreamClass::Unanswered, dir, name, uuid, None);
        let lost = Lost { total: lack.unanswered.hits, too_large: 0 };
        let content =
            Content { end: FIRST_EVENT as u32, first_timestamp: lack.from, last_timestamp: lack.to, lost };
        if lack.unanswered.uncounted {
            // A missing packet sequence number means that the number of lost records is unknown.
            output.skip(&content);
            return output.close();
        }
        output.write_packet(&mut Packet { bytes: vec![0; FIRST_EVENT], content })
    }

    fn of(class: StreamClass, dir: Arc<Dir>, name: String, uuid: Uuid, cpu: Option<Cpu>) -> Self {
        Self {
            dir,
            name,
            file: None,
            uuid,
            class,
            cpu,
            offset: 0,
            seqno: PacketSeqno(0),
            before: Lost::default(),
            discarded: 0,
            gap: None,
            unwritten: UnwrittenData::default(),
        }
    }

    /// Sets the records that the ring had lost before this file.
    pub fn after(self, before: Lost) -> Self {
        Self { before, ..self }
    }

    /// Returns true if a packet with this content has records or new losses.
    pub(crate) fn is_news(&self, content: &Content) -> bool {
        content.end as usize > FIRST_EVENT || self.since(content.lost).total != self.discarded
    }

    /// Returns the file's path, for messages.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    /// Returns the number of bytes written.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// Returns the packets that were left out.
    pub fn unwritten(&self) -> UnwrittenData {
        self.unwritten
    }

    /// Writes sub-buffers as packets. Returns how many of them are in the file, which after an error ends with the last
    /// of these.
    pub fn write(&mut self, sub_buffers: &mut [SubBuffer<'_>]) -> (usize, io::Result<()>) {
        let Some(first) = sub_buffers.first() else { return (0, Ok(())) };
        if let Err(error) = self.begin(&first.content) {
            return (0, Err(error));
        }
        let headers: Vec<_> = (0..)
            .zip(&mut *sub_buffers)
            .map(|(packets, sub_buffer)| {
                let seqno = self.seqno.after(packets);
                let header = PacketHeader { seqno, ..self.header(&sub_buffer.content) };
                sub_buffer.set_header(&header.encode());
                debug_assert!(header.packet_bytes as usize <= sub_buffer.size());
                header
            })
            .collect();
        let lengths: Vec<_> = headers.iter().map(|header| header.packet_bytes as usize).collect();
        let parts: Vec<_> = sub_buffers.iter().zip(lengths.iter().copied()).collect();
        let (written, result) =
            self.packets(&lengths, |file, offset| read::write(&parts, file.as_fd(), offset));
        if let Some(last) = written.checked_sub(1) {
            self.discarded = headers[last].discarded;
        }
        (written, result)
    }

    /// Writes a copied packet.
    pub fn write_packet(&mut self, packet: &mut Packet) -> io::Result<()> {
        self.begin(&packet.content)?;
        self.copy(packet)
    }

    fn copy(&mut self, packet: &mut Packet) -> io::Result<()> {
        let header = self.header(&packet.content);
        let encoded = header.encode();
        packet.bytes[..encoded.len()].copy_from_slice(&encoded);
        packet.bytes.resize(header.packet_bytes as usize, 0);
        // The copy's memory lacks the alignment that direct I/O requires.
        let bytes = &packet.bytes;
        let written = self.packets(&[bytes.len()], |file, offset| {
            set_direct(file, false);
            let written = rustix::io::pwrite(file, bytes, offset);
            set_direct(file, true);
            Ok(written?)
        });
        written.1?;
        self.discarded = header.discarded;
        Ok(())
    }

    /// Writes an empty packet without losses before the first packet if that has losses, or if packets before it are
    /// missing: babeltrace2 counts losses from packet to packet, and for losses in the first one reports only that
    /// there may be some.
    fn begin(&mut self, first: &Content) -> io::Result<()> {
        if self.offset > 0 || self.seqno == PacketSeqno(0) && self.since(first.lost).total == 0 {
            return Ok(());
        }
        let next = std::mem::take(&mut self.seqno);
        let begin = self.gap.map_or(first.first_timestamp, |gap| gap.begin);
        let written = self.copy(&mut empty(begin, self.before));
        self.seqno = self.seqno.max(next);
        written
    }

    /// Leaves a packet out; the next packet sequence number shows the gap.
    pub fn skip(&mut self, content: &Content) {
        let bytes = u64::from(content.end).saturating_sub(FIRST_EVENT as u64);
        self.pass(1);
        self.unwritten.packets += u64::from(bytes > 0);
        self.unwritten.bytes += bytes;
        let begin = self.gap.map_or(content.first_timestamp, |gap| gap.begin);
        self.gap = Some(PacketGap { begin, last: *content });
    }

    /// Leaves out a number of packets whose contents are unknown.
    pub fn leave_out(&mut self, packets: u64) {
        if packets > 0 {
            self.pass(packets);
            self.unwritten.packets += packets;
        }
    }

    /// Skips the packet sequence numbers of packets that are not written.
    fn pass(&mut self, packets: u64) {
        // The number 0 belongs to the empty packet at the start.
        let first = if self.offset == 0 { self.seqno.max(PacketSeqno(1)) } else { self.seqno };
        self.seqno = first.after(packets);
    }

    /// Returns this output without its descriptor if the file does not show yet that its end is missing.
    pub fn unclosed(self) -> Option<Self> {
        self.gap.is_some().then_some(Self { file: None, ..self })
    }

    /// Writes an empty packet after those left out at the end.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let Some(gap) = self.gap else { return Ok(()) };
        self.write_packet(&mut empty(gap.last.last_timestamp, gap.last.lost))
    }

    /// Returns the losses since the file began, given all losses of the ring.
    pub fn since(&self, lost: Lost) -> Lost {
        let total = lost.total.saturating_sub(self.before.total);
        Lost { total, too_large: lost.too_large.saturating_sub(self.before.too_large).min(total) }
    }

    fn header(&self, content: &Content) -> PacketHeader {
        let lost = self.since(content.lost);
        PacketHeader {
            uuid: self.uuid,
            stream_id: self.class.id(),
            begin: content.first_timestamp,
            end: content.last_timestamp,
            content_bytes: content.end.into(),
            packet_bytes: u64::from(content.end).next_multiple_of(BLOCK),
            discarded: lost.total,
            too_large: lost.too_large as u32,
            seqno: self.seqno,
            cpu: self.cpu,
        }
    }

    /// Calls `write` to write packets of these lengths at the file's end, each whole or not at all. Returns how many
    /// are in the file.
    fn packets(
        &mut self,
        lengths: &[usize],
        write: impl Fn(&OwnedFd, u64) -> io::Result<usize>,
    ) -> (usize, io::Result<()>) {
        let offset = self.offset;
        let file = match self.open() {
            Ok(file) => file,
            Err(error) => return (0, Err(error)),
        };
        let mut result = write(file, offset);
        if result.as_ref().is_err_and(|error| error.raw_os_error() == Some(Errno::INVAL.raw_os_error())) {
            // Some file systems accept the flag but fail to write with it.
            set_direct(file, false);
            result = write(file, offset);
        }
        let (taken, result) = match result {
            Ok(taken) if taken == lengths.iter().sum::<usize>() => (taken, Ok(())),
            Ok(taken) => (taken, Err(cut_short(file, offset + taken as u64))),
            Err(error) => (0, Err(error)),
        };
        let (whole, bytes) = whole(lengths, taken);
        if result.is_err() {
            // If this fails, too, the reader of the trace reports a truncated packet.
            let _ = rustix::fs::ftruncate(file, offset + bytes as u64);
        }
        self.offset += bytes as u64;
        self.seqno = self.seqno.after(whole as u64);
        if whole > 0 {
            self.gap = None;
        }
        (whole, result)
    }

    fn open(&mut self) -> io::Result<&OwnedFd> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = match self.dir.create(&self.name) {
                    // The file exists from packets before the gap.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.dir.edit(&self.name),
                    made => made,
                };
                let file = file?.into();
                set_direct(&file, true);
                file
            }
        };
        Ok(self.file.insert(file))
    }
}

/// Returns how many packets of these lengths are whole in the first `taken` bytes, and their bytes.
fn whole(lengths: &[usize], taken: usize) -> (usize, usize) {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    ends.take_while(|end| *end <= taken).fold((0, 0), |(count, _), end| (count + 1, end))
}

/// Returns the reason that the kernel stopped writing at `end` (the disk, a quota, a limit of the file's size), by an
/// attempt to write the next byte.
fn cut_short(file: &OwnedFd, end: u64) -> io::Error {
    set_direct(file, false);
    let next = rustix::io::pwrite(file, &[0], end);
    set_direct(file, true);
    // There may be room again by now.
    next.err().unwrap_or(Errno::NOSPC).into()
}

/// Returns a packet without records.
fn empty(timestamp: Ticks, lost: Lost) -> Packet {
    let content =
        Content { end: FIRST_EVENT as u32, first_timestamp: timestamp, last_timestamp: timestamp, lost };
    Packet { bytes: vec![0; FIRST_EVENT], content }
}

/// Switches direct I/O on or off: with it, a byte takes a fifth of the collector's time. Not every file system supports
/// it.
fn set_direct(file: &OwnedFd, direct: bool) {
    if let Ok(flags) = rustix::fs::fcntl_getfl(file) {
        let flags = if direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
        let _ = rustix::fs::fcntl_setfl(file, flags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_are_cut_off_are_not_there() {
        assert_eq!(whole(&[8, 4, 8], 20), (3, 20));
        assert_eq!([19, 12, 11, 7, 0].map(|taken| whole(&[8, 4, 8], taken).0), [2, 2, 1, 0, 0]);
        assert_eq!(whole(&[8, 4, 8], 13), (2, 12));
    }

    fn content(end: u32, timestamp: u64, lost: u64) -> Content {
        Content {
            end,
            first_timestamp: Ticks(timestamp),
            last_timestamp: Ticks(timestamp + 1),
            lost: Lost { total: lost, too_large: 0 },
        }
    }

    fn headers(bytes: &[u8]) -> Vec<(u64, u64, u64)> {
        let headers = bytes.chunks(BLOCK as usize).filter_map(PacketHeader::decode);
        headers.map(|header| (header.seqno.0, header.begin.0, header.discarded)).collect()
    }

    /// Checks each packet's sequence number, beginning, and losses up to its end.
    #[test]
    fn packets_that_were_left_out_are_a_gap_in_the_numbers_wherever_they_were() {
        let place = tempfile::tempdir().unwrap();
        let dir = Arc::new(Dir::open(place.path()).unwrap());
        let output = |name: &str| Output::new(Arc::clone(&dir), name.into(), Uuid([1; 16]), Some(Cpu(0)));
        let bytes = |name: &str| std::fs::read(place.path().join(name)).unwrap();
        let packet = |timestamp| Packet { bytes: vec![0; 96], content: content(96, timestamp, 0) };

        let mut nothing = output("nothing");
        nothing.skip(&content(96, 10, 0));
        nothing.skip(&content(80, 20, 4));
        assert_eq!(nothing.unwritten(), UnwrittenData { packets: 1, bytes: 16 });
        nothing.unclosed().unwrap().close().unwrap();
        assert_eq!(headers(&bytes("nothing")), [(0, 10, 0), (3, 21, 4)]);

        let mut begin = output("begin");
        begin.skip(&content(96, 10, 0));
        begin.write_packet(&mut packet(20)).unwrap();
        assert!(begin.unclosed().is_none());
        assert_eq!(headers(&bytes("begin")), [(0, 10, 0), (2, 20, 0)]);

        let mut end = output("end");
        end.write_packet(&mut packet(10)).unwrap();
        end.skip(&content(96, 20, 0));
        end.unclosed().unwrap().close().unwrap();
        assert_eq!(headers(&bytes("end")), [(0, 10, 0), (2, 21, 0)]);
    }
}
