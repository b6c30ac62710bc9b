//! A program and its collector, and records that verify themselves.

use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sordino_event::{Cpu, Ticks};
use sordino_percpu::model;
use sordino_ring::area::control::{AttachOptions, Attached, Program};
use sordino_ring::area::slots::Rings;
use sordino_ring::area::{Area, AreaRequest};
use sordino_ring::layout::{Geometry, PACKET_HEADER};
use sordino_ring::number::{PointId, Seqno, Tag};
use sordino_ring::offset::EncodedLength;
use sordino_ring::read::{Packet, Reader};
use sordino_ring::write::{Full, PayloadSource, ReadClock, Staged, TracedThread, write, write_to};
use std::sync::Arc;

/// Two sub-buffers, the smallest number.
pub(crate) const SMALL: Geometry = Geometry { bits: 9, count: 2, overwrite: false };
/// Payloads of which a sub-buffer of 512 bytes takes two, and one; in either kind of ring.
pub(crate) const HALF: usize = 168;
pub(crate) const WHOLE: usize = 216;
/// A timestamp behind all others.
pub(crate) const END_OF_TIME: u64 = 1 << 32;

/// Checks `model`. `LOOM_MAX_PREEMPTIONS` limits the preemptions in each order.
pub(crate) fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        model::begin();
        model();
    });
}

pub(crate) const REQUEST: AreaRequest = AreaRequest {
    cpus: 1,
    points: 1,
    catalogue: 64,
    reserve: 60 << 10,
    pid: 1,
    restartable: true,
    allows_blocking: true,
};

pub(crate) fn area() -> (Area, Program) {
    let (area, file) = Area::create(&REQUEST).unwrap();
    // A tracepoint is registered before it is hit.
    area.header().points.store(1, Relaxed);
    let program = Program::open(&file).unwrap();
    (area, program)
}

/// The request of a session with a ring for each of `cpus`.
pub(crate) fn options(cpus: &[Cpu], first_seqno: u32) -> AttachOptions<'_> {
    AttachOptions::new("", SMALL, cpus, Seqno(first_seqno))
}

/// The same request for rings that overwrite.
pub(crate) fn overwriting(cpus: &[Cpu]) -> AttachOptions<'_> {
    AttachOptions { geometry: SMALL.overwriting(), ..options(cpus, u32::MAX) }
}

/// The area of a program that was recorded before, by a session with the same request: so loom knows every word that
/// the threads will use before they start.
pub(crate) fn recorded_area(options: &AttachOptions<'_>) -> (Area, Program) {
    let (area, program) = area();
    area.point(PointId(0)).load(Relaxed);
    let mut before = program.attach(options).unwrap();
    program.wake_word(before.slot).load(Relaxed);
    for number in 0..4 * options.geometry.count {
        before.readers.iter_mut().for_each(|reader| drop(take(reader, HALF)));
        share(area.rings(before.slot), number.into(), HALF, None);
        emit(area.rings(before.slot), number.into(), HALF);
    }
    program.detach(&before).unwrap();
    (area, program)
}

/// The same area with a session.
pub(crate) fn attached(options: &AttachOptions<'_>) -> (Area, Program, Attached) {
    let (area, program) = recorded_area(options);
    let attached = program.attach(options).unwrap();
    (area, program, attached)
}

/// A clock whose progress other threads may see later than this one.
#[derive(Clone)]
pub(crate) struct LaggingClock(Arc<AtomicU64>);

impl LaggingClock {
    pub(crate) fn new() -> Self {
        Self::of(1)
    }

    pub(crate) fn of(time: u64) -> Self {
        Self(Arc::new(AtomicU64::new(time)))
    }

    pub(crate) fn pass(&self) {
        self.0.store(2, Relaxed);
    }
}

/// A thread that writes to `rings`. Its clock is a [`LaggingClock`], or the constant 1. It waits for room if `waits`.
#[derive(Clone, Copy)]
struct LoomWriter<'a> {
    rings: Rings,
    time: Option<&'a LaggingClock>,
    waits: bool,
}

impl ReadClock for LoomWriter<'_> {
    fn cycles(self) -> Ticks {
        Ticks(self.time.map_or(1, |time| time.0.load(Relaxed)))
    }
    fn cycles_in_order(self) -> Ticks {
        self.cycles()
    }
    fn monotonic(self) -> Ticks {
        self.cycles()
    }
}

impl TracedThread for LoomWriter<'_> {
    fn first_rings(self) -> Option<Rings> {
        Some(self.rings)
    }

    fn remember_cpu(self, _: Rings) {}

    fn wait(self, _: Rings) -> impl FnMut(Full) -> bool {
        move |_| {
            if self.waits {
                sordino_percpu::sleep(1);
            }
            self.waits
        }
    }
}

/// Passes `write` the payload of the writer's record `number`, of `length` bytes.
fn stage(number: u64, length: usize, write: impl FnOnce(Staged)) {
    let payload = vec![number; length.div_ceil(8)];
    write(Staged { from: payload.as_ptr().cast(), encoded_length: EncodedLength::of(length) });
}

/// Writes a record to the shared ring.
pub(crate) fn share(rings: Rings, number: u64, length: usize, time: Option<&LaggingClock>) {
    let writer = LoomWriter { rings, time, waits: false };
    // SAFETY: the model's memory stays as long as the execution; the payload has whole words.
    stage(number, length, |staged| unsafe {
        write_to(rings, None, &staged.record(Tag(number << 32)), writer)
    });
}

/// Writes a record to the ring of CPU 0, which this thread runs on, as the probe does.
pub(crate) fn emit(rings: Rings, number: u64, length: usize) {
    write_on_cpu(number, length, LoomWriter { rings, time: None, waits: false });
}

/// Writes a record like [`emit`], and waits for room.
pub(crate) fn emit_waiting(rings: Rings, number: u64, length: usize) {
    write_on_cpu(number, length, LoomWriter { rings, time: None, waits: true });
}

fn write_on_cpu(number: u64, length: usize, writer: LoomWriter<'_>) {
    model::run_on(0);
    // SAFETY: the model's memory stays as long as the execution; the payload has whole words.
    stage(number, length, |staged| unsafe { write(writer.rings.at(0), Tag(number << 32), staged, writer) });
}

/// The timestamps and numbers of a packet's records, whose payload has `length` bytes behind `header` bytes.
pub(crate) fn records(bytes: &[u8], header: usize, length: usize) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for record in bytes[PACKET_HEADER..].chunks((header + length).next_multiple_of(8)) {
        let words: Vec<u64> =
            record.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        let number = words[1] >> 32;
        assert!(words[header / 8..].iter().all(|&word| word == number), "a torn record: {words:x?}");
        assert_eq!(record.len(), header + length, "a record without its end");
        found.push((words[0], number));
    }
    found
}

/// Gets the next sub-buffer, if there is one, and puts it. Returns the numbers of its records.
pub(crate) fn take(reader: &mut Reader, length: usize) -> Vec<u64> {
    let header = if reader.cpu().is_some() { 16 } else { 24 };
    let Some(sub_buffer) = reader.get().unwrap() else { return Vec::new() };
    let numbers = records(&sub_buffer.copy(), header, length).into_iter().map(|(_, number)| number).collect();
    reader.put();
    numbers
}

/// The numbers of all records left in a ring that has no writers any more.
pub(crate) fn finish(reader: &mut Reader, length: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let taken = take(reader, length);
        if taken.is_empty() {
            break;
        }
        numbers.extend(taken);
    }
    let (salvaged, unfinished) = salvage(reader, length);
    assert_eq!(unfinished, 0);
    [numbers, salvaged].concat()
}

/// The numbers of the complete records in a ring that was not drained, and the number of places with unfinished ones.
pub(crate) fn salvage(reader: &Reader, length: usize) -> (Vec<u64>, u64) {
    let mut all = Vec::new();
    let unfinished =
        reader.salvage(Ticks(END_OF_TIME), |packet| all.extend(numbers(reader, &packet, length))).unwrap();
    (all, unfinished)
}

/// The numbers of a copied packet's records.
pub(crate) fn numbers(reader: &Reader, packet: &Packet, length: usize) -> Vec<u64> {
    let header = if reader.cpu().is_some() { 16 } else { 24 };
    records(&packet.bytes, header, length).into_iter().map(|(_, number)| number).collect()
}
