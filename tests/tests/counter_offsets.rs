//! The offsets of the CPUs' cycle counters: measured by the recorder, subtracted by the reader.

use serde_json::{Value, json};
use sordino_tests::active::number;
use sordino_tests::listing::items;
use sordino_tests::{CompletedRecording, Scene};
use std::fs;

/// Ticks by which a counter is said to be ahead.
const AHEAD: i64 = 3_000_000;

/// Returns the CPU and the time of each event with a CPU.
fn listed(scene: &Scene, recording: &CompletedRecording, options: &[&str]) -> Vec<(i64, i64)> {
    let ended = scene.sordino(&[&["events", "--json", recording.name()], options].concat());
    let items = items(ended.succeeded());
    let events = items.iter().filter(|item| item["cpu"].is_u64() && item["name"].is_string());
    events.map(|event| (number(&event["cpu"]), number(&event["time_ns"]))).collect()
}

/// Replaces the offsets in the recording's summary. Returns what was there.
fn plant(recording: &CompletedRecording, offsets: Value) -> Value {
    let path = recording.path.join("recording.json");
    let mut summary: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let before = std::mem::replace(&mut summary["clock"]["offsets"], offsets);
    fs::write(&path, serde_json::to_vec(&summary).unwrap()).unwrap();
    before
}

fn times_of(events: &[(i64, i64)], cpu: i64) -> Vec<i64> {
    events.iter().filter(|(own, _)| *own == cpu).map(|(_, time)| *time).collect()
}

#[test]
fn a_counter_that_is_ahead_is_corrected_and_its_events_are_put_in_order() {
    let Some(scene) = Scene::checked().as_root() else { return };
    if sordino_sched::CpuList::online().unwrap().as_slice() != [0, 1] {
        return Scene::not_measured("corrected counters: this test is for CPUs 0 and 1");
    }
    let recording = scene.record(&["--kernel", "sched", "--no-user"], &["sleep", "0.2"]);
    let hertz = recording.summary["clock"]["hertz"].as_f64().unwrap();
    let measured = plant(&recording, json!([]));
    if measured.as_array().is_none_or(Vec::is_empty) {
        Scene::not_measured("offsets of the counters: other threads had the CPUs");
    }
    for offset in measured.as_array().into_iter().flatten() {
        assert!(number(&offset["cpu"]) == 1 && number(&offset["uncertainty"]) < 100_000, "{offset}");
    }

    let raw = listed(&scene, &recording, &[]);
    let sample = |at: i64, ticks: i64| json!({"at": at, "cpu": 1, "ticks": ticks, "uncertainty": 50});
    plant(&recording, json!([sample(1_000, AHEAD), sample(9_000_000_000_000_000, AHEAD)]));
    let corrected = listed(&scene, &recording, &[]);
    let shift = (AHEAD as f64 / hertz * 1e9) as i64;
    assert_eq!((corrected.len(), times_of(&corrected, 0)), (raw.len(), times_of(&raw, 0)));
    let (before, after) = (times_of(&raw, 1), times_of(&corrected, 1));
    assert!(!before.is_empty() && before.len() == after.len());
    for (before, after) in before.iter().zip(&after) {
        assert!((before - after - shift).abs() <= 1, "{before} became {after}, not {shift} ns less");
    }
    assert!(corrected.is_sorted_by_key(|(_, time)| *time), "the listing is in order of the corrected times");
    // A window is one of the corrected times.
    let (from, to) = (after[after.len() / 2], after[after.len() - 1]);
    let [from_text, to_text] =
        [from, to].map(|time| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000));
    let within = times_of(&listed(&scene, &recording, &["--from", &from_text, "--to", &to_text]), 1);
    assert_eq!(within, after[after.len() / 2..]);

    // An offset that may be none is left alone.
    plant(&recording, json!([{"at": 5, "cpu": 1, "ticks": 40, "uncertainty": 41}]));
    assert_eq!(listed(&scene, &recording, &[]), raw);
    // Offsets that no counter has.
    plant(&recording, json!([sample(1_000, 0), sample(1_001, AHEAD)]));
    scene.refuses(2, &["the offsets of CPU 1's counter", "not subtracted"], &["events", recording.name()]);
}
