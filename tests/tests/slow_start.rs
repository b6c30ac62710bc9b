//! Programs that the recorder finds long before they can be recorded, and a recorder that takes long to begin.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::Scene;
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn a_program_that_makes_its_area_slowly_is_recorded_and_not_noted_as_skipped() {
    let scene = Scene::new();
    let recording = scene.record(&[], &[scene.program("slow_start.c").to_str().unwrap()]);
    assert_eq!((recording.ended.status, recording.notes().as_str()), (0, ""));
    recording.assert_count(3);
}

/// A recorder that does not get a CPU while it prepares, as beside real-time threads, reports that, and records for the
/// requested time.
#[test]
fn a_recorder_that_begins_late_says_so_and_records_for_the_whole_time() {
    const STOPPED: Duration = Duration::from_millis(3500);
    const RECORDED: Duration = Duration::from_millis(700);
    let Some(scene) = Scene::checked().as_root() else { return };
    for number in 0..10 {
        let output = format!("late{number}");
        let options =
            ["record", "--kernel", "sched", "--no-user", "--duration", "700ms", "--json", "-o", &output];
        let recorder = scene.start(&mut scene.command(&options));
        let directory = scene.path(&output);
        let patience = Instant::now() + Duration::from_secs(10);
        while !directory.exists() && Instant::now() < patience {
            std::hint::spin_loop();
        }
        // The recorder takes the time from its preparation on, which begins behind the directory.
        std::thread::sleep(Duration::from_millis(number));
        recorder.signal(Signal::STOP);
        std::thread::sleep(STOPPED);
        recorder.signal(Signal::CONT);
        let ended = recorder.end();
        let summary: Value = serde_json::from_str(ended.succeeded()).unwrap();
        let notes = summary["notes"].to_string();
        // It may have been stopped when it recorded already.
        if notes.contains("until recording began") {
            let recorded = Duration::from_nanos(summary["duration_ns"].as_u64().unwrap());
            assert!(recorded >= RECORDED, "{recorded:?}");
            return;
        }
        let _ = fs::remove_dir_all(directory);
    }
    panic!("no recorder was stopped before it recorded");
}
