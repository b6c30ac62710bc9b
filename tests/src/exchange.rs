//! A collector that does nothing but take sub-buffers, as fast as it can, and look whether they are whole.

use crate::verified::Lanes;
use sordino_event::catalogue;
use sordino_ring::control::{Attached, Program, Want, Wanted};
use sordino_ring::layout::{Geometry, PACKET_HEADER, RECORD_HEADER, SHARED_EXTRA};
use sordino_ring::read::Content;
use std::fs::{self, File};
use std::os::fd::OwnedFd;

/// The area of a process that is linked with sordino.
///
/// # Panics
/// If it has none.
pub fn area(pid: i32) -> OwnedFd {
    find_area(pid).expect("an area")
}

/// The same; `None` if it has none, or none yet.
pub fn find_area(pid: i32) -> Option<OwnedFd> {
    let mut paths = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().map(|file| file.path());
    let is_area = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|link| link.as_os_str() == "/memfd:sordino (deleted)")
    };
    let path = paths.find(is_area)?;
    Some(File::options().read(true).write(true).open(path).ok()?.into())
}

/// What is known of one ring.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The stamps of the last two records.
    before: [i64; 2],
    /// What the last record and the last packet said of lost records.
    lost: u16,
    total: u64,
    overwritten: u64,
}

/// The hold of this collector on a program.
#[derive(Debug)]
pub struct Exchange {
    program: Program,
    attached: Attached,
    /// For each tracepoint whether its records have a fill.
    fills: Vec<bool>,
    known: Vec<Known>,
    /// Sub-buffers that were taken.
    pub taken: u64,
}

impl Exchange {
    /// Attaches to a program with rings that begin with this turn, and enables the tracepoints that it has.
    ///
    /// # Panics
    /// If that is refused.
    pub fn new(pid: i32, geometry: Geometry, first_turn: u32) -> Self {
        let program = Program::open(&area(pid)).expect("an area");
        let cpus: Vec<u32> = (0..program.cpus()).collect();
        let wanted = Wanted::new("storm", geometry, &cpus, first_turn);
        let attached = program.attach(&wanted).expect("a slot");
        let (points, _) = catalogue::parse(&program.catalogue(0)).expect("a catalogue");
        let fills = points.iter().map(|(_, schema)| schema.full_name() != "storms:words").collect();
        for (id, _) in points.iter().filter(|(_, schema)| schema.full_name().starts_with("storms:")) {
            program.enable(attached.slot, *id, Want::Always);
        }
        let known = Known { before: [i64::MIN; 2], lost: 0, total: 0, overwritten: 0 };
        let known = vec![known; attached.readers.len()];
        Self { program, attached, fills, known, taken: 0 }
    }

    /// How many sub-buffers were overwritten before it came to them.
    pub fn overwritten(&self) -> u64 {
        self.attached.readers.iter().map(|reader| reader.overwritten()).sum()
    }

    /// Takes what there is; whether there was anything.
    ///
    /// # Panics
    /// If a sub-buffer is not whole.
    pub fn drain(&mut self, lanes: &mut Lanes) -> bool {
        let before = self.taken;
        for (reader, known) in self.attached.readers.iter_mut().zip(&mut self.known) {
            let cpu = reader.cpu();
            // Not for ever: the others wait.
            for _ in 0..reader.geometry().count {
                let Some(sub_buffer) = reader.take().expect("a head that can be") else { break };
                let (content, bytes) = (sub_buffer.content, sub_buffer.copy());
                known.read(cpu, content, &bytes, reader.overwritten(), &self.fills, lanes);
                reader.give_back();
                self.taken += 1;
            }
        }
        self.taken > before
    }

    /// Takes all that is left by a program that no longer writes, and lets go of it: how many records the rings lost, how many
    /// places in them are unfinished, and how many sub-buffers were overwritten.
    ///
    /// # Panics
    /// If a sub-buffer is not whole.
    pub fn finish(mut self, lanes: &mut Lanes) -> [u64; 3] {
        while self.drain(lanes) {}
        let mut sums = [0; 3];
        for (reader, known) in self.attached.readers.iter_mut().zip(&mut self.known) {
            let (cpu, overwritten) = (reader.cpu(), reader.overwritten());
            let salvaged = reader.salvage(i64::MAX as u64, |packet| {
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

impl Known {
    /// Whatever is missing is so since the record before the last.
    fn hole(&self, lanes: &mut Lanes, to: i64) {
        lanes.hole(self.before[0], to);
    }

    fn read(
        &mut self,
        cpu: Option<u32>,
        content: Content,
        bytes: &[u8],
        overwritten: u64,
        fills: &[bool],
        lanes: &mut Lanes,
    ) {
        let mut open = overwritten != self.overwritten;
        self.overwritten = overwritten;
        let header = RECORD_HEADER + if cpu.is_none() { SHARED_EXTRA } else { 0 };
        let mut at = PACKET_HEADER;
        while at < bytes.len() {
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word"));
            let (stamp, tag) = (word(at) as i64, word(at + 8));
            assert!(stamp >= self.before[1], "{cpu:?}: time goes back to {stamp} after {:?}", self.before);
            let (what, check) = (word(at + header), word(at + header + 8));
            let mut end = at + header + 16;
            let fill = fills[(tag >> 16) as u16 as usize].then(|| {
                let length =
                    usize::from(u16::from_le_bytes(bytes[end..end + 2].try_into().expect("two bytes")));
                let fill = &bytes[end + 2..end + 2 + length];
                end += 2 + length;
                fill
            });
            lanes.record(stamp, what, check, fill);
            if open || tag as u16 != self.lost {
                self.hole(lanes, stamp);
            }
            // A record that was interrupted keeps its time, but tells of losses until it was published.
            open = tag as u16 != self.lost;
            (self.before, self.lost) = ([self.before[1], stamp], tag as u16);
            at = if end < bytes.len() { end.next_multiple_of(8) } else { end };
        }
        assert_eq!(at, bytes.len(), "{cpu:?}: the content ends inside a record");
        if content.lost.total != self.total {
            self.hole(lanes, content.last_stamp as i64);
            self.total = content.lost.total;
        }
    }
}
