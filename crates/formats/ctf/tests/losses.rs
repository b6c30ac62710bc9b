//! Losses and corrupt packets are reported in their places, and no more is lost than necessary.

mod support;

use sordino_ctf::read::Trace;
use sordino_ctf::write::StreamClass;
use sordino_event::{Classes, Cpu, Event, LossCause, Pid, Step, Time};
use support::packets::StreamItem::{self, Event as At, Loss};
use support::packets::{WrittenPacket, metadata, seen};

fn packet<'a>(seqno: u64, span: (u64, u64), events: &'a [(u64, u16)]) -> WrittenPacket<'a> {
    WrittenPacket { seqno, span, lost: (0, 0), events }
}

fn read(packets: &[Vec<u8>]) -> Vec<StreamItem> {
    seen(&metadata(), packets.concat())
}

fn counted(seen: &[StreamItem]) -> u64 {
    seen.iter().map(|seen| if let Loss(_, _, Some(count), _) = seen { *count } else { 0 }).sum()
}

#[test]
fn losses_lie_between_the_events_that_show_them() {
    let first = WrittenPacket { lost: (15, 5), ..packet(0, (10, 30), &[(10, 0), (20, 3), (30, 5)]) };
    let second = WrittenPacket { lost: (16, 6), ..packet(1, (50, 60), &[(50, 15), (60, 16)]) };
    assert_eq!(
        read(&[first.bytes(), second.bytes()]),
        [
            At(10),
            Loss(10, 20, Some(3), LossCause::TooLarge),
            At(20),
            Loss(20, 30, Some(2), LossCause::TooLarge),
            At(30),
            Loss(30, 50, Some(10), LossCause::RingFull),
            At(50),
            Loss(50, 60, Some(1), LossCause::TooLarge),
            At(60),
        ]
    );
}

#[test]
fn a_loss_says_whose_it_is() {
    let mut classes = Classes::default();
    let file = WrittenPacket { lost: (1, 0), ..packet(0, (10, 10), &[(10, 0)]) }.bytes();
    let trace = Trace::from_memory(metadata().as_bytes(), [("f".into(), file)], &mut classes).unwrap();
    let (mut events, mut event) = (trace.streams()[0].events(), Event::default());
    assert_eq!(events.next(&mut event).unwrap(), Step::Event);
    assert_eq!((event.cpu, event.pid), (Some(Cpu(1)), Some(Pid(42))));
    let Step::Loss(loss) = events.next(&mut event).unwrap() else { panic!("no loss") };
    assert_eq!((loss.cpu, loss.pid), (Some(Cpu(1)), Some(Pid(42))));
}

/// Returns the places of the corrupt stretches in two files, of which each has one stream.
fn places(files: [Vec<u8>; 2]) -> Vec<String> {
    let mut classes = Classes::default();
    let files = files.into_iter().enumerate().map(|(number, bytes)| (format!("d/{number}").into(), bytes));
    let trace = Trace::from_memory(metadata().as_bytes(), files, &mut classes).unwrap();
    let (mut event, mut places) = (Event::default(), Vec::new());
    for stream in trace.streams() {
        let mut events = stream.events();
        loop {
            match events.next(&mut event).unwrap() {
                Step::Event => {}
                Step::Loss(loss) => {
                    assert_eq!(loss.place.is_some(), loss.cause == LossCause::Corrupt, "{loss:?}");
                    places.extend(loss.place.map(|place| place.to_string()));
                }
                Step::End => break,
            }
        }
    }
    places
}

#[test]
fn a_corrupt_stretch_says_where_it_is() {
    let events = [(10, 0), (20, 0), (30, 0)];
    let first = [packet(0, (10, 30), &events).bytes(), packet(1, (40, 40), &[(40, 0)]).bytes()].concat();
    let second = [
        WrittenPacket { lost: (5, 0), ..packet(0, (10, 30), &events) }.bytes(),
        WrittenPacket { lost: (4, 0), ..packet(1, (40, 50), &[(40, 5)]) }.bytes(),
    ]
    .concat();
    let id = StreamClass::Cpu.id();
    let place = |file, packet, byte| format!("d/{file}, stream {id}, packet {packet}, byte {byte}");
    // A count that went back.
    assert_eq!(places([first.clone(), second.clone()]), [place(1, 1, 4096)]);
    // The time of the second event; the header of the second packet; the end of the file.
    let mut spoiled = first.clone();
    spoiled[80 + 24] = 9;
    spoiled[4096] ^= 1;
    let cut = second[..4096 + 90].to_vec();
    let expected = [place(0, 0, 80 + 24), place(0, 1, 4096), place(1, 1, 4096), place(1, 1, 4096 + 80)];
    assert_eq!(places([spoiled, cut]), expected);
    // A file without a valid packet is of no stream that is known.
    assert_eq!(places([vec![1; 4096], first]), ["d/0, no stream, packet 0, byte 0"]);
}

#[test]
fn the_sum_of_losses_is_the_packets_count() {
    // There are more than 65,535 losses between two events, an event that shows more than the packet, and a packet
    // without an event.
    let packets = [
        WrittenPacket { lost: (70_000, 70_000), ..packet(0, (1, 2), &[(1, 0), (2, 4464)]) },
        WrittenPacket { lost: (70_001, 70_000), ..packet(1, (3, 4), &[(3, 9999), (4, 4465)]) },
        WrittenPacket { lost: (70_009, 70_000), ..packet(2, (5, 6), &[]) },
        WrittenPacket { lost: (70_009, 70_000), ..packet(3, (7, 7), &[(7, 4473)]) },
    ];
    let seen = read(&packets.map(|packet| packet.bytes()));
    assert_eq!(counted(&seen), 70_009);
    assert_eq!(
        seen,
        [
            At(1),
            Loss(1, 2, Some(4464), LossCause::TooLarge),
            At(2),
            Loss(2, 3, Some(65_536), LossCause::TooLarge),
            At(3),
            Loss(3, 4, Some(1), LossCause::RingFull),
            At(4),
            Loss(4, 7, Some(8), LossCause::RingFull),
            At(7),
        ]
    );
}

#[test]
fn a_gap_in_the_sequence_is_a_loss_nobody_counted() {
    let packets = [packet(0, (1, 1), &[(1, 0)]), packet(3, (9, 9), &[(9, 0)])];
    assert_eq!(read(&packets.map(|p| p.bytes())), [At(1), Loss(1, 9, None, LossCause::Discarded), At(9)]);
}

#[test]
fn a_packet_with_a_broken_header_costs_only_itself() {
    let packets =
        [packet(0, (1, 2), &[(1, 0), (2, 0)]), packet(1, (3, 4), &[(3, 0)]), packet(2, (5, 6), &[(5, 0)])];
    let whole = packets.map(|packet| packet.bytes());
    // The fields are magic, UUID, stream; begin and end in the wrong order; content too small, not whole, larger than
    // the packet; size 0, not whole, beyond the file.
    for (at, value) in [
        (0, 0_u64),
        (4, 0),
        (20, 9),
        (24, 1000),
        (40, 79 * 8),
        (40, 5000 * 8),
        (48, 0),
        (48, 4097),
        (48, u64::MAX - 7),
        (48, 4096 * 8 * 9),
    ] {
        let mut packets = whole.clone();
        packets[1][at..at + 8].copy_from_slice(&value.to_le_bytes());
        let seen = read(&packets);
        let events: Vec<_> = seen.iter().filter(|seen| matches!(seen, At(1 | 2 | 5))).collect();
        assert_eq!(events.len(), 3, "{at} {value}: {seen:?}");
        let corrupt = seen.iter().filter(|seen| matches!(seen, Loss(2..=3, 3..=5, None, LossCause::Corrupt)));
        // Where only the size is wrong, its event may still be found.
        let lost = !seen.contains(&At(3));
        assert!(lost || at == 48, "{at} {value}: {seen:?}");
        assert_eq!(corrupt.count(), usize::from(lost), "{at} {value}: {seen:?}");
    }
}

#[test]
fn events_before_the_first_broken_one_are_kept() {
    let events = [(10, 0), (20, 0), (30, 0)];
    let whole = [packet(0, (10, 30), &events).bytes(), packet(1, (40, 40), &[(40, 0)]).bytes()];
    // The changes of the second event: its id, its time before the first one's, its time after the next packet's begin.
    for (at, bytes) in [(80 + 24 + 10, vec![9]), (80 + 24, vec![9]), (80 + 24, vec![41])] {
        let mut packets = whole.clone();
        packets[0][at..at + bytes.len()].copy_from_slice(&bytes);
        assert_eq!(
            read(&packets),
            [At(10), Loss(10, 40, None, LossCause::Corrupt), At(40)],
            "{at} {bytes:?}"
        );
    }
    // The content ends within the third event.
    let mut packets = whole;
    let header = packet(0, (10, 30), &[]).header(80 + 24 + 24 + 23).encode();
    packets[0][..80].copy_from_slice(&header);
    assert_eq!(read(&packets), [At(10), At(20), Loss(20, 40, None, LossCause::Corrupt), At(40)]);
}

#[test]
fn a_packet_whose_time_is_wrong_does_not_take_the_others_with_it() {
    fn packets(second: WrittenPacket<'_>) -> [Vec<u8>; 3] {
        [packet(0, (10, 20), &[(10, 0), (20, 0)]), second, packet(2, (50, 60), &[(50, 0), (60, 0)])]
            .map(|packet| packet.bytes())
    }
    let far = u64::MAX / 8;
    let seen = read(&packets(packet(1, (far, far), &[(far, 0)])));
    assert_eq!(seen, [At(10), At(20), Loss(20, 50, None, LossCause::Corrupt), At(50), At(60)]);
    let seen = read(&packets(packet(1, (1, 2), &[(1, 0), (2, 0)])));
    assert!(
        seen.ends_with(&[At(50), At(60)])
            && seen.iter().any(|seen| matches!(seen, Loss(.., LossCause::Corrupt))),
        "{seen:?}"
    );
}

#[test]
fn a_file_cut_off_loses_only_what_was_cut_off() {
    let events = [(10, 0), (20, 0)];
    let file = [packet(0, (10, 20), &events).bytes(), packet(1, (30, 30), &[(30, 0)]).bytes()].concat();
    for length in 0..=file.len() {
        let seen = seen(&metadata(), file[..length].to_vec());
        let events = seen.iter().filter(|seen| matches!(seen, At(_))).count();
        let expected = [104, 128, 4096 + 104].into_iter().filter(|end| length >= *end).count();
        assert_eq!(events, expected, "at {length}");
        // Missing padding is no loss.
        let whole = length == 0 || (128..=4096).contains(&length) || length >= 4096 + 104;
        let corrupt = seen.iter().filter(|seen| matches!(seen, Loss(.., LossCause::Corrupt))).count();
        assert_eq!(corrupt, usize::from(!whole), "at {length}: {seen:?}");
    }
}

#[test]
fn skipping_does_not_count_losses_twice() {
    let packets = [
        WrittenPacket { lost: (5, 0), ..packet(0, (10, 20), &[(10, 0)]) },
        WrittenPacket { lost: (7, 0), ..packet(1, (30, 40), &[(30, 5)]) },
        WrittenPacket { lost: (7, 0), ..packet(2, (50, 60), &[(50, 7)]) },
    ];
    let file: Vec<u8> = packets.iter().flat_map(WrittenPacket::bytes).collect();
    let mut classes = Classes::default();
    let trace = Trace::from_memory(metadata().as_bytes(), [("f".into(), file)], &mut classes).unwrap();
    let (mut events, mut event) = (trace.streams()[0].events(), Event::default());
    assert_eq!(events.next(&mut event).unwrap(), Step::Event);
    events.skip_to(Time(35));
    assert_eq!(events.next(&mut event).unwrap(), Step::Event);
    assert_eq!(event.time, Time(30));
    let Step::Loss(loss) = events.next(&mut event).unwrap() else { panic!("no loss") };
    assert_eq!((loss.from, loss.count), (Time(30), Some(2)));
    events.skip_to(Time(1000));
    assert_eq!(events.next(&mut event).unwrap(), Step::End);
}

/// A record of the shared ring contains its length: a record that contradicts it was not completely written.
#[test]
fn a_shared_record_of_another_length_is_corrupt() {
    for (length, expected) in [(32_u32, vec![At(10)]), (40, vec![Loss(10, 10, None, LossCause::Corrupt)])] {
        let mut bytes = packet(0, (10, 10), &[(10, 0)]).bytes();
        bytes[20] = 1;
        bytes.splice(96..104, [&7_u32.to_ne_bytes()[..], &length.to_ne_bytes(), &[5; 8]].concat());
        bytes[40..48].copy_from_slice(&(112_u64 * 8).to_ne_bytes());
        bytes.truncate(4096);
        assert_eq!(read(&[bytes]), expected, "{length}");
    }
}

/// Reads another tracer's stream: its packets have a time of 32 bits, a count of 8 bits, and events with an id alone.
fn other_tracer(packets: &[(u8, u8)]) -> Vec<StreamItem> {
    let metadata = "/* CTF 1.8 */
        typealias integer { size = 8; } := u8;
        trace { major = 1; minor = 8; byte_order = be; };
        clock { name = c; };
        stream {
            packet.context := struct {
                integer { size = 8; map = clock.c.value; } timestamp_begin;
                integer { size = 8; map = clock.c.value; } timestamp_end;
                u8 packet_size; u8 events_discarded; };
            event.header := struct { integer { size = 4; map = clock.c.value; } timestamp; integer { size = 4; } id; };
        };
        event { name = e; id = 5; };";
    seen(
        metadata,
        packets
            .iter()
            .flat_map(|(begin, count)| [*begin, begin + 5, 40, *count, (begin + 1) << 4 | 5])
            .collect(),
    )
}

#[test]
fn other_tracers_counts_are_losses_within_the_packet() {
    assert_eq!(
        other_tracer(&[(0x10, 2), (0x20, 2), (0x30, 200), (0x40, 44)]),
        [
            Loss(0x10, 0x15, Some(2), LossCause::Discarded),
            At(0x11),
            At(0x21),
            // The count is not 198: with 8 bits, more than half of the range is a count that went back.
            Loss(0x21, 0x35, None, LossCause::Corrupt),
            At(0x31),
            Loss(0x31, 0x45, Some(100), LossCause::Discarded),
            At(0x41),
        ]
    );
}
