//! Packets of sordino's user streams, made by hand.

use sordino_ctf::read::Trace;
use sordino_ctf::write::{FIRST_EVENT, PacketHeader, StreamClass, event_class, preamble, stream_class};
use sordino_ctf::{ClockDescription, Environment, PacketSeqno, Uuid};
use sordino_event::{Classes, Cpu, Event, Field, Level, Loss, LossCause, Schema, Step, Ticks, Time};

pub(crate) const UUID: Uuid = Uuid([0xab; 16]);

/// Returns the metadata of a program's trace whose event 3 has one u64; its clock counts nanoseconds since the epoch.
pub(crate) fn metadata() -> String {
    let fields = vec![Field { name: "value".into(), ty: "u64".parse().unwrap() }];
    let schema =
        Schema { provider: "t".into(), name: "e".into(), level: Level::Info, location: None, fields };
    let mut environment = Environment::default();
    environment.set("domain", "ust").set("vpid", 42);
    let mut text = preamble(UUID, &environment, &ClockDescription::new("tsc")).unwrap();
    for class in [StreamClass::Cpu, StreamClass::Shared] {
        text += &stream_class(class);
        text += &event_class(class, 3, "t:e", &schema).unwrap();
    }
    text
}

/// A packet of [`StreamClass::Cpu`] that spans `span`, with the counts of records, and of too large ones among them,
/// that were lost by its end. Its events are times and low counts of lost records.
pub(crate) struct WrittenPacket<'a> {
    pub(crate) seqno: u64,
    pub(crate) span: (u64, u64),
    pub(crate) lost: (u64, u32),
    pub(crate) events: &'a [(u64, u16)],
}

impl WrittenPacket<'_> {
    pub(crate) fn header(&self, content_bytes: usize) -> PacketHeader {
        PacketHeader {
            uuid: UUID,
            stream_id: StreamClass::Cpu.id(),
            begin: Ticks(self.span.0),
            end: Ticks(self.span.1),
            content_bytes: content_bytes as u64,
            packet_bytes: 4096,
            discarded: self.lost.0,
            too_large: self.lost.1,
            seqno: PacketSeqno(self.seqno),
            cpu: Some(Cpu(1)),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIRST_EVENT];
        for (ticks, lost) in self.events {
            bytes.extend(ticks.to_ne_bytes());
            bytes.extend(lost.to_ne_bytes());
            bytes.extend(3_u16.to_ne_bytes());
            bytes.extend(77_i32.to_ne_bytes());
            bytes.extend((ticks * 2).to_ne_bytes());
        }
        let header = self.header(bytes.len()).encode();
        bytes[..FIRST_EVENT].copy_from_slice(&header);
        bytes.resize(4096, 0);
        bytes
    }
}

/// An item of a stream, in short form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamItem {
    Event(i64),
    Loss(i64, i64, Option<u64>, LossCause),
}

/// Returns all items of the only stream of `file`.
pub(crate) fn seen(metadata: &str, file: Vec<u8>) -> Vec<StreamItem> {
    let mut classes = Classes::default();
    let trace = Trace::from_memory(metadata.as_bytes(), [("file".into(), file)], &mut classes).unwrap();
    let Some(stream) = trace.streams().first() else { return Vec::new() };
    let (mut events, mut event, mut seen) = (stream.events(), Event::default(), Vec::new());
    loop {
        match events.next(&mut event).unwrap() {
            Step::Event => seen.push(StreamItem::Event(event.time.0)),
            Step::Loss(Loss { from: Time(from), to: Time(to), count, cause, .. }) => {
                seen.push(StreamItem::Loss(from, to, count, cause));
            }
            Step::End => return seen,
        }
    }
}
