//! No bytes make the reader panic, loop, or return events out of order.

mod support;

use proptest::prelude::*;
use sordino_ctf::read::{Events, Stream, Trace};
use sordino_event::{Classes, Event, Step, Time};
use std::fs::{self, File};
use std::path::PathBuf;
use support::packets::{WrittenPacket, metadata};

/// The metadata of another tracer.
const OTHER: &str = include_str!("../../../../testdata/ctf/every-kind.tsdl");

fn other_file() -> Vec<u8> {
    let packet = |begin: u64, events: &[Vec<u8>]| {
        let content = events.concat();
        let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
        bytes.push(0);
        bytes.extend(begin.to_le_bytes());
        bytes.extend((begin + 100).to_le_bytes());
        let header = 5 + 16 + 12 + 1;
        bytes.extend((8 * (header + content.len() as u32)).to_le_bytes());
        bytes.extend((8 * (header + content.len() as u32 + 3)).to_le_bytes());
        bytes.extend([0, 0, 0, 0, 2]);
        bytes.extend(content);
        bytes.extend([0; 3]);
        bytes
    };
    let compact = |time: u32| (time << 5).to_le_bytes().to_vec();
    let context = b"\x07sh\0\x02\x09\x09".to_vec();
    let payload = [&b"\x02hi"[..], &[0xff; 9], b"\x03text\0"].concat();
    let a = |time| [compact(time), context.clone(), payload.clone()].concat();
    let mut extended = vec![31, 40, 0, 0, 0];
    extended.extend(250_u64.to_le_bytes());
    let b = [extended, context.clone(), vec![1], vec![5; 24]].concat();
    [packet(100, &[a(110), a(120)]), packet(200, &[a(210), b])].concat()
}

fn own_file() -> Vec<u8> {
    let packets = [
        WrittenPacket { seqno: 0, span: (10, 30), lost: (5, 2), events: &[(10, 0), (20, 2), (30, 2)] },
        WrittenPacket { seqno: 1, span: (40, 60), lost: (6, 2), events: &[(40, 5), (60, 5)] },
        WrittenPacket { seqno: 2, span: (70, 70), lost: (6, 2), events: &[(70, 6)] },
    ];
    packets.iter().flat_map(WrittenPacket::bytes).collect()
}

/// Returns the next item in words; `None` at the end. The time of an event precedes its words.
fn item(events: &mut Events, event: &mut Event) -> Option<(Option<Time>, String)> {
    match events.next(event).unwrap() {
        Step::Event => Some((Some(event.time), format!("{event:?}"))),
        Step::Loss(loss) => Some((None, format!("{loss:?}"))),
        Step::End => None,
    }
}

/// Returns the rest of the items of a reader in words.
fn items(events: &mut Events) -> Vec<String> {
    let mut event = Event::default();
    std::iter::from_fn(|| item(events, &mut event)).map(|(_, words)| words).collect()
}

/// Returns the items of a stream that is divided at every packet where that is possible, in words; and the number of
/// parts that are read on their own.
fn divided(stream: &Stream) -> (Vec<String>, usize) {
    let (mut part, mut event, mut parts) = (stream.events(), Event::default(), 1);
    let mut rest = part.split_off(1);
    let mut seen = items(&mut part);
    while let Some(mut next) = rest {
        rest = next.split_off(1);
        match item(&mut next, &mut event) {
            Some((Some(time), words)) if part.last().is_none_or(|last| last <= time) => {
                seen.push(words);
                part = next;
                parts += 1;
            }
            _ => part.rejoin(&next),
        }
        seen.extend(items(&mut part));
    }
    (seen, parts)
}

/// Reads the whole trace and checks the properties that hold for any bytes. Returns the number of events.
fn check(metadata: &[u8], file: Vec<u8>) -> Option<usize> {
    let mut classes = Classes::default();
    let bits = file.len() * 8;
    let trace = Trace::from_memory(metadata, [(PathBuf::new(), file)], &mut classes).ok()?;
    let mut count = 0;
    for stream in trace.streams() {
        let (mut events, mut event, mut now) = (stream.events(), Event::default(), Time::MIN);
        let mut losses = 0;
        assert_eq!(divided(stream).0, items(&mut stream.events()));
        loop {
            match events.next(&mut event).unwrap() {
                Step::Event => {
                    assert!(now <= event.time, "{now:?} before {:?}", event.time);
                    now = event.time;
                    let class = &classes[event.class];
                    assert_eq!(
                        (event.len(), event.fields(class).count()),
                        (class.fields.len(), class.fields.len())
                    );
                    count += 1;
                }
                Step::Loss(loss) => {
                    assert!(now <= loss.from && loss.from <= loss.to, "{now:?}: {loss:?}");
                    now = loss.from;
                    losses += 1;
                }
                Step::End => break,
            }
            assert!(count <= bits && losses <= 4 * bits + 4, "more than the file has bits");
        }
    }
    Some(count)
}

/// Overwrites, cuts out and repeats parts of `bytes`.
fn spoil(bytes: &mut Vec<u8>, changes: &[(prop::sample::Index, prop::sample::Index, u8, u8)]) {
    for (place, other, value, kind) in changes {
        if bytes.is_empty() {
            return;
        }
        let (at, other) = (place.index(bytes.len()), other.index(bytes.len()));
        match kind % 4 {
            0 => bytes[at] = *value,
            1 => bytes[at] ^= 1 << (value % 8),
            2 => {
                bytes.drain(at..(at + usize::from(*value) / 4).min(bytes.len()));
            }
            _ => {
                let part =
                    bytes[at.min(other)..(at.min(other) + usize::from(*value)).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, prop::sample::Index, u8, u8)>> {
    prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index, u8, u8)>(), 1..6)
}

#[test]
fn the_unspoilt_files_are_read_whole() {
    assert_eq!(check(OTHER.as_bytes(), other_file()), Some(4));
    assert_eq!(check(metadata().as_bytes(), own_file()), Some(6));
}

#[test]
fn packets_without_losses_are_parts_of_their_own() {
    let packet =
        |seqno, events| WrittenPacket { seqno, span: (10 * seqno, 10 * seqno + 5), lost: (0, 0), events };
    let times = [[(10, 0), (15, 0)], [(20, 0), (25, 0)], [(30, 0), (30, 0)]];
    let packets = [packet(1, &times[0]), packet(2, &times[1]), packet(3, &times[2])];
    let file = packets.iter().flat_map(WrittenPacket::bytes).collect();
    let mut classes = Classes::default();
    let trace = Trace::from_memory(metadata().as_bytes(), [(PathBuf::new(), file)], &mut classes).unwrap();
    let (seen, parts) = divided(&trace.streams()[0]);
    assert_eq!((seen.len(), parts), (6, 3));
}

/// The metadata of events of five bytes: a time, whose high bits are in the packet's header, and a number.
const SMALL: &str = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
    clock { name = c; freq = 1000000000; };
    typealias integer { size = 8; align = 8; } := u8;
    typealias integer { size = 64; align = 8; } := u64;
    typealias integer { size = 32; align = 8; map = clock.c.value; } := low;
    typealias integer { size = 64; align = 8; map = clock.c.value; } := whole;
    stream {
        event.header := struct { low timestamp; };
        packet.context := struct {
            whole timestamp_begin; whole timestamp_end; u64 content_size; u64 packet_size;
        };
    };
    event { name = a; fields := struct { u8 x; }; };";

#[test]
fn a_hole_ends_a_packet_at_the_same_place_in_a_part_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let header =
        |begin: u64, end: u64, bytes: u64| [begin, end, bytes * 8, bytes * 8].map(u64::to_le_bytes).concat();
    // The first packet is longer than a window; the second is a hole behind its header.
    let (first, second) = (100 * 4096, 4 << 20);
    let mut bytes = header(1, 1 << 20, first);
    for time in 1_u32..(first / 5) as u32 - 6 {
        bytes.extend(time.to_le_bytes());
        bytes.push(1);
    }
    bytes.resize(first as usize, 0);
    bytes.extend(header(1 << 21, 1 << 33, second));
    fs::write(dir.path().join("metadata"), SMALL).unwrap();
    fs::write(dir.path().join("cpu0"), bytes).unwrap();
    File::options().write(true).open(dir.path().join("cpu0")).unwrap().set_len(first + second).unwrap();
    let trace = Trace::open(dir.path(), &mut Classes::default()).unwrap();
    let stream = &trace.streams()[0];
    let (seen, parts) = divided(stream);
    assert_eq!((seen.len(), parts), (items(&mut stream.events()).len(), 2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spoilt_packets_are_survived(changes in changes()) {
        for (metadata, mut file) in [(OTHER.to_owned(), other_file()), (metadata(), own_file())] {
            spoil(&mut file, &changes);
            prop_assert!(check(metadata.as_bytes(), file).is_some());
        }
    }

    #[test]
    fn spoilt_headers_are_survived(at in 0..80_usize, packet in 0..3_usize, value in prop::array::uniform8(any::<u8>())) {
        let mut file = own_file();
        file[packet * 4096 + at..][..8].copy_from_slice(&value);
        // A wrong size can cost the neighbour, too, but not all.
        prop_assert!(check(metadata().as_bytes(), file).is_some_and(|events| events >= 1));
    }

    #[test]
    fn random_packets_are_survived(file in prop::collection::vec(any::<u8>(), 0..300)) {
        let plain = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = be; };
            event { name = e; fields := struct { integer { size = 3; } n; struct { } list[n]; string s[n]; }; };";
        prop_assert!(check(plain.as_bytes(), file).is_some());
    }

    #[test]
    fn spoilt_metadata_is_survived(changes in changes()) {
        for (metadata, file) in [(OTHER.to_owned(), other_file()), (metadata(), own_file())] {
            let mut metadata = metadata.into_bytes();
            spoil(&mut metadata, &changes);
            check(&metadata, file);
        }
    }

    #[test]
    fn words_of_the_language_in_any_order_are_survived(words in prop::collection::vec(0..WORDS.len(), 0..60)) {
        let text: Vec<_> = words.iter().map(|word| WORDS[*word]).collect();
        let text = format!("trace {{ major = 1; minor = 8; byte_order = le; }}; {}", text.join(" "));
        check(text.as_bytes(), vec![1; 64]);
    }
}

const WORDS: [&str; 48] = [
    "struct",
    "variant",
    "enum",
    "integer",
    "floating_point",
    "string",
    "typealias",
    "typedef",
    "event",
    "stream",
    "clock",
    "env",
    "trace",
    "fields",
    "event.fields",
    "a",
    "b",
    "int",
    "unsigned",
    "const",
    "align",
    "size",
    "=",
    ":=",
    ";",
    "{",
    "}",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "<",
    ">",
    ",",
    ":",
    "*",
    ".",
    "...",
    "-",
    "1",
    "8",
    "{ size = 8; }",
    "18446744073709551615",
    "\"t\"",
    "event { fields := struct {",
    "integer { size = 8; } a;",
];
