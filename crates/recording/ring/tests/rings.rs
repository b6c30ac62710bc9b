//! A collector reads a program's records once and in order, and missing ones are counted.
mod support;

use sordino_event::{Cpu, Ticks};
use sordino_ring::layout::Geometry;
use sordino_ring::offset::max_payload;
use sordino_ring::read::{Lost, Packet};
use std::io::Write;
use support::*;

const SMALL: Geometry = Geometry { bits: 14, count: 4, overwrite: false };

#[test]
fn records_come_out_as_they_went_in() {
    let harness = Harness::new();
    pin(0);
    let mut attached = harness.attach(SMALL, 9);
    for number in 0..10u64 {
        harness.write(attached.slot, number << 32, &[number as u8; 13]);
    }
    let taken = finish(&mut attached);
    let (cpu, content, bytes) = taken.iter().find(|(_, content, _)| content.end > 80).unwrap();
    assert_eq!((*cpu, content.lost), (Some(Cpu(0)), Lost::default()));
    let read = records(bytes, 13);
    assert_eq!(read.len(), 10);
    for (number, record) in (0..).zip(&read) {
        assert_eq!((record.tag, &record.payload[..]), (number << 32, &[number as u8; 13][..]));
    }
    assert!(read.is_sorted_by_key(|record| record.timestamp));
    assert_eq!(
        (content.first_timestamp, content.last_timestamp),
        (Ticks(read[0].timestamp), Ticks(END_OF_TIME))
    );
    harness.program.detach(&attached).unwrap();
}

#[test]
fn a_full_ring_counts_what_it_loses_and_goes_on() {
    let harness = Harness::new();
    pin(0);
    // The sequence number wraps on the way.
    let mut attached = harness.attach(SMALL, u32::MAX - 5);
    let payload = [7u8; 16];
    let per_sub_buffer = (SMALL.size() - 80 - 8) / 32;
    let fits = 4 * per_sub_buffer;
    let mut numbers = Vec::new();
    let mut written = 0u64;
    for round in 0..5 {
        for _ in 0..fits + 10 {
            harness.write(attached.slot, written << 32, &payload);
            written += 1;
        }
        let taken = drain(&mut attached);
        let of_cpu: Vec<_> = taken.iter().filter(|(cpu, ..)| *cpu == Some(Cpu(0))).collect();
        numbers.extend(of_cpu.iter().flat_map(|(.., bytes)| records(bytes, 16)).map(|record| record.tag));
        let lost = attached.readers[0].lost();
        assert_eq!(lost.too_large, 0);
        assert!(lost.total >= 10 * (round + 1), "{lost:?}");
    }
    let taken = finish(&mut attached);
    let (_, content, bytes) = taken.iter().find(|(cpu, ..)| *cpu == Some(Cpu(0))).unwrap();
    numbers.extend(records(bytes, 16).iter().map(|record| record.tag));
    assert_eq!(numbers.len() as u64 + content.lost.total, written);
    assert!(numbers.is_sorted_by_key(|tag| tag >> 32));
    // Each record has the count of records lost before it.
    let mut lost_before = 0;
    for (index, tag) in (0u64..).zip(&numbers) {
        lost_before = (tag >> 32) - index;
        assert_eq!(tag & 0xffff, lost_before & 0xffff);
    }
    assert!(lost_before > 0);
}

#[test]
fn a_packet_says_what_was_lost_by_its_end() {
    let harness = Harness::new();
    pin(0);
    let mut attached = harness.attach(SMALL, 0);
    let fits = 4 * ((SMALL.size() - 80 - 8) / 32);
    for _ in 0..fits + 25 {
        harness.write(attached.slot, 0, &[0; 16]);
    }
    let first = drain(&mut attached);
    assert_eq!(first.iter().map(|(_, content, _)| content.lost.total).collect::<Vec<_>>(), [0, 0, 0]);
    harness.write(attached.slot, 0, &[0; 16]);
    let second = drain(&mut attached);
    assert_eq!(second[0].1.lost, Lost { total: 25, too_large: 0 });
    let rest = finish(&mut attached);
    // A packet never ends after the next one begins.
    assert!(second[0].1.last_timestamp <= rest[0].1.first_timestamp);
}

#[test]
fn a_record_that_no_sub_buffer_takes_is_lost_as_too_large() {
    let harness = Harness::new();
    pin(0);
    let mut attached = harness.attach(SMALL, 0);
    let largest = max_payload(SMALL);
    harness.write(attached.slot, 1 << 32, &vec![1; largest]);
    harness.write(attached.slot, 2 << 32, &vec![2; largest + 1]);
    harness.write(attached.slot, 3 << 32, &vec![3; largest]);
    let taken = finish(&mut attached);
    let of_cpu: Vec<_> = taken.iter().filter(|(cpu, ..)| *cpu == Some(Cpu(0))).collect();
    assert_eq!(of_cpu.len(), 2);
    let read: Vec<_> = of_cpu.iter().flat_map(|(.., bytes)| records(bytes, largest)).collect();
    assert_eq!(read.iter().map(|record| record.tag).collect::<Vec<_>>(), [1 << 32, 3 << 32 | 1]);
    assert!(read[1].payload.iter().all(|&byte| byte == 3));
    assert_eq!(of_cpu[1].1.lost, Lost { total: 1, too_large: 1 });
}

#[test]
fn records_of_every_length_stay_inside_their_sub_buffer() {
    let harness = Harness::new();
    pin(0);
    let mut attached = harness.attach(SMALL, 0);
    for length in (0..300).chain([4000, 8000, 12_000]) {
        let payload: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        // Fills the first sub-buffer up to its end, and goes beyond.
        while attached.readers[0].waiting().unwrap() == 0 {
            harness.write(attached.slot, (length as u64) << 32, &payload);
        }
        let taken = finish(&mut attached);
        let of_cpu: Vec<_> = taken.iter().filter(|(cpu, ..)| *cpu == Some(Cpu(0))).collect();
        assert_eq!(of_cpu.len(), 2);
        for (.., bytes) in of_cpu {
            for record in records(bytes, length).iter().filter(|record| record.tag >> 32 == length as u64) {
                assert_eq!(record.payload, payload);
            }
        }
        harness.program.detach(&attached).unwrap();
        attached = harness.attach(SMALL, 1000 + length as u32);
    }
}

#[test]
fn a_thread_on_a_cpu_without_a_ring_uses_the_shared_one() {
    let harness = Harness::new();
    pin(0);
    let mut request = options(SMALL, 5);
    request.cpus = &[];
    let mut attached = harness.program.attach(&request).unwrap();
    for number in 0..2000u64 {
        harness.write(attached.slot, number << 32, &vec![number as u8; number as usize % 40]);
        if number % 100 == 0 {
            for (cpu, content, bytes) in drain(&mut attached) {
                assert_eq!((cpu, content.lost.total), (None, 0));
                assert!(!shared_records(&bytes).is_empty());
            }
        }
    }
    let rest: Vec<_> = finish(&mut attached).iter().flat_map(|(.., bytes)| shared_records(bytes)).collect();
    let last = rest.last().unwrap();
    assert_eq!((last.tag >> 32, last.payload.len()), (1999, 1999 % 40));
    assert!(rest.is_sorted_by_key(|record| record.timestamp));
}

#[test]
fn a_cpu_that_is_left_out_leaves_no_record() {
    if cpus() < 2 {
        // Written past the test harness, which swallows the output of tests that pass.
        let _ =
            writeln!(std::io::stderr(), "not measured here: a CPU that is left out, for there is only one");
        return;
    }
    let harness = Harness::new();
    let mut request = options(SMALL, 5);
    request.cpus = &[Cpu(0)];
    request.leave_out_others = true;
    let mut attached = harness.program.attach(&request).unwrap();
    for cpu in [0, 1, 0] {
        pin(cpu);
        for number in 0..100u64 {
            harness.write(attached.slot, number << 32, &[cpu as u8; 8]);
        }
    }
    let taken = finish(&mut attached);
    let lost: u64 = taken.iter().map(|(_, content, _)| content.lost.total).sum();
    let (shared, own): (Vec<_>, Vec<_>) = taken.iter().partition(|(cpu, ..)| cpu.is_none());
    let own: Vec<_> = own.iter().flat_map(|(.., bytes)| records(bytes, 8)).collect();
    assert_eq!((own.len(), lost), (200, 0));
    assert!(own.iter().all(|record| record.payload == [0; 8]));
    assert!(shared.iter().all(|(.., bytes)| shared_records(bytes).is_empty()));
}

#[test]
fn the_shared_ring_loses_and_counts_like_the_others() {
    let harness = Harness::new();
    let mut request = options(SMALL, u32::MAX);
    request.cpus = &[];
    let mut attached = harness.program.attach(&request).unwrap();
    for number in 0..10_000u64 {
        harness.write(attached.slot, number << 32, &[1; 20]);
    }
    harness.write(attached.slot, 0, &vec![1; max_payload(SMALL) + 1]);
    let lost = attached.readers[0].lost();
    let taken = finish(&mut attached);
    let read: usize = taken.iter().map(|(.., bytes)| shared_records(bytes).len()).sum();
    assert_eq!(read as u64 + lost.total, 10_001);
    assert_eq!(lost.too_large, 1);
}

#[test]
fn what_is_salvaged_of_several_sub_buffers_is_in_order_of_time() {
    let harness = Harness::new();
    let mut request = options(SMALL, u32::MAX - 1);
    request.cpus = &[];
    let attached = harness.program.attach(&request).unwrap();
    for number in 0..1000u64 {
        harness.write(attached.slot, number << 32, &[1; 20]);
    }
    let mut salvaged = Vec::new();
    let unfinished = attached.readers[0].salvage(Ticks(END_OF_TIME), |packet| salvaged.push(packet));
    assert_eq!(unfinished, Ok(0));
    assert_eq!(salvaged.len(), 3);
    for pair in salvaged.windows(2) {
        // A packet never ends after the next one begins.
        assert!(pair[0].content.last_timestamp <= pair[1].content.first_timestamp);
    }
    assert_eq!(salvaged[2].content.last_timestamp, Ticks(END_OF_TIME));
    let mut tags = Vec::new();
    for Packet { bytes, content } in &salvaged {
        let read = shared_records(bytes);
        assert!(read.iter().all(|record| Ticks(record.timestamp) <= content.last_timestamp));
        tags.extend(read.iter().map(|record| record.tag >> 32));
    }
    assert_eq!(tags, (0..1000).collect::<Vec<_>>());
}

#[test]
fn threads_on_all_cpus_lose_nothing_while_the_reader_keeps_up() {
    const EACH: u64 = 200_000;
    for shared in [false, true] {
        let harness = Harness::new();
        let mut request = options(Geometry { bits: 16, count: 8, overwrite: false }, u32::MAX - 3);
        request.cpus = if shared { &[] } else { all_cpus() };
        let mut attached = harness.program.attach(&request).unwrap();
        let slot = attached.slot;
        let mut seen = [0u64; 4];
        let mut lost = 0;
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4u64)
                .map(|writer| {
                    let harness = &harness;
                    scope.spawn(move || {
                        for number in 0..EACH {
                            // The payload verifies itself: writer, number, and a length that follows from the number.
                            let mut payload = vec![writer as u8; 16 + (number % 32) as usize];
                            payload[..8].copy_from_slice(&number.to_ne_bytes());
                            harness.write(slot, writer << 32, &payload);
                        }
                    })
                })
                .collect();
            let mut check = |(cpu, _, bytes): (Option<Cpu>, _, Vec<u8>)| {
                for record in verify(&bytes, cpu.is_none()) {
                    seen[record as usize] += 1;
                }
            };
            while writers.iter().any(|writer| !writer.is_finished()) {
                drain(&mut attached).into_iter().for_each(&mut check);
            }
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            lost = attached.readers.iter().map(|reader| reader.lost().total).sum();
            finish(&mut attached).into_iter().for_each(&mut check);
        });
        assert_eq!(seen.iter().sum::<u64>() + lost, 4 * EACH, "shared: {shared}");
    }
}

/// Checks each record of a sub-buffer. Returns the records' writers.
fn verify(bytes: &[u8], shared: bool) -> Vec<u64> {
    let mut writers = Vec::new();
    let (mut at, mut timestamp) = (80, 0);
    while at < bytes.len() {
        let word =
            |offset: usize| u64::from_ne_bytes(bytes[at + offset..at + offset + 8].try_into().unwrap());
        let header = if shared { 24 } else { 16 };
        let (writer, number) = (word(8) >> 32, word(header));
        let length = 16 + (number % 32) as usize;
        assert!(word(0) >= timestamp, "time went back");
        timestamp = word(0);
        assert!(bytes[at + header + 8..at + header + length].iter().all(|&byte| u64::from(byte) == writer));
        writers.push(writer);
        at = (at + header + length).next_multiple_of(8);
    }
    writers
}
