//! An attack on a ring's reader, shared by the fuzzer and the test of its findings: the memory changes while it reads.
//!
//! The input defines the rings, and then the stores that another thread repeats while this one reads. Stores go through
//! the area's file: a hostile program could make the same ones, in no stronger order.

use sordino_event::{Cpu, Ticks};
use sordino_ring::area::control::{AttachOptions, Program};
use sordino_ring::area::{Area, AreaRequest};
use sordino_ring::layout::{Geometry, Header, LEFT, PACKET_HEADER, RINGS_OFFSET, RingHeader};
use sordino_ring::number::Seqno;
use sordino_ring::read::Packet;
use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

const CPUS: u32 = 2;
/// Number of times that the reader visits all rings.
const ROUNDS: usize = 40;

/// A store of one word.
#[derive(Clone, Copy, Debug)]
struct Store {
    offset: u64,
    value: u64,
}

/// Offsets of a ring's parts in the file. Words that the reader examines are chosen more often.
struct Places {
    header: u64,
    table: u64,
    commits: Option<u64>,
    data: u64,
    geometry: Geometry,
    first_seqno: u32,
}

impl Places {
    /// Decodes a store from 12 bytes of the input.
    fn store(&self, bytes: &[u8; 12]) -> Store {
        let [kind, meaning, low, high, value @ ..] = *bytes;
        let (index, raw) = (u64::from(u16::from_le_bytes([low, high])), u64::from_le_bytes(value));
        let offset = match (kind % 8, self.commits) {
            (0 | 1, _) => self.header,
            (2, _) => self.header + 8 * (index % 32),
            (3, _) => self.table + 8 * (index % u64::from(self.geometry.count)),
            (4 | 5, Some(commits)) => commits + 8 * (index % (self.geometry.commits_size() as u64 / 8)),
            (6, _) => {
                let sub_buffer = index / 4 % self.geometry.sub_buffers() as u64;
                self.data + (sub_buffer << self.geometry.bits) + LEFT as u64 + 8 * (index % 3)
            }
            _ => self.data + 8 * (index % (self.geometry.data_size() as u64 / 8)),
        };
        let seqno = self.first_seqno.wrapping_add((raw >> 32) as u32 % 16);
        // Without overwriting, sub-buffers are used in the order in which they lie.
        let number = u64::from(seqno & (self.geometry.count - 1))
            + u64::from(self.geometry.overwrite) * (raw >> 40 & 1);
        let value = match meaning % 4 {
            0 => raw,
            1 => u64::from(seqno) << 32 | raw & 0xffff_ffff,
            // The head is valid, or nearly.
            2 => {
                u64::from(seqno) << 32
                    | number << self.geometry.bits
                    | raw & (self.geometry.size() as u64 - 1)
            }
            // The entry of the table is valid, or nearly.
            _ => u64::from(seqno) << 32 | ((raw % 4) << 16) | ((raw >> 8) % 8),
        };
        Store { offset, value }
    }
}

fn area() -> (&'static Program, &'static File) {
    static AREA: OnceLock<(Program, File)> = OnceLock::new();
    let (program, file) = AREA.get_or_init(|| {
        let request = AreaRequest {
            cpus: CPUS,
            points: 1024,
            catalogue: 4096,
            reserve: 64 << 20,
            pid: 1,
            restartable: true,
            allows_blocking: false,
        };
        let (_, file): (_, OwnedFd) = Area::create(&request).expect("an area");
        (Program::open(&file).expect("an area"), file.into())
    });
    (program, file)
}

/// Counts of an attack's results.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttackCounts {
    /// Number of sub-buffers that the reader got.
    pub taken: u64,
    /// Number of heads that it rejected.
    pub refused: u64,
    /// Number of unfinished records that it found.
    pub unfinished: u64,
}

/// Reads rings while a thread writes to them as `input` defines.
///
/// # Panics
/// If the reader panics or returns an impossible result.
pub fn attack(input: &[u8]) -> AttackCounts {
    // All attacks share one area, since areas are never unmapped.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut seen = AttackCounts::default();
    let Some((&kind, rest)) = input.split_first() else { return seen };
    let geometry = Geometry::new(16 << 10, 2 << (kind >> 1 & 3)).expect("sizes");
    let geometry = if kind & 1 == 1 { geometry.overwriting() } else { geometry };
    let first_seqno = (u32::MAX - 5).wrapping_add(u32::from(kind >> 3));
    let (program, file) = area();
    let cpus = [0, 1].map(Cpu);
    let options = AttachOptions::new("attack", geometry, &cpus, Seqno(first_seqno));
    let mut attached = program.attach(&options).expect("a slot");

    let mut address = [0; 8];
    file.read_exact_at(&mut address, offset_of!(Header, address) as u64).expect("a header");
    let mut region = attached.region.address - u64::from_ne_bytes(address);
    let places: Vec<Places> = (0..=CPUS)
        .map(|ring| {
            let number = attached.slot.index() as usize * (CPUS as usize + 1) + ring as usize;
            let mut take = |size: usize| {
                region += size as u64;
                region - size as u64
            };
            let table = take(geometry.table_size());
            let commits = (ring == CPUS).then(|| take(geometry.commits_size()));
            let header = (RINGS_OFFSET + number * size_of::<RingHeader>()) as u64;
            Places { header, table, commits, data: take(geometry.data_size()), geometry, first_seqno }
        })
        .collect();
    let stores: Vec<Store> = rest
        .chunks_exact(13)
        .filter_map(|chunk| {
            let (ring, bytes) = chunk.split_first()?;
            Some(places[usize::from(*ring) % places.len()].store(bytes.try_into().ok()?))
        })
        .collect();

    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                for store in &stores {
                    file.write_all_at(&store.value.to_ne_bytes(), store.offset).expect("room");
                }
                begun.store(true, Relaxed);
                std::thread::yield_now();
            }
        });
        // The writer ends even if the reader panics.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let _end = End(&done);
        while !begun.load(Relaxed) {
            std::thread::yield_now();
        }
        for round in 0..ROUNDS {
            for reader in &mut attached.readers {
                read(reader, geometry, round, &mut seen);
            }
        }
    });
    // The slot could not be reused while a writer seems to be at work.
    for places in &places {
        file.write_all_at(&[0; size_of::<RingHeader>()], places.header).expect("room");
    }
    program.detach(&attached).expect("to let go");
    seen
}

/// Calls every method of a ring's reader.
fn read(reader: &mut sordino_ring::read::Reader, geometry: Geometry, round: usize, seen: &mut AttackCounts) {
    let lost = reader.lost();
    assert!(lost.too_large <= lost.total);
    seen.refused += u64::from(reader.waiting().is_err());
    let whole = |end: u32| (PACKET_HEADER..=geometry.size()).contains(&(end as usize));
    for _ in 0..4 {
        let Ok(Some(mut sub_buffer)) = reader.get() else { break };
        let content = sub_buffer.content;
        assert!(whole(content.end) && content.first_timestamp <= content.last_timestamp, "{content:?}");
        assert_eq!(sub_buffer.copy().len(), content.end as usize);
        sub_buffer.set_header(&[0; PACKET_HEADER]);
        reader.put();
        seen.taken += 1;
    }
    let is_packet = |packet: &Packet| {
        assert!(whole(packet.content.end), "{:?}", packet.content);
        assert_eq!(packet.bytes.len(), packet.content.end as usize);
    };
    if let Ok(fill) = reader.fill() {
        assert!(fill.used <= fill.capacity, "{fill:?}");
    }
    let newest = reader.newest(Ticks::default(), geometry.size(), || Ticks(1 << 40));
    newest.iter().flat_map(|newest| &newest.packets).for_each(is_packet);
    if round % 4 == 2 {
        let part = reader.part(|| Ticks(1 << 40));
        part.iter().flatten().for_each(is_packet);
    }
    if round % 4 == 3 {
        seen.unfinished += reader.salvage(Ticks(1 << 40), |packet| is_packet(&packet)).unwrap_or(0);
    }
}
