//! A ring's reader while the memory changes under it: what the fuzzer and the test of its findings share.
//!
//! The input says how the rings are made, then what another thread writes where, over and over, while this one reads. It
//! writes through the area's file: what a hostile program could, and in no better order.

use sordino_ring::area::{Area, Request};
use sordino_ring::control::{Program, Wanted};
use sordino_ring::layout::{Geometry, Header, LEFT, PACKET_HEADER, RINGS_OFFSET, RingHeader};
use sordino_ring::read::Packet;
use std::fs::File;
use std::mem::{offset_of, size_of};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

const CPUS: u32 = 2;
/// How often the reader goes over all rings.
const ROUNDS: usize = 40;

/// One word that is written.
#[derive(Clone, Copy, Debug)]
struct Store {
    offset: u64,
    value: u64,
}

/// Where the words of a ring's parts lie in the file: those that the reader looks at, more often than others.
struct Places {
    header: u64,
    table: u64,
    commits: Option<u64>,
    data: u64,
    geometry: Geometry,
    first_turn: u32,
}

impl Places {
    /// What 12 bytes of the input say.
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
        let turn = self.first_turn.wrapping_add((raw >> 32) as u32 % 16);
        // Without overwriting, turns use the sub-buffers as they lie.
        let number = u64::from(turn & (self.geometry.count - 1))
            + u64::from(self.geometry.overwrite) * (raw >> 40 & 1);
        let value = match meaning % 4 {
            0 => raw,
            1 => u64::from(turn) << 32 | raw & 0xffff_ffff,
            // A head that can be, or nearly.
            2 => {
                u64::from(turn) << 32 | number << self.geometry.bits | raw & (self.geometry.size() as u64 - 1)
            }
            // An entry of the table that can be, or nearly.
            _ => u64::from(turn) << 32 | ((raw % 4) << 16) | ((raw >> 8) % 8),
        };
        Store { offset, value }
    }
}

fn area() -> (&'static Program, &'static File) {
    static AREA: OnceLock<(Program, File)> = OnceLock::new();
    let (program, file) = AREA.get_or_init(|| {
        let request = Request {
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

/// What came of an attack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Sub-buffers that the reader took.
    pub taken: u64,
    /// Heads that it refused.
    pub refused: u64,
    /// Records' places that it found unfinished.
    pub unfinished: u64,
}

/// Reads rings while they are written to as `input` says.
///
/// # Panics
/// If the reader does, or says what cannot be.
pub fn attack(input: &[u8]) -> Seen {
    // One area for all, since none is ever unmapped.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut seen = Seen::default();
    let Some((&kind, rest)) = input.split_first() else { return seen };
    let geometry = Geometry::new(16 << 10, 2 << (kind >> 1 & 3)).expect("sizes");
    let geometry = if kind & 1 == 1 { geometry.overwriting() } else { geometry };
    let first_turn = (u32::MAX - 5).wrapping_add(u32::from(kind >> 3));
    let (program, file) = area();
    let cpus = [0, 1];
    let wanted = Wanted::new("attack", geometry, &cpus, first_turn);
    let mut attached = program.attach(&wanted).expect("a slot");

    let mut address = [0; 8];
    file.read_exact_at(&mut address, offset_of!(Header, address) as u64).expect("a header");
    let mut region = attached.region.0 - u64::from_ne_bytes(address);
    let places: Vec<Places> = (0..=CPUS)
        .map(|ring| {
            let number = attached.slot * (CPUS as usize + 1) + ring as usize;
            let mut take = |size: usize| {
                region += size as u64;
                region - size as u64
            };
            let table = take(geometry.table_size());
            let commits = (ring == CPUS).then(|| take(geometry.commits_size()));
            let header = (RINGS_OFFSET + number * size_of::<RingHeader>()) as u64;
            Places { header, table, commits, data: take(geometry.data_size()), geometry, first_turn }
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
        // However the reader ends, the writer does.
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
    // Writers that are at work for ever would keep the slot.
    for places in &places {
        file.write_all_at(&[0; size_of::<RingHeader>()], places.header).expect("room");
    }
    program.detach(&attached).expect("to let go");
    seen
}

/// Looks at a ring in every way there is.
fn read(reader: &mut sordino_ring::read::Reader, geometry: Geometry, round: usize, seen: &mut Seen) {
    let lost = reader.lost();
    assert!(lost.too_large <= lost.total);
    seen.refused += u64::from(reader.waiting().is_err());
    let whole = |end: u32| (PACKET_HEADER..=geometry.size()).contains(&(end as usize));
    for _ in 0..4 {
        let Ok(Some(mut sub_buffer)) = reader.take() else { break };
        let content = sub_buffer.content;
        assert!(whole(content.end) && content.first_stamp <= content.last_stamp, "{content:?}");
        assert_eq!(sub_buffer.copy().len(), content.end as usize);
        sub_buffer.set_header(&[0; PACKET_HEADER]);
        reader.give_back();
        seen.taken += 1;
    }
    let is_packet = |packet: &Packet| {
        assert!(whole(packet.content.end), "{:?}", packet.content);
        assert_eq!(packet.bytes.len(), packet.content.end as usize);
    };
    if let Ok(fill) = reader.fill() {
        assert!(fill.used <= fill.capacity, "{fill:?}");
    }
    let newest = reader.newest(0, geometry.size(), || 1 << 40);
    newest.iter().flat_map(|newest| &newest.packets).for_each(is_packet);
    if round % 4 == 2 {
        let part = reader.part(|| 1 << 40);
        part.iter().flatten().for_each(is_packet);
    }
    if round % 4 == 3 {
        seen.unfinished += reader.salvage(1 << 40, |packet| is_packet(&packet)).unwrap_or(0);
    }
}
