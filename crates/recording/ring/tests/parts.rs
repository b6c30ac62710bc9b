//! A ring that is read in parts hands each record out once, in order.
mod support;

use sordino_event::Ticks;
use sordino_ring::area::control::AttachOptions;
use sordino_ring::layout::Geometry;
use sordino_ring::read::Reader;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use support::*;

const SMALL: Geometry = Geometry { bits: 14, count: 4, overwrite: false };
/// Records of 16 bytes of payload in a CPU's sub-buffer: see `newest.rs`.
const RECORDS: u64 = (16384 - 80 - 8) / 32;

fn numbers(reader: &Reader, bytes: &[u8]) -> Vec<u64> {
    let read = if reader.cpu().is_some() { records(bytes, 13) } else { shared_records(bytes) };
    assert!(read.is_sorted_by_key(|record| record.timestamp));
    assert!(read.iter().all(|record| record.payload == [(record.tag >> 32) as u8; 13]));
    read.iter().map(|record| record.tag >> 32).collect()
}

fn part(reader: &mut Reader) -> Option<Vec<u64>> {
    let packet = reader.part(|| Ticks(END_OF_TIME)).unwrap()?;
    assert_eq!(
        (packet.content.end as usize, packet.content.last_timestamp),
        (packet.bytes.len(), Ticks(END_OF_TIME))
    );
    Some(numbers(reader, &packet.bytes))
}

fn take(reader: &mut Reader) -> Option<Vec<u64>> {
    let bytes = reader.get().unwrap()?.copy();
    // A second request returns the same sub-buffer.
    assert_eq!(reader.get().unwrap().unwrap().copy(), bytes);
    assert_eq!(part(reader), None);
    let numbers = numbers(reader, &bytes);
    reader.put();
    Some(numbers)
}

fn salvage(reader: &Reader) -> Vec<u64> {
    let mut found = Vec::new();
    reader.salvage(Ticks(END_OF_TIME), |packet| found.extend(numbers(reader, &packet.bytes))).unwrap();
    found
}

fn request(geometry: Geometry, shared: bool) -> AttachOptions<'static> {
    AttachOptions { cpus: if shared { &[] } else { all_cpus() }, ..options(geometry, u32::MAX - 2) }
}

/// All four kinds of rings.
fn kinds() -> impl Iterator<Item = AttachOptions<'static>> {
    let kinds = [(false, false), (false, true), (true, false), (true, true)];
    kinds.into_iter().map(|(overwrite, shared)| request(Geometry { overwrite, ..SMALL }, shared))
}

#[test]
fn parts_and_what_is_taken_behind_them_are_all_records_once() {
    let harness = Harness::new();
    pin(0);
    for request in kinds() {
        let mut attached = harness.program.attach(&request).unwrap();
        let (slot, reader) = (attached.slot, &mut attached.readers[0]);
        assert_eq!(part(reader), Some(vec![]));
        let (mut read, mut parts) = (Vec::new(), 0);
        for number in 0..20 * RECORDS {
            harness.write(slot, number << 32, &[number as u8; 13]);
            // A part for each record, for some time; then sub-buffers with one part, several, or none.
            let sub_buffer = number / RECORDS;
            let every: u64 =
                if sub_buffer.is_multiple_of(4) { 1 } else { [800, 97, 1300][sub_buffer as usize % 3] };
            if number.is_multiple_of(every) {
                while let Some(taken) = take(reader) {
                    read.extend(taken);
                }
                let left: Vec<_> = (read.len() as u64..=number).collect();
                assert_eq!(salvage(reader), left);
                let newest = reader.newest(Ticks::default(), usize::MAX, || Ticks(END_OF_TIME)).unwrap();
                let newest = newest.packets.iter().flat_map(|packet| numbers(reader, &packet.bytes));
                assert_eq!(newest.collect::<Vec<_>>(), left);
                read.extend(part(reader).unwrap());
                assert_eq!(read.len() as u64, number + 1);
                assert_eq!(part(reader), Some(vec![]));
                parts += 1;
            } else if sub_buffer % 4 == 3 {
                // Gets a sub-buffer without a part of the next one.
                read.extend(take(reader).into_iter().flatten());
            }
        }
        assert!(parts > 1000);
        while let Some(taken) = take(reader) {
            read.extend(taken);
        }
        read.extend(salvage(reader));
        assert_eq!(read, (0..20 * RECORDS).collect::<Vec<_>>());
        assert_eq!((reader.lost().total, reader.overwritten()), (0, 0));
        harness.program.detach(&attached).unwrap();
    }
}

#[test]
fn there_is_no_part_of_what_comes_later() {
    let harness = Harness::new();
    pin(0);
    for request in kinds() {
        let mut attached = harness.program.attach(&request).unwrap();
        let (slot, reader) = (attached.slot, &mut attached.readers[0]);
        for number in 0..RECORDS + 1 {
            harness.write(slot, number << 32, &[number as u8; 13]);
        }
        assert_eq!(part(reader), None);
        let first = take(reader).unwrap();
        assert_eq!(part(reader), Some((first.len() as u64..RECORDS + 1).collect()));
        harness.program.detach(&attached).unwrap();
    }
}

#[test]
fn a_sub_buffer_that_is_overwritten_takes_its_parts_along() {
    let harness = Harness::new();
    pin(0);
    let mut attached = harness.program.attach(&request(SMALL.overwriting(), false)).unwrap();
    let (slot, reader) = (attached.slot, &mut attached.readers[0]);
    harness.write(slot, 0, &[0; 13]);
    assert_eq!(part(reader), Some(vec![0]));
    for number in 1..5 * RECORDS {
        harness.write(slot, number << 32, &[number as u8; 13]);
    }
    assert_eq!(part(reader), None);
    assert_eq!(take(reader), Some((RECORDS..2 * RECORDS).collect()));
    assert_eq!(reader.overwritten(), 1);
}

#[test]
fn parts_are_whole_while_a_writer_goes_on() {
    const EACH: u64 = 600_000;
    for shared in [false, true] {
        let harness = Harness::new();
        let mut attached = harness.program.attach(&request(SMALL, shared)).unwrap();
        let (slot, reader) = (attached.slot, &mut attached.readers[0]);
        let (done, mut next, mut lost, mut parts) = (AtomicBool::new(false), 0, 0, 0);
        let mut check = |reader: &Reader, bytes: &[u8]| {
            for number in numbers(reader, bytes) {
                assert!(number >= next, "{number} again");
                lost += number - next;
                next = number + 1;
            }
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                pin(0);
                for number in 0..EACH {
                    harness.write(slot, number << 32, &[number as u8; 13]);
                }
                done.store(true, Relaxed);
            });
            pin(cpus() - 1);
            while !done.load(Relaxed) {
                while let Some(sub_buffer) = reader.get().unwrap() {
                    let bytes = sub_buffer.copy();
                    check(reader, &bytes);
                    reader.put();
                }
                if let Some(packet) = reader.part(|| Ticks(END_OF_TIME)).unwrap() {
                    check(reader, &packet.bytes);
                    parts += u64::from(packet.bytes.len() > 80);
                }
            }
            // Joined here, because the thread sanitizer does not see the scope's end.
            writer.join().unwrap();
        });
        reader.salvage(Ticks(END_OF_TIME), |packet| check(reader, &packet.bytes)).unwrap();
        lost += EACH - next;
        assert_eq!(lost, reader.lost().total, "shared: {shared}");
        assert!(parts > 0);
    }
}
