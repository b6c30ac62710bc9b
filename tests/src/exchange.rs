//! A collector that exchanges sub-buffers as fast as it can, and verifies their records.

use crate::verified::StormLanes;
use sordino_event::catalogue;
use sordino_event::{Cpu, Ticks};
use sordino_ring::area::control::{AttachOptions, Attached, EnableMode, Program};
use sordino_ring::layout::{Geometry, PACKET_HEADER, RECORD_HEADER, SHARED_EXTRA};
use sordino_ring::number::{PointId, Seqno};
use sordino_ring::read::Content;
use std::fs::{self, File};
use std::os::fd::OwnedFd;

/// Returns the area of a process that is linked with sordino.
///
/// # Panics
/// If the process has no area.
pub fn area(pid: i32) -> OwnedFd {
    find_area(pid).expect("an area")
}

/// Returns the area of a process; `None` if it has none, or none yet.
pub fn find_area(pid: i32) -> Option<OwnedFd> {
    let mut paths = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().map(|file| file.path());
    let is_area = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|link| link.as_os_str() == "/memfd:sordino (deleted)")
    };
    let path = paths.find(is_area)?;
    Some(File::options().read(true).write(true).open(path).ok()?.into())
}

/// State of one ring between two sub-buffers.
#[derive(Clone, Copy, Debug)]
struct RingState {
    /// Timestamps of the last two records.
    before: [i64; 2],
    /// Counters of lost records, from the last record and from the last packet.
    lost: u16,
    total: u64,
    overwritten: u64,
}

/// A collector that is attached to a program.
#[derive(Debug)]
pub struct ExchangingCollector {
    program: Program,
    attached: Attached,
    /// True for each tracepoint whose records have a fill.
    fills: Vec<bool>,
    known: Vec<RingState>,
    /// Number of sub-buffers that were read.
    pub taken: u64,
}

impl ExchangingCollector {
    /// Attaches to a program with rings that begin with this sub-buffer sequence number, and enables its storm
    /// tracepoints.
    ///
    /// # Panics
    /// If the program rejects the collector.
    pub fn new(pid: i32, geometry: Geometry, first_seqno: u32) -> Self {
        let program = Program::open(&area(pid)).expect("an area");
        let cpus: Vec<Cpu> = (0..program.cpus()).map(Cpu).collect();
        let options = AttachOptions::new("storm", geometry, &cpus, Seqno(first_seqno));
        let attached = program.attach(&options).expect("a slot");
        let (points, _) = catalogue::parse(&program.catalogue(0)).expect("a catalogue");
        let fills = points.iter().map(|(_, schema)| schema.full_name() != "storms:words").collect();
        for (id, _) in points.iter().filter(|(_, schema)| schema.full_name().starts_with("storms:")) {
            program.enable(attached.slot, PointId(*id), EnableMode::Always);
        }
        let known = RingState { before: [i64::MIN; 2], lost: 0, total: 0, overwritten: 0 };
        let known = vec![known; attached.readers.len()];
        Self { program, attached, fills, known, taken: 0 }
    }

    /// Returns the number of sub-buffers that were overwritten before they were read.
    pub fn overwritten(&self) -> u64 {
        self.attached.readers.iter().map(|reader| reader.overwritten()).sum()
    }

    /// Reads the full sub-buffers of all rings. Returns true if there was any.
    ///
    /// # Panics
    /// If a sub-buffer is damaged.
    pub fn drain(&mut self, lanes: &mut StormLanes) -> bool {
        let before = self.taken;
        for (reader, known) in self.attached.readers.iter_mut().zip(&mut self.known) {
            let cpu = reader.cpu();
            // Not for ever: the others wait.
            for _ in 0..reader.geometry().count {
                let Some(sub_buffer) = reader.get().expect("a head that can be") else { break };
                let (content, bytes) = (sub_buffer.content, sub_buffer.copy());
                known.read(cpu, content, &bytes, reader.overwritten(), &self.fills, lanes);
                reader.put();
                self.taken += 1;
            }
        }
        self.taken > before
    }

    /// Reads all that a program has left that no longer writes, and detaches from it. Returns the numbers of lost
    /// records, of unfinished places in the rings, and of overwritten sub-buffers.
    ///
    /// # Panics
    /// If a sub-buffer is damaged.
    pub fn finish(mut self, lanes: &mut StormLanes) -> [u64; 3] {
        while self.drain(lanes) {}
        let mut sums = [0; 3];
        for (reader, known) in self.attached.readers.iter_mut().zip(&mut self.known) {
            let (cpu, overwritten) = (reader.cpu(), reader.overwritten());
            let salvaged = reader.salvage(Ticks(i64::MAX as u64), |packet| {
                known.read(cpu, packet.content, &packet.bytes, overwritten, &self.fills, lanes);
            });
            sums[1] += salvaged.expect("a head that can be");
            known.hole(lanes, i64::MAX);
            sums[0] += reader.lost().total;
            sums[2] += overwritten;
        }
        self.program.detach(&self.attached).expect("to let go");
        sums
    }
}

impl RingState {
    /// Adds an interval for missing records, from the record before the last one to `to`.
    fn hole(&self, lanes: &mut StormLanes, to: i64) {
        lanes.hole(self.before[0], to);
    }

    fn read(
        &mut self,
        cpu: Option<Cpu>,
        content: Content,
        bytes: &[u8],
        overwritten: u64,
        fills: &[bool],
        lanes: &mut StormLanes,
    ) {
        let mut open = overwritten != self.overwritten;
        self.overwritten = overwritten;
        let header = RECORD_HEADER + if cpu.is_none() { SHARED_EXTRA } else { 0 };
        let mut at = PACKET_HEADER;
        while at < bytes.len() {
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word"));
            let (time, tag) = (word(at) as i64, word(at + 8));
            assert!(time >= self.before[1], "{cpu:?}: time goes back to {time} after {:?}", self.before);
            let (what, check) = (word(at + header), word(at + header + 8));
            let mut end = at + header + 16;
            let fill = fills[(tag >> 16) as u16 as usize].then(|| {
                let length =
                    usize::from(u16::from_le_bytes(bytes[end..end + 2].try_into().expect("two bytes")));
                let fill = &bytes[end + 2..end + 2 + length];
                end += 2 + length;
                fill
            });
            lanes.record(time, what, check, fill);
            if open || tag as u16 != self.lost {
                self.hole(lanes, time);
            }
            // A record that was interrupted keeps its time, but has the count of losses at its publication.
            open = tag as u16 != self.lost;
            (self.before, self.lost) = ([self.before[1], time], tag as u16);
            at = if end < bytes.len() { end.next_multiple_of(8) } else { end };
        }
        assert_eq!(at, bytes.len(), "{cpu:?}: the content ends inside a record");
        if content.lost.total != self.total {
            self.hole(lanes, content.last_timestamp.0 as i64);
            self.total = content.lost.total;
        }
    }
}
