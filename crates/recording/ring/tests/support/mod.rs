//! A program and its collector in one process: two mappings of one area.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use sordino_event::{Cpu, Ticks};
use sordino_percpu::{cpu, thread};
use sordino_ring::area::control::{AttachOptions, Attached, Program};
use sordino_ring::area::slots::Rings;
use sordino_ring::area::{Area, AreaRequest};
use sordino_ring::layout::{Geometry, PACKET_HEADER};
use sordino_ring::number::{Seqno, SlotIndex, Tag};
use sordino_ring::offset::EncodedLength;
use sordino_ring::read::Content;
use sordino_ring::write::{Full, ReadClock, Staged, TracedThread, write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A thread that writes to `rings`, whose clock counts its readings. It waits for room as `wait` returns.
#[derive(Clone, Copy)]
struct RingWriter<'a> {
    rings: Rings,
    wait: &'a dyn Fn(Full) -> bool,
}

static READINGS: AtomicU64 = AtomicU64::new(1);

impl ReadClock for RingWriter<'_> {
    fn cycles(self) -> Ticks {
        Ticks(READINGS.fetch_add(1, SeqCst))
    }
    fn cycles_in_order(self) -> Ticks {
        Ticks(READINGS.fetch_add(1, SeqCst))
    }
    fn monotonic(self) -> Ticks {
        Ticks(READINGS.fetch_add(1, SeqCst) | 1 << 60)
    }
}

impl TracedThread for RingWriter<'_> {
    fn first_rings(self) -> Option<Rings> {
        Some(self.rings)
    }

    fn remember_cpu(self, _: Rings) {
        thread::set_base(cpu().min(cpus() - 1) as usize);
    }

    fn wait(self, _: Rings) -> impl FnMut(Full) -> bool {
        self.wait
    }
}

/// The largest possible timestamp.
pub const END_OF_TIME: u64 = u64::MAX;

pub fn cpus() -> u32 {
    // SAFETY: sysconf has no preconditions.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap()
}

/// Keeps the calling thread on `cpu`.
pub fn pin(cpu: u32) {
    // SAFETY: a cpu_set_t consists of integers, and zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below the size of a set on any machine that runs this.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: reads an initialised set of the given size.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(result, 0, "cannot run on cpu {cpu}");
}

pub struct Harness {
    pub area: Area,
    pub file: OwnedFd,
    pub program: Program,
}

/// Number of tracepoints for which a harness's area has room.
pub const POINTS: u32 = 8192;

/// Bytes of a harness's catalogue.
pub const CATALOGUE: usize = 64 << 10;

/// The parameters of a harness's area.
pub fn request(reserve: usize) -> AreaRequest {
    AreaRequest {
        cpus: cpus(),
        points: POINTS,
        catalogue: CATALOGUE,
        reserve,
        pid: 1,
        restartable: true,
        allows_blocking: true,
    }
}

impl Harness {
    pub fn new() -> Self {
        Self::with_reserve(256 << 20)
    }

    pub fn with_reserve(reserve: usize) -> Self {
        let (area, file) = Area::create(&request(reserve)).unwrap();
        Self::of(area, file)
    }

    /// A program whose area lies in a file that its recorder has prepared.
    pub fn in_prepared(file: OwnedFd) -> Self {
        Self::of(Area::create_in(&file, &request(256 << 20)).unwrap(), file)
    }

    fn of(area: Area, file: OwnedFd) -> Self {
        sordino_percpu::init(false);
        // SAFETY: this thread is the only caller, and the first tracepoint's count is not less than before.
        assert!(unsafe { area.append(&[], POINTS) });
        let program = Program::open(&file).unwrap();
        Self { area, file, program }
    }

    pub fn attach(&self, geometry: Geometry, first_seqno: u32) -> Attached {
        self.program.attach(&options(geometry, first_seqno)).unwrap()
    }

    /// Writes a record as the probe does, to a session that does not make writers wait.
    pub fn write(&self, slot: SlotIndex, tag: u64, payload: &[u8]) {
        self.write_waiting(slot, tag, payload, &|full| panic!("asked to wait: {full:?}"));
    }

    /// Writes a record as the probe does. While there is no room, the thread calls `wait`, and gives up if that returns
    /// false.
    pub fn write_waiting(&self, slot: SlotIndex, tag: u64, payload: &[u8], wait: &dyn Fn(Full) -> bool) {
        let mut staged = [0u8; 40 << 10];
        staged[..payload.len()].copy_from_slice(payload);
        let staged = Staged { from: staged.as_ptr(), encoded_length: EncodedLength::of(payload.len()) };
        let rings = self.area.rings(slot);
        // The thread remembers the CPU that it was on last.
        let ring = rings.at(thread::tag_and_base().1 as u32);
        // SAFETY: the area is never unmapped; the staged payload is readable beyond its end.
        unsafe { write(ring, Tag(tag), staged, RingWriter { rings, wait }) };
    }
}

pub fn all_cpus() -> &'static [Cpu] {
    static ALL: std::sync::LazyLock<Vec<Cpu>> = std::sync::LazyLock::new(|| (0..cpus()).map(Cpu).collect());
    &ALL
}

pub fn options(geometry: Geometry, first_seqno: u32) -> AttachOptions<'static> {
    AttachOptions::new("test", geometry, all_cpus(), Seqno(first_seqno))
}

/// One record of a sub-buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedRecord {
    pub timestamp: u64,
    pub tag: u64,
    pub payload: Vec<u8>,
}

/// The records of a CPU's sub-buffer, whose payloads all have `length` bytes.
pub fn records(bytes: &[u8], length: usize) -> Vec<ParsedRecord> {
    parse(bytes, |_| (16, length))
}

/// The records of a shared sub-buffer, each of which gives its length.
pub fn shared_records(bytes: &[u8]) -> Vec<ParsedRecord> {
    parse(bytes, |record| {
        let length = u32::from_ne_bytes(record[20..24].try_into().unwrap());
        (24, length as usize - 24)
    })
}

fn parse(bytes: &[u8], encoded_length: impl Fn(&[u8]) -> (usize, usize)) -> Vec<ParsedRecord> {
    let mut records = Vec::new();
    let mut at = PACKET_HEADER;
    while at < bytes.len() {
        let word =
            |offset: usize| u64::from_ne_bytes(bytes[at + offset..at + offset + 8].try_into().unwrap());
        let (header, length) = encoded_length(&bytes[at..]);
        let payload = bytes[at + header..at + header + length].to_vec();
        records.push(ParsedRecord { timestamp: word(0), tag: word(8), payload });
        at += header + length;
        if at < bytes.len() {
            at = at.next_multiple_of(8);
        }
    }
    records
}

/// All sub-buffers that the readers can get now, in order for each ring: content and bytes.
pub fn drain(attached: &mut Attached) -> Vec<(Option<Cpu>, Content, Vec<u8>)> {
    let mut taken = Vec::new();
    for reader in &mut attached.readers {
        let cpu = reader.cpu();
        while let Some(sub_buffer) = reader.get().unwrap() {
            taken.push((cpu, sub_buffer.content, sub_buffer.copy()));
            reader.put();
        }
    }
    taken
}

/// Drains like [`drain`], and salvages the sub-buffers that are being filled.
pub fn finish(attached: &mut Attached) -> Vec<(Option<Cpu>, Content, Vec<u8>)> {
    let mut taken = drain(attached);
    for reader in &mut attached.readers {
        let cpu = reader.cpu();
        let unfinished =
            reader.salvage(Ticks(END_OF_TIME), |packet| taken.push((cpu, packet.content, packet.bytes)));
        assert_eq!(unfinished, Ok(0));
    }
    taken
}
