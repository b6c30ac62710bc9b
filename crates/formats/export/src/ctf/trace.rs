//! One trace of an export: a stream for each CPU, and the metadata.

use super::classes::{EncodedEvent, ExportedClasses};
use super::{CtfVersion, json, tsdl};
use crate::Files;
use sordino_ctf::write::{StreamClass, StreamWriter};
use sordino_ctf::{ClockDescription, Environment, Uuid};
use sordino_event::{Classes, Cpu, Ticks};
use sordino_timeline::Moment;
use std::collections::BTreeMap;

/// Usual size of a packet in bytes; a packet with a larger event is larger.
const PACKET: usize = 1 << 15;

/// A trace that is being written.
#[derive(Debug)]
pub(super) struct ExportedTrace {
    directory: String,
    uuid: Uuid,
    environment: Environment,
    classes: ExportedClasses,
    streams: BTreeMap<Option<Cpu>, ExportedStream>,
    encoded: EncodedEvent,
}

#[derive(Debug)]
struct ExportedStream {
    writer: StreamWriter<Vec<u8>>,
    /// The losses behind the last event: begin and end in ticks, and the number of records.
    losses: Vec<((u64, u64), Option<u64>)>,
}

impl ExportedTrace {
    /// Creates a trace of events of `classes`; `has_process` is true if they belong to one process, which the
    /// environment has.
    pub(super) fn new(
        directory: String,
        uuid: Uuid,
        environment: Environment,
        classes: &Classes,
        has_process: bool,
    ) -> Self {
        let classes = ExportedClasses::new(classes, has_process);
        Self {
            directory,
            uuid,
            environment,
            classes,
            streams: BTreeMap::new(),
            encoded: EncodedEvent::default(),
        }
    }

    fn stream(&mut self, cpu: Option<Cpu>) -> &mut ExportedStream {
        let uuid = self.uuid;
        self.streams.entry(cpu).or_insert_with(|| {
            let writer = StreamWriter::new(Vec::new(), uuid, StreamClass::Exported, cpu, PACKET);
            ExportedStream { writer: writer.expect("the size is a multiple of a page"), losses: Vec::new() }
        })
    }

    /// Appends an event at a time that is not before that of the last item.
    pub(super) fn event(
        &mut self,
        ticks: u64,
        moment: &Moment<'_>,
        labels_left: &mut usize,
        out: &mut Files,
    ) {
        let mut encoded = std::mem::take(&mut self.encoded);
        let number = self.classes.encode(moment, labels_left, &mut encoded);
        let cpu = moment.event.cpu;
        let stream = self.stream(cpu);
        stream.place_losses(ticks);
        let EncodedEvent { context, payload } = &encoded;
        stream.writer.make_room(context.len() + payload.len());
        let appended = stream.writer.append(Ticks(ticks), number.to_ne_bytes(), context, payload);
        appended.expect("it has room, its time does not go back, and writing to a vector does not fail");
        let written = std::mem::take(stream.writer.output());
        self.encoded = encoded;
        if !written.is_empty() {
            out.append(&file(&self.directory, cpu), &written);
        }
    }

    /// Keeps a loss until its end in the stream is known.
    pub(super) fn lose(&mut self, span: (u64, u64), cpu: Option<Cpu>, count: Option<u64>) {
        self.stream(cpu).losses.push((span, count));
    }

    /// Appends the kept losses, and the metadata.
    pub(super) fn end(self, version: CtfVersion, clock: &ClockDescription, out: &mut Files) {
        for (cpu, mut stream) in self.streams {
            stream.place_losses(u64::MAX);
            let written = stream.writer.finish().expect("writing to a vector does not fail");
            out.append(&file(&self.directory, cpu), &written);
        }
        let metadata = match version {
            CtfVersion::V1 => tsdl::metadata(self.uuid, &self.environment, clock, &self.classes),
            CtfVersion::V2 => json::metadata(self.uuid, &self.environment, clock, &self.classes),
        };
        out.append(&format!("{}/metadata", self.directory), metadata.as_bytes());
    }
}

impl ExportedStream {
    /// Writes the losses in front of an event at `ticks`. A loss that would end before the previous one ends at the
    /// same time as that one.
    fn place_losses(&mut self, ticks: u64) {
        let mut last = 0;
        for ((from, to), count) in self.losses.drain(..) {
            last = to.max(last).min(ticks);
            let begun = self.writer.begin(Ticks(from));
            let written = begun.and_then(|()| match count {
                // Readers take a greater difference of two counts for one that went back.
                Some(count) => self.writer.gap(Ticks(last), count.min(u64::MAX / 2)),
                None => self.writer.skip(Ticks(last)),
            });
            // Times do not go back, and writing to a vector does not fail.
            debug_assert!(written.is_ok(), "{written:?}");
        }
    }
}

fn file(directory: &str, cpu: Option<Cpu>) -> String {
    match cpu {
        Some(cpu) => format!("{directory}/cpu{}", cpu.0),
        None => format!("{directory}/no_cpu"),
    }
}
