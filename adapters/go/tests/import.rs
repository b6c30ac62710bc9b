//! Traces of real programs by several versions of Go, whole and damaged; and traces that are made here.

use proptest::prelude::*;
use sordino_ctf::{Uuid, read};
use sordino_event::{Classes, Event, LossCause, Step};
use sordino_go::{Error, ImportSummary, TraceFault, TraceOrigin, import, metadata};
use sordino_timeline::{Item, SuperTrace};
use std::collections::{BTreeMap, BTreeSet};

const PID: i32 = 4711;
const UUID: Uuid = Uuid([7; 16]);

/// Traces of small programs: 1.22, 1.24 and 1.25 with three goroutines of `main.main.func1`, 1.26 with two of
/// `main.worker`.
const REAL: [(u32, &[u8]); 5] = [
    (22, include_bytes!("../../../testdata/go/go1.22.trace")),
    (23, include_bytes!("../../../testdata/go/go1.24.trace")),
    (25, include_bytes!("../../../testdata/go/go1.25.trace")),
    (26, include_bytes!("../../../testdata/go/go1.26.trace")),
    (26, include_bytes!("../../../testdata/go/go1.26-flight.trace")),
];

/// A recording, read back.
#[derive(Debug, Default)]
struct Imported {
    summary: ImportSummary,
    /// The events: name, thread, time in nanoseconds, fields as text.
    events: Vec<(String, i32, i64, Vec<String>)>,
    losses: Vec<LossCause>,
    contradictions: Vec<String>,
}

impl Imported {
    /// Imports a trace and reads the recording as `sordino events` does. Each switch has to leave the goroutine that
    /// its thread runs.
    fn of(trace: &[u8]) -> Result<Self, Error> {
        let (summary, stream) = import(trace, UUID, Vec::new())?;
        let origin = TraceOrigin { pid: PID, ..TraceOrigin::default() };
        let text = metadata(UUID, &summary, &origin).unwrap();
        let mut classes = Classes::default();
        let streams = vec![("goroutines".into(), stream)];
        let read = read::Trace::from_memory(text.as_bytes(), streams, &mut classes).unwrap();
        let mut imported = Self { summary, ..Self::default() };
        // A file without a packet is no stream.
        let Some(stream) = read.streams().first() else { return Ok(imported) };
        let (mut reader, mut event) = (stream.events(), Event::default());
        loop {
            match reader.next(&mut event).unwrap() {
                Step::Event => imported.see(&event, &classes),
                Step::Loss(loss) => imported.losses.push(loss.cause),
                Step::End => break,
            }
        }
        assert_eq!(imported.events.len() as u64, imported.summary.records);
        let mut events = stream.events();
        let mut merged = SuperTrace::new(&classes, [|event: &mut Event| events.next(event)]);
        while let Some(item) = merged.next().unwrap() {
            if let Item::Event(moment) = item {
                imported.contradictions.extend(moment.contradiction().map(|found| found.what.to_string()));
            }
        }
        Ok(imported)
    }

    fn see(&mut self, event: &Event, classes: &Classes) {
        assert_eq!(event.pid.map(|pid| pid.0), Some(PID));
        let class = &classes[event.class];
        let field = |index| match event.text(index) {
            Some(text) => String::from_utf8(text.to_vec()).unwrap(),
            None => event.integer(index).unwrap().to_string(),
        };
        let fields = (0..class.fields.len()).map(field).collect();
        let name = class.name.strip_prefix("sordino_fiber:").unwrap().to_owned();
        self.events.push((name, event.tid.unwrap().0, event.time.0, fields));
    }

    /// Returns the numbers of the goroutines with a name.
    fn named(&self, name: &str) -> BTreeSet<&str> {
        let names = self.events.iter().filter(|(event, ..)| matches!(&**event, "new" | "rename" | "present"));
        names.filter(|(.., fields)| fields[1] == name).map(|(.., fields)| &*fields[0]).collect()
    }

    /// Replays the switches: each has to leave the goroutine that its thread runs, and to come to a known one.
    fn replay(&self) {
        let (mut running, mut known) = (BTreeMap::new(), BTreeSet::new());
        for (name, thread, _, fields) in &self.events {
            match &**name {
                "thread_enter" => assert!(running.insert(*thread, "0").is_none()),
                "new" => assert!(known.insert(&*fields[0])),
                "present" => {
                    if fields[2] == "0" {
                        assert!(known.remove(&*fields[0]), "{fields:?}");
                        continue;
                    }
                    known.insert(&*fields[0]);
                    if fields[2] == "1" {
                        assert_eq!(running.insert(*thread, &fields[0]), Some("0"));
                    }
                }
                "switch" => {
                    assert!(fields[1] == "0" || known.contains(&*fields[1]), "{fields:?}");
                    assert_eq!(running.insert(*thread, &fields[1]), Some(&*fields[0]), "{fields:?}");
                }
                "end" => assert!(known.remove(&*fields[0])),
                "wake" => assert!(!running.values().any(|fiber| *fiber == fields[0])),
                _ => {}
            }
        }
    }
}

#[test]
fn traces_of_all_versions_have_their_goroutines() {
    for (version, trace) in REAL {
        let imported = Imported::of(trace).unwrap();
        let summary = &imported.summary;
        assert_eq!((summary.version, summary.generations, &summary.end), (version, 1, &None));
        assert_eq!((summary.contradictions, &*imported.losses), (0, &[][..]));
        assert_eq!(imported.contradictions, [""; 0], "{version}");
        let workers = if version == 26 { ("main.worker", 2) } else { ("main.main.func1", 3) };
        assert_eq!(imported.named(workers.0).len(), workers.1, "{version}: {:?}", imported.events);
        assert_eq!(imported.named("main.main"), BTreeSet::from(["1"]));
        let made = imported.events.iter().filter(|(name, ..)| name == "new").count();
        let older =
            imported.events.iter().filter(|(name, .., fields)| name == "present" && fields[2] != "0").count();
        assert_eq!((summary.made, summary.older), (made as u64, older as u64));
        assert!(imported.events.is_sorted_by_key(|(_, _, time, _)| *time));
        imported.replay();
    }
}

#[test]
fn snapshots_relate_the_clock_and_older_versions_have_none() {
    for (version, trace) in REAL {
        let (summary, _) = import(trace, UUID, Vec::new()).unwrap();
        let Some([first, worst]) = summary.snapshots else {
            assert!(version < 25);
            continue;
        };
        assert!(version >= 25 && first == worst);
        // Both were read within some nanoseconds, on a machine that had run for an hour.
        assert!(worst.skew() < 64, "{worst:?}");
        let origin = TraceOrigin { pid: 1, ..TraceOrigin::default() };
        let zero = first.monotonic_zero();
        let text = metadata(UUID, &summary, &origin).unwrap();
        assert!(text.contains(&format!("offset_s = {};", zero / 1_000_000_000)), "{text}");
        assert!(!text.contains("boot_id") && !text.contains("monotonic_offset_ns"), "{text}");
    }
    let (summary, _) = import(REAL[0].1, UUID, Vec::new()).unwrap();
    let text = metadata(UUID, &summary, &TraceOrigin { pid: 1, ..TraceOrigin::default() }).unwrap();
    assert!(text.contains("offset_s = 0;") && text.contains("absolute = FALSE;"), "{text}");
    let host = Some(("boot".to_owned(), "robot".to_owned()));
    let origin = TraceOrigin { pid: 1, host, monotonic_zero: Some(5_000_000_007), ..TraceOrigin::default() };
    let text = metadata(UUID, &summary, &origin).unwrap();
    for line in ["offset_s = 5;", "offset = 7;", "boot_id = \"boot\";", "monotonic_offset_ns = 5000000007;"] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// A trace of version 1.26 that is made here.
struct Made(Vec<u8>);

/// Arguments of an event, or the fields of a batch's header.
fn integers(bytes: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        let mut rest = *value;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
}

const NO_THREAD: u64 = u64::MAX;
const CREATE: u8 = 14;
const START: u8 = 16;
const DESTROY: u8 = 17;
const STOP: u8 = 19;
const BLOCK: u8 = 20;
const UNBLOCK: u8 = 21;
const STATUS: u8 = 25;
const END: u8 = 52;

impl Made {
    fn new() -> Self {
        Self(b"go 1.26 trace\0\0\0".to_vec())
    }

    fn batch(&mut self, generation: u64, thread: u64, time: u64, data: &[u8]) -> &mut Self {
        self.0.push(1);
        integers(&mut self.0, &[generation, thread, time, data.len() as u64]);
        self.0.extend_from_slice(data);
        self
    }

    fn events(&mut self, generation: u64, thread: u64, time: u64, events: &[(u8, &[u64])]) -> &mut Self {
        let mut data = Vec::new();
        for (kind, arguments) in events {
            data.push(*kind);
            integers(&mut data, arguments);
        }
        self.batch(generation, thread, time, &data)
    }

    /// Begins a generation with its clock.
    fn begin(&mut self, generation: u64, time: u64) -> &mut Self {
        let mut data = vec![50, 8];
        integers(&mut data, &[15_625_000]);
        data.push(51);
        integers(&mut data, &[1, (time + 1) * 64 + 5, 1_000_000, 0]);
        self.batch(generation, NO_THREAD, time, &data)
    }

    fn end(&mut self) -> &mut Self {
        self.0.push(END);
        self
    }
}

/// Two generations: goroutine 5 goes from thread 10 to thread 11 and back, and thread 11 begins the second generation
/// before thread 10 does. Returns the trace, and the length of what ends with the first generation.
fn two_generations() -> (Vec<u8>, usize) {
    let mut made = Made::new();
    made.begin(1, 1000);
    made.events(1, 10, 1000, &[(STATUS, &[1, 1, 10, 2]), (CREATE, &[1, 5, 0, 0]), (BLOCK, &[1, 0, 0])]);
    made.events(1, 10, 1010, &[(START, &[20, 5, 3]), (STOP, &[30, 0, 0])]);
    made.events(1, 11, 1003, &[(START, &[1, 5, 1]), (BLOCK, &[2, 0, 0]), (UNBLOCK, &[10, 5, 2, 0])]);
    let first = made.end().0.len();
    made.begin(2, 1040);
    made.events(2, 11, 1040, &[(STATUS, &[0, 1, 0, 4]), (UNBLOCK, &[1, 1, 1, 0]), (START, &[1, 1, 2])]);
    made.events(2, 10, 1070, &[(STATUS, &[0, 5, 0, 1]), (START, &[1, 5, 1]), (DESTROY, &[5])]).end();
    (made.0, first)
}

#[test]
fn goroutines_move_between_threads_and_generations_overlap() {
    let imported = Imported::of(&two_generations().0).unwrap();
    assert_eq!((imported.summary.generations, imported.summary.contradictions), (2, 0));
    assert_eq!((imported.contradictions.len(), imported.losses.len()), (0, 0));
    imported.replay();
    let zero = 1_000_000_000_000_000 - (1001 * 64 + 5);
    let text = |(name, thread, time, fields): &(String, i32, i64, Vec<String>)| {
        format!("{} {thread} {name} {}", (time - zero) / 64, fields.join(" "))
    };
    let moves: Vec<String> = imported.events.iter().map(text).collect();
    let expected = [
        "1001 10 thread_enter Go",
        "1001 10 present 1  1",
        "1002 10 new 5 ",
        "1003 10 switch 1 0 3 ",
        "1004 11 thread_enter Go",
        "1004 11 switch 0 5 5 ",
        "1006 11 switch 5 0 3 ",
        "1016 11 wake 5 0",
        "1030 10 switch 0 5 5 ",
        // The second generation of thread 11, before the last event of the first one of thread 10.
        "1041 11 wake 1 0",
        "1042 11 switch 0 1 5 ",
        "1060 10 switch 5 0 1 ",
        "1071 10 switch 0 5 5 ",
        "1076 10 switch 5 0 4 ",
        "1076 10 end 5",
        // Goroutine 1 lives on.
        "1076 11 present 1  0",
    ];
    assert_eq!(moves, expected);
}

#[test]
fn times_that_disagree_do_not_change_the_order_of_a_goroutine() {
    let mut made = Made::new();
    made.begin(1, 1000);
    // Thread 11 starts goroutine 5 before thread 10 has made it, by its time.
    made.events(1, 10, 1000, &[(STATUS, &[1, 1, 10, 2]), (CREATE, &[9, 5, 0, 0])]);
    made.events(1, 11, 1000, &[(START, &[5, 5, 1]), (DESTROY, &[1])]).end();
    let imported = Imported::of(&made.0).unwrap();
    assert_eq!((imported.summary.contradictions, imported.contradictions.len()), (0, 0));
    imported.replay();
}

#[test]
fn events_that_follow_from_nothing_are_marked() {
    let mut made = Made::new();
    made.begin(1, 1000);
    // Nothing makes goroutine 5; goroutine 1 is on two threads.
    made.events(1, 10, 1000, &[(STATUS, &[1, 1, 10, 2]), (START, &[1, 5, 7])]);
    made.events(1, 11, 1000, &[(STATUS, &[5, 1, 11, 2]), (BLOCK, &[1, 0, 0]), (BLOCK, &[1, 0, 0])]).end();
    let imported = Imported::of(&made.0).unwrap();
    assert!(imported.summary.contradictions >= 3, "{:?}", imported.summary);
    assert!(!imported.contradictions.is_empty());
}

#[test]
fn a_trace_that_is_cut_off_has_a_marked_hole_behind_its_last_whole_generation() {
    let (whole, first) = two_generations();
    for length in 0..whole.len() {
        let imported = Imported::of(&whole[..length]);
        if length < first {
            let error = imported.unwrap_err();
            let has_header = length >= 16;
            assert_eq!(matches!(error, Error::Nothing(_)), has_header, "{length}: {error}");
            assert_eq!(matches!(error, Error::NoTrace { .. }), !has_header, "{length}: {error}");
            continue;
        }
        let imported = imported.unwrap();
        if length == first {
            // Nothing shows that there was more.
            assert_eq!(imported.summary.end, None);
            continue;
        }
        let end = imported.summary.end.unwrap();
        assert!(matches!(end.fault, TraceFault::CutInside | TraceFault::CutBehind), "{length}: {end}");
        assert_eq!(end.offset, length as u64);
        assert_eq!((imported.losses.len(), imported.summary.generations), (1, 1), "{length}");
    }
}

#[test]
fn a_real_trace_that_is_cut_anywhere_says_so() {
    for (version, trace) in REAL {
        for length in 0..trace.len() {
            let end = import(&trace[..length], UUID, Vec::new()).map(|(summary, _)| summary.end);
            assert_ne!(end.ok(), Some(None), "version {version}: {length} of {} bytes", trace.len());
        }
    }
}

#[test]
fn a_generation_that_is_missing_is_damage() {
    let mut made = Made::new();
    for generation in [1, 2, 5] {
        made.begin(generation, 1000 * generation);
        made.events(generation, 10, 1000 * generation, &[(CREATE, &[1, generation + 10, 0, 0])]).end();
    }
    let imported = Imported::of(&made.0).unwrap();
    let end = imported.summary.end.unwrap();
    assert_eq!((end.fault, imported.losses.len()), (TraceFault::Sequence { found: 5 }, 1));
    assert_eq!((imported.summary.generations, imported.summary.made), (2, 2));
}

#[test]
fn damage_of_a_thread_leaves_the_events_of_others_before_it() {
    let mut made = Made::new();
    made.begin(1, 1000);
    made.events(1, 10, 1000, &[(CREATE, &[1, 5, 0, 0]), (CREATE, &[100, 6, 0, 0])]);
    made.events(1, 11, 1050, &[(99, &[])]).end();
    let summary = Imported::of(&made.0).unwrap().summary;
    assert_eq!(
        (summary.end.map(|end| end.fault), summary.made),
        (Some(TraceFault::NoEvent { found: 99 }), 1)
    );
}

#[test]
fn times_far_behind_others_are_counted() {
    let mut made = Made::new();
    made.begin(1, 1000);
    // Goroutine 6 is started, and blocked, long before it is made.
    made.events(1, 10, 1000, &[(CREATE, &[1, 5, 0, 0]), (START, &[9, 6, 1]), (BLOCK, &[1, 0, 0])]);
    made.events(1, 11, 1 << 40, &[(CREATE, &[1, 6, 0, 0])]).end();
    let summary = Imported::of(&made.0).unwrap().summary;
    assert_eq!((summary.moved, summary.made, summary.contradictions), (2, 2, 0));
}

#[test]
fn a_goroutine_is_made_once_and_has_a_thread_for_itself() {
    let mut made = Made::new();
    made.begin(1, 1000);
    made.events(1, 10, 1000, &[(CREATE, &[1, 0, 0, 0]), (CREATE, &[1, 5, 0, 0]), (CREATE, &[1, 5, 0, 0])]);
    made.events(1, 11, 1010, &[(STATUS, &[1, 7, 11, 2]), (STATUS, &[1, 8, 11, 2])]).end();
    assert_eq!(Imported::of(&made.0).unwrap().summary.contradictions, 3);
}

#[test]
fn an_error_names_the_place_the_value_and_the_remedy() {
    let text = |trace: &[u8]| {
        let error = Imported::of(trace).unwrap_err();
        sordino_event::text::with_causes(&error)
    };
    assert_eq!(
        text(b"go 1.21 trace\0\0\0..."),
        "a trace of Go's format 1.21: expected 1.22, 1.23 (Go 1.24, too), 1.25 or 1.26; build the program with Go 1.22 or \
         later"
    );
    assert!(text(b"go 1.99 trace\0\0\0").ends_with("a later sordino-go may know it"));
    assert_eq!(
        text(b"\x7fELF"),
        "no execution trace of Go: it begins with '\\x7fELF', expected 'go 1.N trace'"
    );
    let with = |build: fn(&mut Made)| {
        let mut made = Made::new();
        build(&mut made);
        text(&made.0)
    };
    let first = "the first generation of the trace is not whole: ";
    for (found, expected) in [
        (
            with(|made| {
                made.begin(1, 1000);
            }),
            "byte 46, generation 1: the file ends here, before the end of the generation",
        ),
        (with(|made| made.0.push(9)), "byte 16, generation 0: event type 9: expected a batch"),
        (
            with(|made| {
                made.0.push(1);
                integers(&mut made.0, &[1, 10, 1000, 1 << 40]);
            }),
            "byte 16, generation 1: a batch of 1099511627776 bytes: expected at most 65536",
        ),
        (
            with(|made| {
                made.events(1, 1 << 40, 1000, &[]);
            }),
            "byte 16, generation 1: thread 1099511627776: expected a thread's id of Linux, 1 to 4194304",
        ),
        (
            with(|made| {
                made.batch(1, NO_THREAD, 1000, &[50, 8, 100]);
            }),
            "byte 34, generation 1: a clock of 100 Hz: expected 15625000, as on Linux",
        ),
    ] {
        assert_eq!(found, format!("{first}{expected}"));
    }
    // The events of a generation before its damage are imported.
    let mut made = Made::new();
    made.begin(1, 1000);
    made.events(1, 10, 1000, &[(STATUS, &[1, 1, 10, 2]), (99, &[])]).end();
    let imported = Imported::of(&made.0).unwrap();
    let end = imported.summary.end.unwrap();
    assert_eq!(
        end.to_string(),
        "byte 57, generation 1: event type 99: not one of this version in this place"
    );
    assert_eq!((imported.events.len(), imported.losses.len()), (2, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_traces_of_real_programs_are_imported_or_rejected(
        real in 0..=REAL.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        length in prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)],
    ) {
        let mut trace = REAL.get(real).map_or_else(|| two_generations().0, |(_, trace)| trace.to_vec());
        for (index, byte) in changes {
            let index = index.index(trace.len() - 16) + 16;
            trace[index] = byte;
        }
        trace.truncate(length.map_or(usize::MAX, |length| length.index(trace.len())));
        if let Ok(imported) = Imported::of(&trace) {
            prop_assert_eq!(imported.summary.end.is_some(), !imported.losses.is_empty());
        }
    }

    #[test]
    fn random_bytes_are_imported_or_rejected(
        version in prop::sample::select(vec![22, 23, 25, 26]),
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut trace = format!("go 1.{version} trace\0\0\0").into_bytes();
        trace.extend(bytes);
        let _ = Imported::of(&trace);
    }

    /// Batches with valid frames, whose events are random.
    #[test]
    fn random_events_are_imported(
        events in prop::collection::vec(
            (0..4_u64, prop::collection::vec((9..49_u8, prop::array::uniform4(0..6_u64)), 0..30)), 1..10),
    ) {
        let mut made = Made::new();
        made.begin(1, 1000);
        let counts = [3, 3, 1, 4, 3, 4, 2, 3, 1, 1, 3, 3, 4, 3, 1, 1, 4, 3, 1, 2, 3, 2, 2, 2, 3, 2, 2, 1, 2, 2, 2, 5, 3, 4, 4,
            5, 3, 3, 4, 5];
        for (thread, events) in &events {
            let mut data = Vec::new();
            for (kind, arguments) in events {
                data.push(*kind);
                let arguments = [1, arguments[0], arguments[1], arguments[2], arguments[3]];
                integers(&mut data, &arguments[..counts[usize::from(*kind) - 9]]);
            }
            made.batch(1, thread + 10, 1000, &data);
        }
        let imported = Imported::of(&made.end().0).unwrap();
        prop_assert_eq!(imported.summary.end, None);
    }
}
