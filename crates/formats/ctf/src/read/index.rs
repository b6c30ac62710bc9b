//! The index of the packets in a stream file, made from their headers only.

use super::decoder::PacketDecoder;
use super::program::{DecodeOp, Register, StreamProgram, TraceProgram};
use super::registers::Registers;
use super::source::SourceReader;
use crate::{Error, PACKET_MAGIC, PacketSeqno, Uuid};
use sordino_event::{ClassId, Cpu, Event, EventHead, Pid, Ticks, Tid, Time};

/// The number of bytes of a packet that are read at first; enough for every tracer's header.
const HEADER_READ: u64 = 256;

/// The longest packet header that is read, in bytes.
const HEADER_MAX: u64 = 1 << 16;

/// The largest packet that is read, in bytes: a file can claim any size.
const PACKET_MAX: u64 = 1 << 30;

/// The alignment of tracers' packets, at which the next one is searched for behind a broken header.
const PAGE: u64 = 4096;

/// The number of pages that are searched before the rest of the file is given up.
const SEARCH_PAGES: usize = 1 << 14;

/// The most packets that one file may have.
const PACKETS_MAX: usize = 1 << 24;

/// A packet of a stream, as its header describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedPacket {
    /// The time of the packet's begin, if the trace has it.
    pub begin: Option<Time>,
    /// The time of the packet's end, if the trace has it.
    pub end: Option<Time>,
    /// The CPU of its events, if it belongs to one.
    pub cpu: Option<Cpu>,
    /// The stream's count of lost records at the packet's end.
    pub discarded: Option<u64>,
    /// The number of lost records that were larger than a sub-buffer, modulo 2^32; only sordino's traces have it.
    pub too_large: Option<u64>,
    /// The sequence number of the packet in the stream, which also counts lost and overwritten packets.
    pub seqno: Option<PacketSeqno>,
    /// The offset of the packet in its file, in bytes.
    pub offset: u64,
    /// The size of the packet in the file in bytes, padding included.
    pub bytes: u64,
    /// The number of its bits that can be read, headers included: 0 if its header is invalid.
    pub content_bits: u64,
    /// True if the packet is complete and its header valid.
    pub sound: bool,
    /// The index of its file among the stream's files.
    pub(super) file: usize,
    /// The index of its class in the program.
    pub(super) class: usize,
    pub(super) instance: Option<u64>,
}

/// Finds the packets of one file.
pub(super) fn packets(
    reader: SourceReader<'_>,
    program: &TraceProgram,
    uuid: Option<Uuid>,
) -> Result<Vec<IndexedPacket>, Error> {
    let mut indexer = Indexer {
        reader,
        length: reader.length()?,
        program,
        uuid,
        decoder: PacketDecoder::new(program.slots),
    };
    let mut packets = Vec::new();
    let mut offset = 0;
    while offset < indexer.length {
        let packet = match indexer.packet(offset)? {
            _ if packets.len() == PACKETS_MAX => unreadable(offset, indexer.length - offset),
            Some(packet) if packet.bytes <= indexer.length - offset => packet,
            // The file was truncated, unless another packet follows: then the size is wrong.
            Some(packet) => packet.cut(indexer.next_header(offset)? - offset),
            None => unreadable(offset, indexer.next_header(offset)? - offset),
        };
        offset += packet.bytes;
        packets.push(packet);
    }
    Ok(packets)
}

impl IndexedPacket {
    /// Returns the same packet, limited to `bytes`.
    fn cut(self, bytes: u64) -> Self {
        let content_bits = self.content_bits.min(bytes * 8);
        Self { bytes, content_bits, sound: self.sound && content_bits == self.content_bits, ..self }
    }
}

fn unreadable(offset: u64, bytes: u64) -> IndexedPacket {
    IndexedPacket {
        begin: None,
        end: None,
        cpu: None,
        discarded: None,
        too_large: None,
        seqno: None,
        offset,
        bytes,
        content_bits: 0,
        sound: false,
        file: 0,
        class: 0,
        instance: None,
    }
}

struct Indexer<'a> {
    reader: SourceReader<'a>,
    length: u64,
    program: &'a TraceProgram,
    uuid: Option<Uuid>,
    decoder: PacketDecoder,
}

impl Indexer<'_> {
    /// Returns the packet at `offset`; `None` if its header is invalid and even its size unknown.
    fn packet(&mut self, offset: u64) -> Result<Option<IndexedPacket>, Error> {
        let left = self.length - offset;
        let mut room = HEADER_READ.min(left);
        loop {
            self.decoder.load(room, |bytes| self.reader.read(offset, bytes))?;
            match header(&mut self.decoder, self.program, self.uuid) {
                Ok(class) => return Ok(self.describe(class, offset, left)),
                Err(NoHeader::Short) if room < HEADER_MAX.min(left) => {
                    room = (room * 16).min(HEADER_MAX).min(left);
                }
                Err(_) => return Ok(None),
            }
        }
    }

    /// Returns the packet that the header in the registers describes.
    fn describe(&self, class: usize, offset: u64, left: u64) -> Option<IndexedPacket> {
        let stream = self.program.streams.get(class)?;
        let registers = self.decoder.registers();
        let get = |register| registers.get(register);
        let (size, content) = (get(Register::PacketSize), get(Register::ContentSize));
        // Without any size, the file is one packet.
        let size = size
            .or(content.and_then(|bits| bits.checked_next_multiple_of(8)))
            .unwrap_or(left.saturating_mul(8));
        let content = content.unwrap_or(size);
        let header = self.decoder.position;
        if size == 0 || size % 8 != 0 || size < header {
            return None;
        }
        let bytes = size / 8;
        let there = content.min(left.saturating_mul(8));
        let readable = header <= content && content <= size && there.div_ceil(8) <= PACKET_MAX;
        let (begin, end) = (get(Register::Begin), get(Register::End));
        // The crash dumps of LTTng have packets that were never ended: their end is 0.
        let end = end.filter(|end| *end != 0 || begin == Some(0));
        let ordered = begin.zip(end).is_none_or(|(begin, end)| begin <= end);
        let time = |ticks: Option<u64>| time(stream, registers, ticks?);
        Some(IndexedPacket {
            begin: time(begin),
            end: time(end),
            cpu: packet_cpu(registers),
            discarded: get(Register::Discarded),
            too_large: get(Register::TooLarge),
            seqno: get(Register::Sequence).map(PacketSeqno),
            offset,
            bytes,
            content_bits: if readable && ordered { there } else { 0 },
            sound: readable && ordered && there == content,
            file: 0,
            class,
            instance: get(Register::InstanceId),
        })
    }

    /// Returns the next offset behind `offset` where a packet seems to begin by its magic number, or else the end of
    /// the file.
    fn next_header(&mut self, offset: u64) -> Result<u64, Error> {
        let header = &self.program.ops[self.program.packet_header.clone()];
        if !header.iter().any(|op| matches!(op, DecodeOp::Register(_, Register::Magic))) {
            return Ok(self.length);
        }
        let first = (offset + 1).next_multiple_of(PAGE);
        for page in (first..self.length).step_by(PAGE as usize).take(SEARCH_PAGES) {
            if self.packet(page)?.is_some() {
                return Ok(page);
            }
        }
        Ok(self.length)
    }
}

/// Returns the time when the clock of a packet's stream showed `ticks`; `None` without a clock.
#[inline]
pub(super) fn time(stream: &StreamProgram, registers: &Registers, ticks: u64) -> Option<Time> {
    Some(stream.clock.as_ref()?.time_on(Ticks(ticks), || packet_cpu(registers)))
}

/// Returns the CPU in the header of the packet.
#[inline]
fn packet_cpu(registers: &Registers) -> Option<Cpu> {
    registers.get(Register::PacketCpu).and_then(cpu)
}

/// Returns the CPU of this number. All bits set stand for an unknown CPU.
#[inline]
fn cpu(number: u64) -> Option<Cpu> {
    u32::try_from(number).ok().filter(|number| *number != u32::MAX).map(Cpu)
}

/// Returns the facts about an event besides its fields. The process is that of the stream, unless the event has one.
#[inline]
pub(super) fn head(registers: &Registers, time: Time, class: ClassId, of_stream: Option<Pid>) -> EventHead {
    let number = registers.get(Register::Cpu).or_else(|| registers.get(Register::PacketCpu));
    EventHead {
        time,
        cpu: number.and_then(cpu),
        pid: registers.get(Register::Pid).map(|pid| Pid(pid as i32)).or(of_stream),
        tid: registers.get(Register::Tid).map(|tid| Tid(tid as i32)),
        class,
    }
}

/// The reason why there is no packet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHeader {
    /// The header is longer than the loaded bytes.
    Short,
    /// The bytes do not belong to a packet of this trace.
    Wrong,
}

/// Reads the header and context of the packet that `decoder` has loaded. Returns the index of its class in the program.
pub(super) fn header(
    decoder: &mut PacketDecoder,
    program: &TraceProgram,
    uuid: Option<Uuid>,
) -> Result<usize, NoHeader> {
    let mut nothing = Event::default();
    let mut run = |decoder: &mut PacketDecoder, range| {
        decoder.run(&program.ops, range, &mut nothing).or(Err(NoHeader::Short))
    };
    run(decoder, program.packet_header.clone())?;
    let registers = decoder.registers();
    let magic = registers.get(Register::Magic).is_none_or(|magic| magic == u64::from(PACKET_MAGIC));
    let ours = uuid.zip(registers.uuid).is_none_or(|(expected, found)| expected == found);
    let class = match registers.get(Register::StreamId) {
        Some(id) => program.streams.iter().position(|stream| stream.id == id),
        None => Some(0),
    };
    let class = class.filter(|_| magic && ours).ok_or(NoHeader::Wrong)?;
    run(decoder, program.streams[class].packet_context.clone())?;
    Ok(class)
}
