//! A ring that overwrites keeps the newest whole sub-buffers, whatever its reader does meanwhile.
mod support;

use sordino_event::Cpu;
use sordino_ring::layout::Geometry;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use support::*;

const SMALL: Geometry = Geometry { bits: 14, count: 4, overwrite: true };
/// Records of 16 bytes of payload in a CPU's sub-buffer, behind the header room; no record ends with its last byte.
const RECORDS: u64 = (16384 - 80 - 8) / 32;

fn numbers(bytes: &[u8]) -> Vec<u64> {
    records(bytes, 16).iter().map(|record| record.tag >> 32).collect()
}

#[test]
fn the_newest_records_are_there_and_what_was_overwritten_is_counted() {
    let harness = Harness::new();
    pin(0);
    for (first_seqno, written) in
        [(7, 100), (u32::MAX - 3, 4 * RECORDS), (9, 4 * RECORDS + 1), (1 << 31, 37_777)]
    {
        let mut attached = harness.attach(SMALL, first_seqno);
        for number in 0..written {
            harness.write(attached.slot, number << 32, &[1; 16]);
        }
        let taken = finish(&mut attached);
        let of_cpu: Vec<_> = taken.iter().filter(|(cpu, ..)| *cpu == Some(Cpu(0))).collect();
        let read: Vec<u64> = of_cpu.iter().flat_map(|(.., bytes)| numbers(bytes)).collect();
        let seqnos = written.div_ceil(RECORDS);
        assert_eq!(of_cpu.len() as u64, seqnos.min(4));
        assert_eq!(attached.readers[0].overwritten(), seqnos.saturating_sub(4));
        assert_eq!(read, (seqnos.saturating_sub(4) * RECORDS..written).collect::<Vec<_>>());
        assert!(of_cpu.is_sorted_by_key(|(_, content, _)| content.first_timestamp));
        assert_eq!(attached.readers[0].lost().total, 0);
        harness.program.detach(&attached).unwrap();
    }
}

#[test]
fn a_sub_buffer_that_the_reader_holds_is_not_written_to() {
    let harness = Harness::new();
    pin(0);
    let mut attached = harness.attach(SMALL, 3);
    let write = |from: u64, count: u64| {
        (from..from + count).for_each(|number| harness.write(attached.slot, number << 32, &[2; 16]));
    };
    write(0, 2 * RECORDS);
    let reader = &mut attached.readers[0];
    let held = reader.get().unwrap().unwrap();
    let before = numbers(&held.copy());
    assert_eq!(before, (0..RECORDS).collect::<Vec<_>>());
    write(2 * RECORDS, 20 * RECORDS);
    assert_eq!(numbers(&held.copy()), before);
    // A second request before the put returns the same sub-buffer.
    assert_eq!(numbers(&reader.get().unwrap().unwrap().copy()), before);
    reader.put();
    let next = numbers(&reader.get().unwrap().unwrap().copy());
    assert_eq!(next, (18 * RECORDS..19 * RECORDS).collect::<Vec<_>>());
    reader.put();
    assert_eq!(reader.overwritten(), 17);
}

/// Runs two writers at full speed, `each` with so many records, and a reader that exchanges as fast as it can. Returns
/// the number of sub-buffers that it got.
fn storm(shared: bool, each: u64) -> u64 {
    let harness = Harness::new();
    let mut request = options(SMALL, u32::MAX - 100);
    request.cpus = if shared { &[] } else { all_cpus() };
    let mut attached = harness.program.attach(&request).unwrap();
    let slot = attached.slot;
    let (done, mut taken) = (AtomicBool::new(false), 0);
    let mut check = |(cpu, _, bytes): (Option<Cpu>, _, Vec<u8>)| {
        let read = if cpu.is_none() { shared_records(&bytes) } else { records(&bytes, 16) };
        assert!(read.is_sorted_by_key(|record| record.timestamp), "time went back");
        for writer in 0..2 {
            let mut own = read.iter().filter(|record| record.tag >> 32 == writer);
            let number = |record: &ParsedRecord| u64::from_ne_bytes(record.payload[..8].try_into().unwrap());
            let lost = |record: &ParsedRecord| record.tag & 0xffff;
            let Some(mut last) = own.next().cloned() else { continue };
            for record in own {
                assert_eq!(record.payload[8..], [writer as u8; 8]);
                let between = number(record) - number(&last) - 1;
                assert!(between <= lost(record).wrapping_sub(lost(&last)) & 0xffff || cpu.is_some());
                assert!(number(record) > number(&last));
                last = record.clone();
            }
        }
        taken += 1;
    };
    std::thread::scope(|scope| {
        let writers = [0, 1u64].map(|writer| {
            let (harness, done) = (&harness, &done);
            scope.spawn(move || {
                for number in 0..each {
                    let mut payload = [writer as u8; 16];
                    payload[..8].copy_from_slice(&number.to_ne_bytes());
                    harness.write(slot, writer << 32, &payload);
                }
                done.store(true, Relaxed);
            })
        });
        while !done.load(Relaxed) {
            drain(&mut attached).into_iter().for_each(&mut check);
        }
        // Joined here, because the thread sanitizer does not see the scope's end.
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    finish(&mut attached).into_iter().for_each(&mut check);
    taken
}

#[test]
fn every_sub_buffer_that_was_exchanged_under_full_speed_is_whole() {
    assert!(storm(false, 500_000) > 10);
}

#[test]
fn so_is_every_one_of_the_shared_ring() {
    assert!(storm(true, 300_000) > 10);
}
