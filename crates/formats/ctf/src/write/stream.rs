//! Streams with packets that are assembled here: kernel events, the state dump.

use super::StreamClass;
use super::packet::{FIRST_EVENT, PacketHeader};
use crate::{Error, Uuid};
use sordino_event::{Cpu, Ticks};
use std::io;

/// The padding of packets, so that they can be written past the page cache.
const PAGE: usize = 4096;

/// The alignment of every event in bytes.
const EVENT_ALIGN: usize = 8;

/// Returns the bytes behind the time in an event of the kernel or the state dump: the event's id, the kernel's flags
/// and preemption count.
pub fn kernel_header(id: u16, flags: u8, preempt_count: u8) -> [u8; 4] {
    let [low, high] = id.to_ne_bytes();
    [low, high, flags, preempt_count]
}

/// A writer of a stream, packet by packet.
///
/// Call [`finish`](Self::finish) at the end: a writer that is dropped without it loses its last packet.
#[derive(Debug)]
pub struct StreamWriter<W> {
    out: W,
    /// The packet that is being filled, with room for its header.
    packet: Vec<u8>,
    packet_bytes: usize,
    /// The header of the next packet; `end` is the stream's last time so far.
    header: PacketHeader,
    /// True if any item so far has a time.
    started: bool,
}

impl<W: io::Write> StreamWriter<W> {
    /// Creates a writer of a stream of `class` in the trace `uuid` to `out`, in packets of at most `packet_bytes`.
    ///
    /// # Errors
    /// If `packet_bytes` is no positive multiple of 4096.
    pub fn new(
        out: W,
        uuid: Uuid,
        class: StreamClass,
        cpu: Option<Cpu>,
        packet_bytes: usize,
    ) -> Result<Self, Error> {
        if packet_bytes == 0 || !packet_bytes.is_multiple_of(PAGE) {
            return Err(Error::PacketSize { bytes: packet_bytes });
        }
        let header = PacketHeader { uuid, stream_id: class.id(), cpu, ..PacketHeader::default() };
        Ok(Self { out, packet: vec![0; FIRST_EVENT], packet_bytes, header, started: false })
    }

    /// Appends an event: its time, the 4 bytes that follow it, the rest of its context, and its payload.
    ///
    /// # Errors
    /// If it is older than the last one or larger than a packet (the stream is unchanged in both cases), or if a packet
    /// can't be written.
    pub fn append(
        &mut self,
        ticks: Ticks,
        header: [u8; 4],
        context: &[u8],
        payload: &[u8],
    ) -> Result<(), Error> {
        self.check_time(ticks)?;
        let bytes = size_of::<u64>() + header.len() + context.len() + payload.len();
        if bytes > self.packet_bytes - FIRST_EVENT {
            return Err(Error::EventTooLarge { bytes, packet_bytes: self.packet_bytes });
        }
        if self.packet.len().next_multiple_of(EVENT_ALIGN) + bytes > self.packet_bytes {
            self.flush()?;
        }
        if self.is_empty() {
            self.header.begin = ticks;
        }
        (self.header.end, self.started) = (ticks, true);
        self.packet.resize(self.packet.len().next_multiple_of(EVENT_ALIGN), 0);
        self.packet.extend(ticks.0.to_ne_bytes());
        self.packet.extend(header);
        self.packet.extend_from_slice(context);
        self.packet.extend_from_slice(payload);
        Ok(())
    }

    /// Makes packets large enough for an event whose context and payload have so many bytes.
    pub fn make_room(&mut self, bytes: usize) {
        let needed = FIRST_EVENT + size_of::<u64>() + size_of::<u32>() + bytes;
        self.packet_bytes = self.packet_bytes.max(needed.next_multiple_of(PAGE));
    }

    /// Returns the output, to which only whole packets are written.
    pub fn output(&mut self) -> &mut W {
        &mut self.out
    }

    /// Begins the stream at `ticks` with a packet without events, if no item has a time yet: readers count losses from
    /// packet to packet.
    ///
    /// # Errors
    /// If the packet can't be written.
    pub fn begin(&mut self, ticks: Ticks) -> Result<(), Error> {
        if self.started {
            return Ok(());
        }
        (self.header.begin, self.header.end, self.started) = (ticks, ticks, true);
        self.write_packet()
    }

    /// Records that `count` records were lost since the last event and before `ticks`.
    ///
    /// The loss gets a packet of its own, without events: the format expresses the time of a loss only by a packet's
    /// span.
    ///
    /// # Errors
    /// If `ticks` is before the last event, or if a packet can't be written.
    pub fn gap(&mut self, ticks: Ticks, count: u64) -> Result<(), Error> {
        self.check_time(ticks)?;
        self.begin(ticks)?;
        self.flush()?;
        (self.header.begin, self.header.end) = (self.header.end, ticks);
        self.header.discarded = self.header.discarded.saturating_add(count);
        self.write_packet()
    }

    /// Records that an unknown number of records is missing since the last event and before `ticks`, by a gap in the
    /// packet sequence numbers.
    ///
    /// # Errors
    /// If `ticks` is before the last event, or if a packet can't be written.
    pub fn skip(&mut self, ticks: Ticks) -> Result<(), Error> {
        self.check_time(ticks)?;
        self.begin(ticks)?;
        self.flush()?;
        self.header.seqno = self.header.seqno.after(1);
        (self.header.begin, self.header.end) = (ticks, ticks);
        self.write_packet()
    }

    /// Writes the packet that is being filled, if it holds an event.
    ///
    /// # Errors
    /// If it can't be written: it is kept, but the number of its bytes that have been written is unknown.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { self.write_packet() }
    }

    /// Writes the last packet and returns the output.
    ///
    /// # Errors
    /// If a packet can't be written.
    pub fn finish(mut self) -> Result<W, Error> {
        self.flush()?;
        self.out.flush().map_err(Error::Write)?;
        Ok(self.out)
    }

    fn is_empty(&self) -> bool {
        self.packet.len() == FIRST_EVENT
    }

    fn check_time(&self, ticks: Ticks) -> Result<(), Error> {
        match self.header.end {
            last if self.started && ticks < last => Err(Error::TimeWentBack { ticks: ticks.0, last: last.0 }),
            _ => Ok(()),
        }
    }

    fn write_packet(&mut self) -> Result<(), Error> {
        let content = self.packet.len();
        let bytes = content.next_multiple_of(PAGE);
        (self.header.content_bytes, self.header.packet_bytes) = (content as u64, bytes as u64);
        self.packet.resize(bytes, 0);
        self.packet[..FIRST_EVENT].copy_from_slice(&self.header.encode());
        let written = self.out.write_all(&self.packet);
        if let Err(error) = written {
            self.packet.truncate(content);
            return Err(Error::Write(error));
        }
        self.header.seqno = self.header.seqno.after(1);
        self.packet.truncate(FIRST_EVENT);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> StreamWriter<Vec<u8>> {
        StreamWriter::new(Vec::new(), Uuid([1; 16]), StreamClass::Kernel, Some(Cpu(2)), 4096).unwrap()
    }

    fn headers(bytes: &[u8]) -> Vec<PacketHeader> {
        let mut headers = Vec::new();
        let mut rest = bytes;
        while let Some(header) = PacketHeader::decode(rest) {
            rest = &rest[header.packet_bytes as usize..];
            headers.push(header);
        }
        assert!(rest.is_empty());
        headers
    }

    #[test]
    fn events_lie_at_multiples_of_8_and_content_ends_behind_the_last() {
        let mut writer = writer();
        writer.append(Ticks(5), kernel_header(0x201, 3, 4), &[5; 4], &[6]).unwrap();
        writer.append(Ticks(6), kernel_header(1, 0, 0), &[7; 4], &[]).unwrap();
        let bytes = writer.finish().unwrap();
        let header = &headers(&bytes)[0];
        assert_eq!(
            (header.begin.0, header.end.0, header.content_bytes, header.packet_bytes),
            (5, 6, 120, 4096)
        );
        assert_eq!(bytes[80..88], 5_u64.to_ne_bytes());
        assert_eq!(bytes[88..90], 0x201_u16.to_ne_bytes());
        assert_eq!(bytes[90..97], [3, 4, 5, 5, 5, 5, 6]);
        assert_eq!(bytes[104..112], 6_u64.to_ne_bytes());
        assert!(bytes[120..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_full_packet_is_closed_and_the_next_one_continues() {
        let mut writer = writer();
        for ticks in 0..3 {
            writer.append(Ticks(ticks), [0; 4], &[0; 4], &[0; 1992]).unwrap();
        }
        let headers = headers(&writer.finish().unwrap());
        let summary: Vec<_> = headers
            .iter()
            .map(|h| (h.seqno.0, h.begin.0, h.end.0, h.content_bytes, h.packet_bytes))
            .collect();
        assert_eq!(summary, [(0, 0, 1, 4096, 4096), (1, 2, 2, 2088, 4096)]);
    }

    #[test]
    fn a_gap_lies_between_the_events_around_it() {
        let mut writer = writer();
        writer.gap(Ticks(3), 1).unwrap();
        writer.append(Ticks(5), [0; 4], &[], &[]).unwrap();
        writer.gap(Ticks(8), 10).unwrap();
        writer.append(Ticks(8), [0; 4], &[], &[]).unwrap();
        let headers = headers(&writer.finish().unwrap());
        let summary: Vec<_> =
            headers.iter().map(|h| (h.begin.0, h.end.0, h.discarded, h.content_bytes)).collect();
        let expected = [(3, 3, 0, 80), (3, 3, 1, 80), (5, 5, 1, 92), (5, 8, 11, 80), (8, 8, 11, 92)];
        assert_eq!(summary, expected);
    }

    #[test]
    fn packets_that_are_missing_are_told_by_their_numbers_and_an_empty_stream_tells_them_too() {
        for has_event in [false, true] {
            let mut writer = writer();
            writer.begin(Ticks(3)).unwrap();
            if has_event {
                writer.append(Ticks(4), [0; 4], &[], &[]).unwrap();
            }
            writer.skip(Ticks(9)).unwrap();
            let headers = headers(&writer.finish().unwrap());
            let summary: Vec<_> = headers.iter().map(|h| (h.seqno.0, h.begin.0, h.end.0)).collect();
            let expected: &[_] =
                if has_event { &[(0, 3, 3), (1, 4, 4), (3, 9, 9)] } else { &[(0, 3, 3), (2, 9, 9)] };
            assert_eq!(summary, expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_changes() {
        assert!(StreamWriter::new(Vec::new(), Uuid([0; 16]), StreamClass::Kernel, None, 4000).is_err());
        assert!(StreamWriter::new(Vec::new(), Uuid([0; 16]), StreamClass::Kernel, None, 0).is_err());
        let mut writer = writer();
        writer.append(Ticks(5), [0; 4], &[], &[0; 4004]).unwrap();
        let too_large = writer.append(Ticks(6), [0; 4], &[], &[0; 4005]).unwrap_err();
        assert_eq!(too_large.to_string(), "an event of 4017 bytes does not fit a packet of 4096");
        let back = writer.append(Ticks(4), [0; 4], &[], &[]).unwrap_err();
        assert_eq!(back.to_string(), "tick 4 after tick 5 in one stream");
        assert!(writer.gap(Ticks(4), 1).is_err());
        assert_eq!(headers(&writer.finish().unwrap()).len(), 1);
    }

    #[test]
    fn a_packet_that_could_not_be_written_is_kept() {
        #[derive(Default)]
        struct Full(usize);
        impl io::Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 == 1 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer =
            StreamWriter::new(Full::default(), Uuid([0; 16]), StreamClass::StateDump, None, 4096).unwrap();
        writer.append(Ticks(1), [0; 4], &[], &[]).unwrap();
        assert!(writer.flush().is_err());
        writer.append(Ticks(2), [0; 4], &[], &[]).unwrap();
        assert_eq!(writer.finish().unwrap().0, 2);
    }
}
