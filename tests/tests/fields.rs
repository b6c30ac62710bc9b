//! Every kind of field, from C, C++ and Rust, as babeltrace2 prints it.

use sordino_tests::listing::named;
use sordino_tests::{COMPILERS, CompletedRecording, RecordedEvent, Scene};

/// Returns babeltrace2's text between the braces of the last event of that name.
fn payload(lines: &[String], name: &str) -> String {
    let line = lines.iter().rev().find(|line| line.contains(&format!(" {name}: ")));
    let line = line.unwrap_or_else(|| panic!("no event {name} in {lines:#?}"));
    let (_, fields) = line.rsplit_once("}, {").or_else(|| line.rsplit_once(": {")).unwrap();
    fields.trim_end_matches('}').trim().to_owned()
}

/// Events that the programs of all languages write alike.
const ALIKE: &[(&str, &str)] = &[
    ("least", "a = 0, b = 0, c = 0, d = 0, e = -128, f = -32768, g = -2147483648, h = -9223372036854775808"),
    (
        "most",
        "a = 255, b = 65535, c = 4294967295, d = 18446744073709551615, \
         e = 127, f = 32767, g = 2147483647, h = 9223372036854775807",
    ),
    (
        "hexadecimal",
        "a = 0xAB, b = 0xABCD, c = 0xABCDEF01, d = 0xABCDEF0123456789, \
         e = 0xFF, f = 0xFFFE, g = 0xFFFFFFFD, h = 0xFFFFFFFFFFFFFFFC",
    ),
    ("network", "a = 1, b = 258, c = 16909060, d = 72623859790382856, e = -1, f = -2, g = -3, h = -4"),
    (
        "real",
        "single = 0.25, twice = -1e+100, infinite = inf, yes = ( \"true\" : container = 1 ), no = ( \"false\" : container = 0 )",
    ),
    ("text", r#"empty = "", none = "(null)", some = "with \"quotes\" and \\", behind = 7"#),
    (
        "arrays",
        "numbers = [ [0] = 1, [1] = 2, [2] = 4294967295 ], codes = [ [0] = 0xFFFF, [1] = 0x1234 ], \
         reals = [ [0] = 0.5, [1] = -2.25 ], ports = [ [0] = 80, [1] = 443 ], \
         flags = [ [0] = ( \"true\" : container = 1 ), [1] = ( \"false\" : container = 0 ) ]",
    ),
    (
        "sequences",
        "_empty_length = 0, empty = [ ], _numbers_length = 2, \
         numbers = [ [0] = -9223372036854775808, [1] = 9223372036854775807 ], _reals_length = 1, reals = [ [0] = 1.5 ], \
         _bytes_length = 4, bytes = [ [0] = 0xDE, [1] = 0xAD, [2] = 0x0, [3] = 0xEF ], \
         _no_bytes_length = 0, no_bytes = [ ], behind = 9",
    ),
    ("none", ""),
    ("emergency", "level = 0"),
    ("debug", "level = 14"),
];

fn compare(lines: &[String], expected: &[(&str, &str)]) {
    for (name, fields) in expected {
        assert_eq!(payload(lines, &format!("fields:{name}")), *fields, "fields:{name}");
    }
}

/// "Every field type from C11 and C++17 with gcc and clang", without a warning.
#[test]
fn c_and_cpp_record_every_kind_of_field() {
    let scene = Scene::new();
    for compiler in COMPILERS {
        let program = scene.compile(compiler, "fields.c", &[]);
        let recording = scene.record(&["--fail-on-loss"], &[program.to_str().unwrap()]);
        assert_eq!(recording.ended.status, 0);
        recording.assert_count(13);
        let lines = recording.babeltrace();
        compare(&lines, ALIKE);
        let labels = r#"idle = ( "idle" : container = 0 ), running = ( "running" : container = 5 ), vendor = ( "vendor" : container = 150 ), broken = ( "broken" : container = -2 ), nameless = ( <unknown> : container = 77 )"#;
        compare(&lines, &[("labels", labels)]);
        let all: Vec<String> = (1..=48).map(|number| format!("f{number} = {number}")).collect();
        compare(&lines, &[("forty_eight", &all.join(", "))]);
    }
}

/// The Rust program writes the same; a zero byte within a text does not displace the following fields.
#[test]
fn rust_records_every_kind_of_field() {
    let scene = Scene::new();
    let recording = scene.record(&["--fail-on-loss"], &[env!("CARGO_BIN_EXE_fields")]);
    recording.assert_count(15);
    let lines = recording.babeltrace();
    compare(&lines, ALIKE);
    let labels = r#"idle = ( "Idle" : container = 0 ), running = ( "Running" : container = 5 ), broken = ( "Broken" : container = -2 ), fine = ( "Fine" : container = 1 )"#;
    compare(&lines, &[("labels", labels), ("with_nul", r#"text = "a\?b", behind = 3"#)]);
    assert_eq!(payload(&lines, "sordino:mark"), r#"text = "1 marks""#);
    assert_eq!(payload(&lines, "sordino:snapshot"), r#"why = "after 1 mark""#);
}

/// Largest payload of a record, the same as `sordino::MAX_PAYLOAD`.
const LARGEST: usize = sordino::MAX_PAYLOAD;

fn record_large(scene: &Scene, options: &[&str], lengths: &[usize]) -> CompletedRecording {
    let program = scene.program("large.c");
    let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
    let command: Vec<&str> =
        std::iter::once(program.to_str().unwrap()).chain(lengths.iter().map(String::as_str)).collect();
    scene.record(options, &command)
}

/// "A record as large as allowed is there, one larger is lost and counted as too large."
#[test]
fn records_that_are_too_large_are_counted_as_that() {
    let scene = Scene::new();
    // A blob takes 2 bytes for its length, a text one for its end, each record 4 for the field before.
    let (blob, text) = (LARGEST - 6, LARGEST - 5);
    let recording = record_large(&scene, &[], &[blob, text, text + 1, 100_000, 0]);
    // Blobs: the first, 0. Texts: the first two, 0.
    assert_eq!(
        (recording.user_events(), recording.sum("too_large"), recording.lost()),
        (5, 5, 5),
        "{}",
        recording.summary
    );
    let mut lengths: Vec<i64> = recording.events().iter().map(|event| event.numbers[0]).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [0, 0, blob as i64, blob as i64, text as i64]);
    assert_eq!(recording.babeltrace_discarded(), 5);
}

/// "... so is one that does not fit into the recorder's sub-buffers", in a CPU's ring and in the shared one.
#[test]
fn records_that_no_sub_buffer_takes_are_counted_as_too_large() {
    let scene = Scene::new();
    let small = ["--subbuf-size", "16K", "--num-subbuf", "2"];
    let recording = record_large(&scene, &small, &[17_000, 10]);
    assert_eq!((recording.user_events(), recording.sum("too_large"), recording.lost()), (2, 2, 2));
    assert_eq!(recording.babeltrace_discarded(), 2);
    // Nothing but loss is news too.
    let recording = record_large(&scene, &small, &[17_000]);
    assert_eq!((recording.user_events(), recording.sum("too_large"), recording.lost()), (0, 2, 2));
    assert_eq!(recording.babeltrace_discarded(), 2);
}

/// "sordino_mark": formatted as by printf, cut, and errno left alone.
#[test]
fn marks_are_formatted_and_cut() {
    let scene = Scene::new();
    for compiler in COMPILERS {
        let program = scene.compile(compiler, "marks.c", &[]);
        let recording = scene.record(&[], &[program.to_str().unwrap()]);
        assert_eq!((recording.ended.status, recording.lost()), (0, 0));
        recording.assert_count(7);
        let (asked, marks): (Vec<RecordedEvent>, Vec<RecordedEvent>) =
            recording.events().into_iter().partition(|event| event.name == "sordino:snapshot");
        assert_eq!(asked[0].texts, ["late by 120 us"]);
        let texts: Vec<String> = marks.into_iter().flat_map(|event| event.texts).collect();
        let (formatted, quoted) = ("turn 7 of many, 12.50%", "\"quoted\" \\ and\ttab, naïve");
        assert_eq!(texts[..5], ["plain", "formatted: -7 of 99.5%", formatted, quoted, ""]);
        assert_eq!(texts[5], "m".repeat(1023));
        let listed = scene.listed(&recording.path);
        let marks = named(&listed, "sordino:mark").into_iter();
        assert_eq!(marks.map(|mark| mark["fields"]["text"].as_str().unwrap()).collect::<Vec<_>>(), texts);
        let line = &recording.babeltrace()[2];
        assert!(line.contains("sordino:mark:") && line.contains(formatted), "{line}");
    }
}
