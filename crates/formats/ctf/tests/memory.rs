//! Memory depends on the content of a trace's files, not on the sizes that they claim.

#[path = "../../../../testdata/allocations.rs"]
mod allocations;
mod support;

use allocations::peak_of;
use sordino_ctf::read::{Trace, find};
use sordino_event::{Classes, Event, LossCause, Step};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use support::packets::{WrittenPacket, metadata};

/// Returns the number of events in all streams of the trace in `dir`, and of corrupt places. All streams are read at
/// once.
fn read(dir: &Path) -> (usize, usize) {
    let mut classes = Classes::default();
    let trace = Trace::open(dir, &mut classes).unwrap();
    let (mut count, mut corrupt) = (0, 0);
    let mut streams: Vec<_> =
        trace.streams().iter().map(|stream| (stream.events(), Event::default())).collect();
    while !streams.is_empty() {
        streams.retain_mut(|(events, event)| match events.next(event).unwrap() {
            Step::Event => {
                count += 1;
                true
            }
            Step::Loss(loss) => {
                corrupt += usize::from(loss.cause == LossCause::Corrupt);
                true
            }
            Step::End => false,
        });
    }
    (count, corrupt)
}

/// Returns the metadata of a trace whose packet headers have the sizes only; its one event has these fields.
fn plain(fields: &str) -> String {
    format!(
        "/* CTF 1.8 */ typealias integer {{ size = 8; align = 8; }} := u8; typealias integer {{ size = 64; align = 8; }} := u64;
         trace {{ major = 1; minor = 8; byte_order = le; }};
         stream {{ packet.context := struct {{ u64 content_size; u64 packet_size; }}; }};
         event {{ name = e; fields := struct {{ {fields} }}; }};"
    )
}

/// Returns the packet context of [`plain`], for sizes in bytes.
fn sizes(content: u64, packet: u64) -> Vec<u8> {
    [content * 8, packet * 8].iter().flat_map(|bits| bits.to_le_bytes()).collect()
}

fn write(dir: &Path, metadata: &str, files: &[(&str, &[u8], u64)]) {
    fs::write(dir.join("metadata"), metadata).unwrap();
    for (name, bytes, length) in files {
        let mut file = File::create(dir.join(name)).unwrap();
        file.write_all(bytes).unwrap();
        file.set_len(*length).unwrap();
    }
}

#[test]
fn a_packet_that_claims_a_gibibyte_takes_no_gibibyte() {
    const CLAIM: u64 = 1 << 30;
    let dir = tempfile::tempdir().unwrap();
    let mut packet =
        WrittenPacket { seqno: 0, span: (10, 30), lost: (0, 0), events: &[(10, 0), (20, 0)] }.bytes();
    // These are the content size and the packet size.
    packet[40..48].copy_from_slice(&(CLAIM * 8).to_ne_bytes());
    packet[48..56].copy_from_slice(&(CLAIM * 8).to_ne_bytes());
    let files = ["a", "b", "c", "d"].map(|name| (name, &packet[..], CLAIM));
    write(dir.path(), &metadata(), &files);
    let (found, peak) = peak_of(|| read(dir.path()));
    assert_eq!(found, (8, 4));
    assert!(peak < 4 << 20, "{peak} bytes");
}

#[test]
fn a_hole_of_many_gibibytes_holds_no_events() {
    let dir = tempfile::tempdir().unwrap();
    // Each zero byte would be an event; the third packet claims more than is read of any.
    let (claim, length) = (1 << 30, 64 << 30);
    let mut file = sizes(claim, claim);
    file.extend([1, 2, 3]);
    write(dir.path(), &plain("u8 a;"), &[("a", &file, length), ("b", &sizes(length, length), length)]);
    let ((count, corrupt), peak) = peak_of(|| read(dir.path()));
    // The number is that of the first window, without the page of data.
    assert!((3..1 << 20).contains(&count) && corrupt >= 2, "{count} events, {corrupt} corrupt places");
    assert!(peak < 4 << 20, "{peak} bytes");
}

#[test]
fn lists_and_texts_that_claim_more_than_there_is_take_no_memory() {
    let claim = 1 << 30;
    for (fields, length) in
        [("u64 n; u8 list[n];", claim), ("u64 n; integer { size = 1; } list[n];", claim * 8)]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut file = sizes(claim, claim);
        file.extend((length - 1000).to_le_bytes());
        write(dir.path(), &plain(fields), &[("a", &file, claim)]);
        let (found, peak) = peak_of(|| read(dir.path()));
        assert_eq!(found, (0, 1), "{fields}");
        assert!(peak < 48 << 20, "{fields}: {peak} bytes");
    }
}

#[test]
fn a_label_that_is_repeated_takes_no_memory_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let label = "x".repeat(1 << 20);
    let metadata = plain(&format!("enum : u8 {{ {label} = 0 }} list[100000];"));
    let mut file = sizes(200_000, 200_000);
    file.resize(200_000, 0);
    write(dir.path(), &metadata, &[("a", &file, 200_000)]);
    let (found, peak) = peak_of(|| read(dir.path()));
    assert_eq!(found, (0, 1));
    assert!(peak < 64 << 20, "{peak} bytes");
}

/// The lengths of the texts place them across windows in all ways; some are longer than a window.
#[test]
fn events_are_read_whole_wherever_windows_end() {
    let lengths: Vec<usize> = (0..400_usize).map(|index| (index * 7919) % 9000).collect();
    let long = [70_000, 300_000, 1, 600_000, 4095, 4096, 4097, 3_000_000, 5, 65_535, 65_536, 200_000];
    let texts: Vec<Vec<u8>> = lengths
        .iter()
        .chain(&long)
        .zip((0..26_u8).cycle())
        .map(|(length, fill)| vec![b'a' + fill; *length])
        .collect();
    let mut content: Vec<u8> = texts.iter().flat_map(|text| [text, &b"\0"[..]].concat()).collect();
    let whole = 16 + content.len() as u64;
    let mut file = sizes(whole, whole);
    file.append(&mut content);
    for (metadata, strings) in [(plain("string s;"), true), (plain("u64 n;"), false)] {
        let mut classes = Classes::default();
        let trace =
            Trace::from_memory(metadata.as_bytes(), [("f".into(), file.clone())], &mut classes).unwrap();
        let (mut events, mut event) = (trace.streams()[0].events(), Event::default());
        if strings {
            for text in &texts {
                assert_eq!(events.next(&mut event).unwrap(), Step::Event);
                assert_eq!(event.text(0), Some(&text[..]));
                assert_eq!(events.payload(), [text, &b"\0"[..]].concat());
            }
        } else {
            for number in file[16..].chunks_exact(8) {
                assert_eq!(events.next(&mut event).unwrap(), Step::Event);
                assert_eq!(events.payload(), number);
            }
            // The rest is shorter than an event.
            assert!(
                matches!(events.next(&mut event).unwrap(), Step::Loss(loss) if loss.cause == LossCause::Corrupt)
            );
        }
        assert_eq!(events.next(&mut event).unwrap(), Step::End);
    }
}

#[test]
fn an_event_longer_than_any_is_a_loss_and_what_follows_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let text = |length: usize| [&vec![b'x'; length][..], b"\0"].concat();
    let packet = |content: &[u8]| {
        [sizes(16 + content.len() as u64, 16 + content.len() as u64), content.to_vec()].concat()
    };
    let contents = [[text(5), text(5 << 20), text(5)].concat(), [text(6), text(3 << 20)].concat()];
    let file: Vec<u8> = contents.iter().flat_map(|content| packet(content)).collect();
    write(dir.path(), &plain("string s;"), &[("a", &file, file.len() as u64)]);
    let (found, peak) = peak_of(|| read(dir.path()));
    assert_eq!(found, (3, 1));
    assert!(peak < 24 << 20, "{peak} bytes");
}

#[test]
fn what_is_no_regular_file_is_refused_and_never_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let fifo = |name: &str| {
        let status = Command::new("mkfifo").arg(root.path().join(name)).status().unwrap();
        assert!(status.success());
    };
    let refusal = || Trace::open(root.path(), &mut Classes::default()).unwrap_err().to_string();
    fifo("metadata");
    assert_eq!(find(root.path()).unwrap(), [root.path()]);
    assert!(refusal().ends_with("/metadata: it is no regular file"), "{}", refusal());
    fs::remove_file(root.path().join("metadata")).unwrap();
    write(root.path(), &plain("u8 a;"), &[]);
    fifo("stream");
    assert!(refusal().ends_with("/stream: it is no regular file"), "{}", refusal());
    fs::remove_file(root.path().join("stream")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", root.path().join("stream")).unwrap();
    assert!(refusal().ends_with("/stream: it is no regular file"), "{}", refusal());
}

#[test]
fn streams_of_more_files_than_are_kept_open_are_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..100).map(|index| index.to_string()).collect();
    let packet = [sizes(18, 18), vec![1, 2]].concat();
    let file = packet.repeat(3);
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), &file[..], file.len() as u64)).collect();
    write(dir.path(), &plain("u8 a;"), &files);
    assert_eq!(peak_of(|| read(dir.path())).0, (600, 0));
}
