//! Programs that mean harm, or are broken: each spoils its own trace and nothing else.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;
use support::Scene;
use support::recording::{Recording, babeltrace, events_of};

/// A well-behaved program beside them: so many events are there whatever the others do.
const GOOD: &str = "./sordino npt --prio 0 --warm-up 0 --loops 20000 --pace 10us > npt.out";
const EVENTS: u64 = 20_002;

/// Records the good program while the others of `script` run.
#[track_caller]
fn record_beside(scene: &Scene, script: &str) -> Recording {
    let recording = scene.record("trace", &["--num-subbuf", "4"], &["sh", "-c", script]);
    assert_eq!(recording.status, 0, "{}", recording.errors);
    assert!(!recording.errors.contains("panicked"), "{}", recording.errors);
    let good = recording.program("sordino");
    assert_eq!((events_of(good), &good["notes"]), (EVENTS, &Value::Array(Vec::new())));
    let (lines, complaints) = babeltrace(&recording.path.join(good["trace"].as_str().unwrap()));
    assert_eq!((lines.len() as u64, complaints.as_str()), (EVENTS, ""));
    recording
}

/// Events of the program called `name`, and losses in the listing.
fn listed(scene: &Scene, recording: &Recording, name: &str) -> (u64, usize) {
    let ended = scene.sordino(&["events", "--json", recording.name()]);
    assert!(!ended.errors.contains("panicked"), "{}", ended.errors);
    let pattern = format!("\"name\":\"{name}\"");
    let events = ended.output.lines().filter(|line| line.contains(&pattern)).count() as u64;
    (events, ended.output.lines().filter(|line| line.starts_with("{\"type\":\"loss\"")).count())
}

#[test]
fn what_only_looks_like_a_program_is_refused_with_the_reason() {
    let scene = Scene::new();
    let fake = scene.compile("fake");
    for (kind, reason) in [
        ("magic", "area"),
        ("short", "area"),
        ("version", "layout 77"),
        ("sizes", "sense"),
        ("unsealed", "seal"),
    ] {
        let mut running = scene.start(Command::new(&fake).arg(kind));
        running.says("ready");
        let pid = running.pid().to_string();
        let refused = scene.sordino(&["record", "-o", "refused", "--pid", &pid]);
        refused.failed(2, &[&pid, reason]);
        assert!(!scene.path("refused").exists());
        let listing: Value = serde_json::from_str(scene.sordino(&["list", "--json"]).succeeded()).unwrap();
        let mut programs = listing["programs"].as_array().unwrap().iter();
        let listed = programs.find(|program| program["pid"] == running.pid()).expect(kind);
        assert!(listed["problem"].as_str().is_some_and(|text| text.contains(reason)), "{listed}");
        running.signal(Signal::KILL);
        running.end();
    }
    // Who records all that can be recorded is told of those that can't.
    let recording = record_beside(&scene, &format!("./fake sizes & fake=$!; sleep 0.3; {GOOD}; kill $fake"));
    assert!(recording.notes().contains("skipped fake"), "{}", recording.notes());
}

#[test]
fn a_program_that_overwrites_its_own_rings_spoils_its_own_trace_only() {
    let scene = Scene::new();
    scene.compile("vandal");
    for part in ["control", "rings", "both"] {
        let vandals: String =
            (1..=4).map(|seed| format!("./vandal {part} {seed} 2>vandal.errors & ")).collect();
        let recording = record_beside(&scene, &format!("{vandals} {GOOD}; wait"));
        assert_eq!(recording.programs().len(), 5, "{}", recording.summary);
        let (good, losses) = listed(&scene, &recording, "npt:loop");
        assert_eq!(good, EVENTS - 2);
        scene.sordino(&["explain", recording.name()]).succeeded();
        // What was spoiled is said somewhere: by the recorder, or in the listing.
        assert!(losses > 0 || !recording.notes().is_empty(), "{}", recording.summary);
        std::fs::remove_dir_all(&recording.path).unwrap();
    }
}

#[test]
fn records_that_are_not_what_their_tracepoint_declares_are_reported() {
    let scene = Scene::new();
    scene.compile("liar");
    let recording = record_beside(&scene, &format!("./liar; {GOOD}; ./liar"));
    assert_eq!(recording.programs().len(), 3);
    let (good, losses) = listed(&scene, &recording, "npt:loop");
    assert_eq!(good, EVENTS - 2);
    assert!(losses >= 2, "{losses}");
}

#[test]
fn whoever_speaks_nonsense_to_the_recorder_or_nothing_is_sent_away() {
    let scene = Scene::new();
    scene.compile("talker");
    for kind in ["nonsense", "files", "silent"] {
        let script = format!("./talker {kind} > said & talker=$!; sleep 0.2; {GOOD}; kill $talker");
        let recording = record_beside(&scene, &script);
        assert_eq!(recording.programs().len(), 1, "{}", recording.summary);
        let said = std::fs::read_to_string(scene.path("said")).unwrap();
        assert_eq!(said, "spoken\n", "the recorder does not listen to {kind}");
        std::fs::remove_dir_all(&recording.path).unwrap();
    }
}
