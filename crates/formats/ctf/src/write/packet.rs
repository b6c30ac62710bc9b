//! The header of a packet.

use crate::{PACKET_MAGIC, PacketSeqno, Uuid};
use sordino_event::{Cpu, Ticks};

/// The offset of a packet's first event in bytes: right behind header and context. The content of a packet without
/// events ends here.
pub const FIRST_EVENT: usize = 80;

/// The header and context of a packet, its first [`FIRST_EVENT`] bytes.
///
/// ```
/// use sordino_ctf::write::PacketHeader;
/// let header = PacketHeader { content_bytes: 104, packet_bytes: 4096, discarded: 3, ..PacketHeader::default() };
/// assert_eq!(PacketHeader::decode(&header.encode()), Some(header));
/// assert_eq!(PacketHeader::decode(&[0; 80]), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketHeader {
    /// The UUID of the trace.
    pub uuid: Uuid,
    /// The number of the stream class, [`StreamClass::id`](super::StreamClass::id).
    pub stream_id: u32,
    /// The timestamp of the first event.
    pub begin: Ticks,
    /// The timestamp of the last event; not before `begin`, not after the next packet's `begin`.
    pub end: Ticks,
    /// The size from the packet's start to right behind the last event; [`FIRST_EVENT`] if there is none.
    pub content_bytes: u64,
    /// The size up to the next packet's start.
    pub packet_bytes: u64,
    /// The number of records that the stream has lost up to the packet's end.
    pub discarded: u64,
    /// The number of lost records that were larger than a sub-buffer; the low 32 bits.
    pub too_large: u32,
    /// The sequence number of the packet in the stream.
    pub seqno: PacketSeqno,
    /// The stream's CPU, if it has one.
    pub cpu: Option<Cpu>,
}

impl PacketHeader {
    /// Returns the header's bytes in the packet.
    pub fn encode(&self) -> [u8; FIRST_EVENT] {
        let mut bytes = [0; FIRST_EVENT];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&PACKET_MAGIC.to_ne_bytes());
        put(&self.uuid.0);
        put(&self.stream_id.to_ne_bytes());
        for number in [
            self.begin.0,
            self.end.0,
            self.content_bytes.wrapping_mul(8),
            self.packet_bytes.wrapping_mul(8),
            self.discarded,
            self.seqno.0,
        ] {
            put(&number.to_ne_bytes());
        }
        put(&self.cpu.map_or(u32::MAX, |cpu| cpu.0).to_ne_bytes());
        put(&self.too_large.to_ne_bytes());
        bytes
    }

    /// Returns the header at the start of `bytes`; `None` if there is none, or if its sizes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let half = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        if half(0)? != PACKET_MAGIC {
            return None;
        }
        let (content_bits, packet_bits) = (word(40)?, word(48)?);
        let header = Self {
            uuid: Uuid(*bytes[4..].first_chunk()?),
            stream_id: half(20)?,
            begin: Ticks(word(24)?),
            end: Ticks(word(32)?),
            content_bytes: content_bits / 8,
            packet_bytes: packet_bits / 8,
            discarded: word(56)?,
            seqno: PacketSeqno(word(64)?),
            cpu: Some(half(72)?).filter(|cpu| *cpu != u32::MAX).map(Cpu),
            too_large: half(76)?,
        };
        let whole = content_bits % 8 == 0 && packet_bits % 8 == 0;
        let sizes = FIRST_EVENT as u64 <= header.content_bytes && header.content_bytes <= header.packet_bytes;
        (whole && sizes && header.begin <= header.end).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> PacketHeader {
        PacketHeader {
            uuid: Uuid([0xaa; 16]),
            stream_id: 1,
            begin: Ticks(2),
            end: Ticks(3),
            content_bytes: 96,
            packet_bytes: 4096,
            discarded: 6,
            seqno: PacketSeqno(7),
            cpu: Some(Cpu(8)),
            too_large: 9,
        }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_bytes_are_these() {
        let mut expected = vec![0xc1, 0x1f, 0xfc, 0xc1];
        expected.extend([0xaa; 16]);
        expected.extend([1, 0, 0, 0]);
        for number in [2_u64, 3, 96 * 8, 4096 * 8, 6, 7] {
            expected.extend(number.to_le_bytes());
        }
        expected.extend([8, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(header().encode().as_slice(), expected);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for cpu in [None, Some(Cpu(0))] {
            let header = PacketHeader { cpu, ..header() };
            assert_eq!(PacketHeader::decode(&header.encode()), Some(header));
        }
    }

    #[test]
    fn what_cannot_be_a_header_is_none() {
        assert_eq!(PacketHeader::decode(&header().encode()[..79]), None);
        for bad in [
            PacketHeader { content_bytes: 79, ..header() },
            PacketHeader { content_bytes: 4097, ..header() },
            PacketHeader { begin: Ticks(4), ..header() },
        ] {
            assert_eq!(PacketHeader::decode(&bad.encode()), None, "{bad:?}");
        }
        let mut bytes = header().encode();
        bytes[40] += 1;
        assert_eq!(PacketHeader::decode(&bytes), None, "content of a broken byte");
    }
}
