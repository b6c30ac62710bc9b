//! Records that verify themselves: `programs/verified.h` defines their fields, `programs/storms.c` writes them.

use sordino_ctf::read::{Trace, find};
use sordino_event::{Classes, Event, Step, View};
use std::collections::BTreeMap;
use std::path::Path;

/// Finaliser of MurmurHash3, the same as in `verified.h`.
pub fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

/// Returns the fill's length in bytes for a record with this check; `None` for a record of two words without a fill.
fn fill_length(check: u64) -> Option<usize> {
    let random = (check >> 16) as u32 as usize;
    match (check & 1, check >> 1 & 127) {
        (1, _) => None,
        (_, 0) => Some(random % 20_001),
        _ => Some(random % 301),
    }
}

/// Lane of a plug-in, whose records never have a fill.
pub const PLUGIN: u32 = 83;
/// Lane of large records, each of which fills the smallest sub-buffer.
const LARGE: u32 = 84;

/// Returns the number of a storm's records that are larger than a sub-buffer, whose largest payload is `most` bytes.
pub fn too_large(seed: u64, begun: &BTreeMap<u32, u64>, most: usize) -> u64 {
    let of_lane = |(&lane, &count): (&u32, &u64)| {
        let checks = (0..count).map(|number| mixed((u64::from(lane) << 40 | number) ^ seed));
        checks.filter(|&check| fill_length(check).is_some_and(|length| 18 + length > most)).count() as u64
    };
    begun.iter().filter(|(lane, _)| **lane != PLUGIN).map(of_lane).sum()
}

/// Records that were read of a storm.
#[derive(Debug)]
pub struct StormLanes {
    seed: u64,
    /// Records of each lane: their times and their numbers.
    lanes: BTreeMap<u32, Vec<(i64, u64)>>,
    /// Time intervals in which records may be missing.
    holes: Vec<(i64, i64)>,
    /// Number of lost records that the reader reported.
    pub lost: u64,
}

impl StormLanes {
    /// Creates an empty set for the storm with this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, lanes: BTreeMap::new(), holes: Vec::new(), lost: 0 }
    }

    /// Verifies a record and adds it. Records of one ring have to arrive in their order.
    ///
    /// # Panics
    /// If the record is not one that a hit wrote.
    pub fn record(&mut self, time: i64, what: u64, check: u64, fill: Option<&[u8]>) {
        let lane = (what >> 40) as u32;
        assert_eq!(check, mixed(what ^ self.seed), "torn: {what:#x} at {time}");
        let length = match lane {
            PLUGIN => None,
            LARGE => Some(8300),
            _ => fill_length(check),
        };
        assert_eq!(fill.map(<[u8]>::len), length, "torn: the fill of {what:#x} at {time}");
        let word = check.to_le_bytes();
        let wrong =
            fill.unwrap_or_default().iter().zip(0usize..).find(|&(&byte, i)| byte != word[i % 8] ^ i as u8);
        assert_eq!(wrong, None, "torn: the fill of {what:#x} at {time}");
        self.lanes.entry(lane).or_default().push((time, what & ((1 << 40) - 1)));
    }

    /// Adds an interval, `from` to `to`, in which records may be missing.
    pub fn hole(&mut self, from: i64, to: i64) {
        self.holes.push((from, to));
    }

    /// Returns the number of records so far.
    pub fn count(&self) -> u64 {
        self.lanes.values().map(|records| records.len() as u64).sum()
    }

    /// Reads all traces below `directory`. With `overwrites`, records from before the first packet of a ring may be
    /// missing.
    ///
    /// # Panics
    /// If the reader reports an error.
    pub fn read(&mut self, directory: &Path, overwrites: bool) {
        for path in find(directory).expect("traces") {
            let mut classes = Classes::default();
            let trace = Trace::open(&path, &mut classes).unwrap_or_else(|error| panic!("{error}"));
            for stream in trace.streams() {
                let begin = stream.packets().first().and_then(|packet| packet.begin);
                if let (true, Some(begin)) = (overwrites, begin) {
                    self.hole(i64::MIN, begin.0);
                }
                assert!(stream.packets().iter().all(|packet| packet.sound), "{}", path.display());
                self.read_stream(stream.events(), &classes);
            }
        }
    }

    fn read_stream(&mut self, mut events: sordino_ctf::read::Events, classes: &Classes) {
        let (mut event, mut fill) = (Event::default(), Vec::new());
        let (mut last, mut open) = (i64::MIN, None);
        loop {
            match events.next(&mut event).unwrap_or_else(|error| panic!("{error}")) {
                Step::Event => {
                    // A record that was interrupted keeps its early timestamp but reports losses up to its publication,
                    // which may lie between it and the next record.
                    if let Some(from) = open.take_if(|_| last != i64::MIN) {
                        self.hole(from, event.time.0);
                    }
                    last = event.time.0;
                    let name = &classes[event.class].name;
                    let number = |field: usize| match event.value(field) {
                        Some(View::Unsigned(number, _)) => number,
                        other => panic!("{name}: {other:?}"),
                    };
                    let bytes = match event.value(2) {
                        Some(View::List(list)) => {
                            fill.clear();
                            fill.extend(list.map(|byte| match byte {
                                View::Unsigned(byte, _) => byte as u8,
                                other => panic!("{name}: {other:?}"),
                            }));
                            Some(fill.as_slice())
                        }
                        // A fill of no bytes is read as its length.
                        Some(View::Unsigned(0, _)) => Some(&[][..]),
                        _ => None,
                    };
                    self.record(event.time.0, number(0), number(1), bytes);
                }
                Step::Loss(loss) => {
                    self.lost += loss.count.unwrap_or_else(|| panic!("{loss:?}"));
                    self.hole(loss.from.0, loss.to.0);
                    open = Some(loss.from.0);
                }
                Step::End => break,
            }
        }
        if let Some(from) = open {
            self.hole(from, i64::MAX);
        }
    }

    /// Returns the number of hits without a record, up to the last one that was read or is `done`. A hit that had only
    /// `begun` when the program was killed may have none.
    ///
    /// # Panics
    /// If a record occurs twice, is out of order, has no hit, or is missing outside of all holes.
    pub fn missing(&mut self, begun: &BTreeMap<u32, u64>, done: &BTreeMap<u32, u64>) -> u64 {
        let holes = merged(std::mem::take(&mut self.holes));
        let mut missing = 0;
        for lane in self.lanes.keys() {
            assert!(begun.contains_key(lane), "nobody hit in lane {lane}");
        }
        for (lane, &begun) in begun {
            let mut records = self.lanes.remove(lane).unwrap_or_default();
            records.sort_by_key(|(time, _)| *time);
            let behind = records.last().map_or(0, |(_, number)| number + 1);
            assert!(behind <= begun, "lane {lane}: {behind} records of {begun}");
            let last = (i64::MAX, behind.max(done.get(lane).copied().unwrap_or(0)));
            let mut before = (i64::MIN, None);
            for &(time, number) in records.iter().chain([&last]) {
                let next = before.1.map_or(0, |number| number + 1);
                assert!(number >= next, "lane {lane}: {number} at {time} comes after {before:?}");
                let explained = number == next || is_in(&holes, before.0, time);
                assert!(
                    explained,
                    "lane {lane}: {next} to {number} are missing between {} and {time}",
                    before.0
                );
                missing += number - next;
                before = (time, Some(number));
            }
        }
        missing
    }
}

/// Returns the same intervals in ascending order, merged where they touch.
fn merged(mut holes: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    holes.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in holes {
        match merged.last_mut() {
            Some((_, end)) if *end >= from => *end = to.max(*end),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Returns true if one of the intervals overlaps the one from `from` to `to`.
fn is_in(holes: &[(i64, i64)], from: i64, to: i64) -> bool {
    let first = holes.partition_point(|&(_, end)| end < from);
    holes.get(first).is_some_and(|&(begin, _)| begin <= to)
}
