//! Traces of other tracers, from public test suites: every event that babeltrace2 reads must be read equally.

mod support;

use sordino_ctf::PacketSeqno;
use sordino_ctf::read::{Trace, find};
use sordino_event::{Classes, Event, LossCause, Step, Time};
use std::fs;
use std::path::{Path, PathBuf};
use support::{assert_same, babeltrace, not_measured, read};

/// Returns the directory of such traces. It contains `valid`, `malformed` and `lttng`, each with a directory for a
/// trace.
fn data() -> Option<PathBuf> {
    let data = std::env::var_os("SORDINO_CTF_TRACES").map(PathBuf::from).filter(|data| data.is_dir());
    if data.is_none() {
        not_measured("traces of other tracers: set SORDINO_CTF_TRACES to a directory of them");
    }
    data
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn valid_traces_are_read_as_babeltrace2_reads_them() {
    let Some(data) = data() else { return };
    let mut compared = 0;
    for dir in subdirectories(&data.join("valid")).into_iter().chain(subdirectories(&data.join("lttng"))) {
        // This trace has packets that overlap in time; see below.
        if dir.ends_with("scp_dest") {
            continue;
        }
        let Some(theirs) = babeltrace(&dir) else { return };
        let ours = read(&dir);
        assert_same(&ours.events, &theirs.events);
        compared += ours.events.len();
        assert!(
            ours.losses.iter().all(|loss| loss.cause != LossCause::Corrupt),
            "{}: {:?}",
            dir.display(),
            ours.losses
        );
    }
    assert!(compared > 290_000, "only {compared} events compared");
}

/// babeltrace2 stops where the second packet begins some 2 us before the first one ended, although no event is out of
/// order. The test therefore passes it a copy in which each packet ends before the next one begins.
#[test]
fn packets_that_overlap_lose_no_event() {
    let Some(data) = data() else { return };
    let (source, copy) = (data.join("lttng/scp_dest"), tempfile::tempdir().unwrap());
    fs::copy(source.join("metadata"), copy.path().join("metadata")).unwrap();
    let mut bytes = fs::read(source.join("channel0_0")).unwrap();
    const PACKET: usize = 262_144;
    let starts: Vec<_> = (0..bytes.len()).step_by(PACKET).collect();
    for pair in starts.windows(2) {
        let begin = bytes[pair[1] + 24..pair[1] + 32].to_vec();
        bytes[pair[0] + 32..pair[0] + 40].copy_from_slice(&begin);
    }
    fs::write(copy.path().join("channel0_0"), bytes).unwrap();
    let Some(theirs) = babeltrace(copy.path()) else { return };
    assert_eq!(theirs.complaints, "");
    assert!(theirs.events.len() > 11_679);
    assert_same(&read(&source).events, &theirs.events);
}

#[test]
fn discarded_events_are_counted() {
    let Some(data) = data() else { return };
    let reading = read(&data.join("valid/ev-disc-no-ts-begin-end"));
    let losses: Vec<_> = reading.losses.iter().map(|loss| (loss.count, loss.cause)).collect();
    assert_eq!(losses, [(Some(17), LossCause::Discarded)]);
}

#[test]
fn malformed_metadata_is_refused_with_its_place() {
    let Some(data) = data() else { return };
    for (name, expected) in [
        ("fail1", ":14:1: CTF 0.1, not 1.8"),
        (
            "integer-range",
            ":7:10: bad number \
             `23452397856348975623897562893746589237465289374658923764598237645897234658723648579236`",
        ),
        ("invalid-sequence-length-field-class", ":23:13: `len` is no unsigned integer"),
        ("lttng-modules-2.0-pre1", ": metadata packet at byte 0: CTF 116.121, not 1.8"),
        ("packet-based-metadata", ": metadata packet at byte 0: CTF 116.121, not 1.8"),
    ] {
        let dir = data.join("malformed").join(name);
        let error = Trace::open(&dir, &mut Classes::default()).unwrap_err().to_string();
        assert_eq!(error, format!("{}{expected}", dir.join("metadata").display()));
    }
}

#[test]
fn events_before_the_first_bad_one_are_read() {
    let Some(data) = data() else { return };
    let reading = read(&data.join("malformed/valid-events-then-invalid-events"));
    assert_eq!(reading.events.len(), 2);
    let losses: Vec<_> = reading.losses.iter().map(|loss| (loss.count, loss.cause)).collect();
    assert_eq!(losses, [(None, LossCause::Corrupt)]);
}

#[test]
fn skipping_yields_what_reading_through_yields() {
    let Some(data) = data() else { return };
    let dir = data.join("lttng/many-threads");
    let mut classes = Classes::default();
    let trace = Trace::open(&find(&dir).unwrap()[0], &mut classes).unwrap();
    let mut skipped = 0;
    for stream in trace.streams() {
        let (begin, end) = stream.span().unwrap();
        for part in 0..=10 {
            let from = Time(begin.0 + (end.0 - begin.0) / 10 * part);
            let times = |mut events: sordino_ctf::read::Events| {
                let (mut event, mut times, mut all) = (Event::default(), Vec::new(), 0);
                while events.next(&mut event).unwrap() == Step::Event {
                    all += 1;
                    if event.time >= from {
                        times.push((event.time, event.class));
                    }
                }
                (times, all)
            };
            let (expected, all) = times(stream.events());
            let mut events = stream.events();
            events.skip_to(from);
            let (found, read) = times(events);
            assert_eq!(found, expected);
            skipped += all - read;
        }
    }
    assert!(skipped > 900_000, "{skipped}");
}

#[test]
fn an_index_tells_span_and_sizes_without_events() {
    let Some(data) = data() else { return };
    let mut classes = Classes::default();
    let trace = Trace::open(data.join("lttng/many-threads"), &mut classes).unwrap();
    assert_eq!(trace.environment().text("hostname"), Some("wilbrod"));
    assert_eq!(trace.clocks()[0].name, "monotonic");
    assert_eq!(trace.streams().len(), 8);
    let packets = trace.streams()[4].packets();
    let numbered: Vec<_> = packets.iter().map(|packet| (packet.seqno, packet.bytes)).collect();
    assert_eq!(numbered[4..], [(Some(PacketSeqno(4)), 245_760), (Some(PacketSeqno(5)), 4096)]);
    assert!(packets.iter().all(|packet| packet.sound && packet.discarded == Some(0)));
}
