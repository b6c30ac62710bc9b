//! Copies of the newest records are whole, contiguous and up to date while writers go on, and leave the ring as it is.
mod support;

use sordino_event::{Cpu, Ticks};
use sordino_ring::layout::Geometry;
use sordino_ring::read::{Newest, Packet, Reader};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release};
use support::*;

const SMALL: Geometry = Geometry { bits: 14, count: 4, overwrite: false };
/// Records of 16 bytes of payload in a CPU's sub-buffer, behind the header room; no record ends with its last byte.
const RECORDS: u64 = (16384 - 80 - 8) / 32;

fn all(reader: &Reader) -> Newest {
    reader.newest(Ticks::default(), usize::MAX, || Ticks(END_OF_TIME)).unwrap()
}

/// The numbers of a copy's records, whose payloads have `length` bytes; its packets follow one another in time.
fn read(reader: &Reader, newest: &Newest, length: usize) -> Vec<ParsedRecord> {
    let read = |packet: &Packet| {
        if reader.cpu().is_some() { records(&packet.bytes, length) } else { shared_records(&packet.bytes) }
    };
    for packet in &newest.packets {
        let (content, read) = (packet.content, read(packet));
        assert_eq!(content.end as usize, packet.bytes.len());
        assert!(read.first().is_none_or(|first| Ticks(first.timestamp) == content.first_timestamp));
        assert!(read.iter().all(|record| Ticks(record.timestamp) <= content.last_timestamp));
    }
    for pair in newest.packets.windows(2) {
        assert!(pair[0].content.last_timestamp <= pair[1].content.first_timestamp);
        assert!(pair[0].content.lost.total <= pair[1].content.lost.total);
    }
    newest.packets.iter().flat_map(read).collect()
}

fn numbers(reader: &Reader, newest: &Newest) -> Vec<u64> {
    read(reader, newest, 16).iter().map(|record| record.tag >> 32).collect()
}

#[test]
fn a_copy_is_what_the_ring_holds_and_takes_nothing() {
    let harness = Harness::new();
    pin(0);
    for overwrite in [false, true] {
        let mut attached = harness.attach(Geometry { overwrite, ..SMALL }, u32::MAX - 1);
        let written = 3 * RECORDS + 10;
        for number in 0..written {
            harness.write(attached.slot, number << 32, &[1; 16]);
        }
        for _ in 0..2 {
            let newest = all(&attached.readers[0]);
            assert!(!newest.overwritten);
            assert_eq!(numbers(&attached.readers[0], &newest), (0..written).collect::<Vec<_>>());
            assert_eq!(newest.packets[3].content.last_timestamp, Ticks(END_OF_TIME));
        }
        // A packet ends with the taken sub-buffer.
        let copied: Vec<_> = all(&attached.readers[0]).packets;
        let taken = finish(&mut attached);
        let taken = taken.into_iter().filter(|(cpu, ..)| *cpu == Some(Cpu(0)));
        for ((_, content, bytes), packet) in taken.zip(&copied) {
            assert_eq!((content, &bytes[80..]), (packet.content, &packet.bytes[80..]));
        }
        harness.program.detach(&attached).unwrap();
    }
}

#[test]
fn what_was_taken_is_not_copied_again() {
    let harness = Harness::new();
    pin(0);
    for overwrite in [false, true] {
        let mut attached = harness.attach(Geometry { overwrite, ..SMALL }, 5);
        for number in 0..3 * RECORDS + 1 {
            harness.write(attached.slot, number << 32, &[1; 16]);
        }
        for taken in 1..=3 {
            // The header is written over the words of the sub-buffer switch.
            attached.readers[0].get().unwrap().unwrap().set_header(&[0xff; 80]);
            let rest: Vec<_> = (taken * RECORDS..3 * RECORDS + 1).collect();
            let reader = &mut attached.readers[0];
            assert_eq!(numbers(reader, &all(reader)), rest);
            reader.put();
            assert_eq!(numbers(reader, &all(reader)), rest);
        }
        harness.program.detach(&attached).unwrap();
    }
}

#[test]
fn a_copy_goes_back_to_a_time_or_to_a_size() {
    let harness = Harness::new();
    pin(0);
    let attached = harness.attach(SMALL.overwriting(), 5);
    for number in 0..4 * RECORDS {
        harness.write(attached.slot, number << 32, &[1; 16]);
    }
    let reader = &attached.readers[0];
    let packets = all(reader).packets;
    assert_eq!(packets.len(), 4);
    let copies = |since, limit| reader.newest(since, limit, || Ticks(END_OF_TIME)).unwrap();
    for oldest in 0..4 {
        let first = packets[oldest].content.first_timestamp;
        // A packet that ends at that time belongs to the copy, one that ended before does not.
        assert_eq!(copies(first.after(1), usize::MAX).packets, packets[oldest..]);
        assert_eq!(copies(first, usize::MAX).packets, packets[oldest.saturating_sub(1)..]);
        let size: usize = packets[oldest..].iter().map(|packet| packet.bytes.len()).sum();
        assert_eq!(copies(Ticks(0), size).packets, packets[oldest..]);
        assert_eq!(copies(Ticks(0), size - 1).packets, packets[oldest..]);
        assert!(!copies(Ticks(0), size).overwritten);
    }
    assert_eq!(copies(Ticks(0), 0).packets, []);
}

#[test]
fn what_is_overwritten_meanwhile_is_no_part_of_a_copy() {
    let harness = Harness::new();
    pin(0);
    let attached = harness.attach(SMALL.overwriting(), u32::MAX);
    let mut written = 0;
    let mut write = |count: u64| {
        for number in written..written + count {
            harness.write(attached.slot, number << 32, &[1; 16]);
        }
        written += count;
    };
    write(4 * RECORDS);
    let reader = &attached.readers[0];
    for gone in 1..=4 {
        let mut copy = |since| {
            // The clock is read after the head, and before the first copy.
            let now = || {
                write(gone * RECORDS);
                Ticks(END_OF_TIME)
            };
            reader.newest(since, usize::MAX, now).unwrap()
        };
        let head = numbers(reader, &all(reader)).last().unwrap() + 1;
        let newest = copy(Ticks(0));
        assert!(newest.overwritten);
        assert_eq!(numbers(reader, &newest), (head - (4 - gone) * RECORDS..head).collect::<Vec<_>>());
        // The older records were not requested.
        assert_eq!(copy(Ticks(END_OF_TIME)).overwritten, gone == 4);
    }
}

#[test]
fn packets_say_what_was_lost_by_their_end() {
    let harness = Harness::new();
    pin(0);
    for cpus in [all_cpus(), &[]] {
        let mut request = options(SMALL, 0);
        request.cpus = cpus;
        let mut attached = harness.program.attach(&request).unwrap();
        let waiting =
            |attached: &sordino_ring::area::control::Attached| attached.readers[0].waiting().unwrap();
        while waiting(&attached) < 3 || attached.readers[0].lost().total < 9 {
            harness.write(attached.slot, 0, &[0; 16]);
        }
        let lost = attached.readers[0].lost().total;
        let newest = all(&attached.readers[0]);
        let by_packet: Vec<_> = newest.packets.iter().map(|packet| packet.content.lost.total).collect();
        assert_eq!(by_packet, [0, 0, 0, lost]);
        assert!(attached.readers[0].get().unwrap().is_some());
        attached.readers[0].put();
        harness.write(attached.slot, 0, &[0; 16]);
        let newest = all(&attached.readers[0]);
        let by_packet: Vec<_> = newest.packets.iter().map(|packet| packet.content.lost.total).collect();
        assert_eq!(by_packet, [0, 0, lost, lost]);
        harness.program.detach(&attached).unwrap();
    }
}

#[test]
fn a_ring_says_how_full_it_is() {
    let harness = Harness::new();
    pin(0);
    for overwrite in [false, true] {
        let mut attached = harness.attach(Geometry { overwrite, ..SMALL }, u32::MAX);
        let used = |reader: &Reader| (reader.fill().unwrap().used, reader.fill().unwrap().capacity);
        assert_eq!(used(&attached.readers[0]), (80, 4 << 14));
        for _ in 0..RECORDS + 1 {
            harness.write(attached.slot, 0, &[1; 16]);
        }
        assert_eq!(used(&attached.readers[0]), ((1 << 14) + 80 + 32, 4 << 14));
        attached.readers[0].get().unwrap().unwrap();
        attached.readers[0].put();
        assert_eq!(used(&attached.readers[0]), (80 + 32, 4 << 14));
        for _ in 0..10 * RECORDS {
            harness.write(attached.slot, 0, &[1; 16]);
        }
        let (full, capacity) = used(&attached.readers[0]);
        assert!(full <= capacity && full > capacity - (1 << 14), "{full} of {capacity}");
        harness.program.detach(&attached).unwrap();
    }
}

/// One writer on a CPU at full speed, and a reader on another that copies as fast as it can, and may get sub-buffers in
/// between. Returns the number of copies that the writer cut short.
fn storm(request: &sordino_ring::area::control::AttachOptions<'_>, taking: bool) -> u64 {
    const RECORDS: u64 = 200_000;
    const COPIES: u64 = 1000;
    // Few sub-buffers, so that the writer soon comes round.
    const LENGTH: usize = 1000;
    let harness = Harness::new();
    let mut attached = harness.program.attach(request).unwrap();
    let (slot, overwrite) = (attached.slot, request.geometry.overwrite);
    let (begun, written, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (mut copies, mut cut) = (0, 0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            pin(0);
            for number in (0u64..).take_while(|_| !stop.load(Acquire)) {
                let mut payload = [number as u8; LENGTH];
                payload[..8].copy_from_slice(&number.to_ne_bytes());
                begun.store(number + 1, Release);
                harness.write(slot, number << 32, &payload);
                written.store(number + 1, Release);
            }
        });
        // The writer ends however the reader ends.
        struct StopGuard<'a>(&'a AtomicBool);
        impl Drop for StopGuard<'_> {
            fn drop(&mut self) {
                self.0.store(true, Release);
            }
        }
        let end = StopGuard(&stop);
        pin(cpus() - 1);
        while copies < COPIES || written.load(Acquire) < RECORDS {
            let reader = &mut attached.readers[0];
            let before = written.load(Acquire);
            let mut at_head = 0;
            let now = || {
                at_head = begun.load(Acquire);
                Ticks(END_OF_TIME)
            };
            let newest = reader.newest(Ticks::default(), usize::MAX, now).unwrap();
            let found = read(reader, &newest, LENGTH);
            for record in &found {
                let number = record.tag >> 32;
                assert_eq!(record.payload[..8], number.to_ne_bytes(), "a torn record");
                assert_eq!(record.payload[8..], [number as u8; LENGTH - 8], "a torn record");
            }
            for pair in found.windows(2) {
                let between = (pair[1].tag >> 32) - (pair[0].tag >> 32) - 1;
                assert_eq!(between & 0xffff, pair[1].tag.wrapping_sub(pair[0].tag) & 0xffff, "a hole");
                assert!(between == 0 || !overwrite, "a hole");
            }
            // The newest record is as new as the call, unless it found no room or all records up to then were
            // overwritten.
            let last = found.last().map_or(0, |record| (record.tag >> 32) + 1);
            assert!(last <= at_head, "{last} {at_head}");
            if overwrite && !found.is_empty() {
                assert!(last >= before, "{last} {before}");
            }
            copies += 1;
            cut += u64::from(newest.overwritten);
            if taking && reader.get().unwrap().is_some() {
                reader.put();
            }
        }
        drop(end);
        // Joined here, because the thread sanitizer does not see the scope's end.
        writer.join().unwrap();
    });
    cut
}

fn request(geometry: Geometry, shared: bool) -> sordino_ring::area::control::AttachOptions<'static> {
    sordino_ring::area::control::AttachOptions {
        cpus: if shared { &[] } else { all_cpus() },
        ..options(geometry, u32::MAX - 9)
    }
}

#[test]
fn copies_are_whole_while_a_cpu_s_writer_overwrites_at_full_speed() {
    for taking in [false, true] {
        storm(&request(SMALL.overwriting(), false), taking);
    }
}

#[test]
fn so_they_are_of_the_shared_ring() {
    for taking in [false, true] {
        storm(&request(SMALL.overwriting(), true), taking);
    }
}

#[test]
fn so_they_are_where_nothing_is_overwritten() {
    for shared in [false, true] {
        assert_eq!(storm(&request(SMALL, shared), true), 0);
    }
}
