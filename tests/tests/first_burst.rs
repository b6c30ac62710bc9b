//! A program that writes at full speed from its first hit on. Alone in its file: a session records each program of the
//! machine, and prepares an area only while there is none.

use sordino_tests::session::{Session, summary};
use sordino_tests::{Scene, wait_until};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Returns the sum of a figure over the rings of all recordings' summaries.
fn sum(recordings: &[PathBuf], field: &str) -> u64 {
    let programs =
        recordings.iter().flat_map(|path| summary(path)["programs"].as_array().cloned().unwrap_or_default());
    let streams = programs.flat_map(|program| program["streams"].as_array().cloned().unwrap_or_default());
    streams.map(|stream| stream[field].as_u64().unwrap_or(0)).sum()
}

/// "A program at full speed with default sizes, alone, from its first hit on loses no more than with rings that are
/// populated whole": what a ring has room for is recorded, though nobody can allocate it as fast as it is written.
#[test]
fn a_first_burst_that_a_ring_has_room_for_loses_nothing() {
    /// Bytes of all CPUs' rings that are prepared, and bytes of an event.
    const PREPARED: u64 = 64 << 20;
    const EVENT: u64 = 32;
    let scene = Scene::new();
    let program = scene.program("burst.c");
    let ring = (PREPARED / std::thread::available_parallelism().unwrap().get() as u64).min(32 << 20);
    let events = (ring / 8 * 7 / EVENT).to_string();
    for _ in 0..3 {
        let recording = scene.record(&[], &[program.to_str().unwrap(), "1", &events]);
        assert_eq!((recording.user_events().to_string(), recording.lost()), (events.clone(), 0));
    }
    // A session's first program, and one that comes when its predecessor is long gone.
    let session = Session::start(&scene, "first", &[]);
    let threads = format!("/proc/{}/task", session.recorder());
    let is_preparing = || {
        let mut threads = fs::read_dir(&threads).unwrap().flatten();
        threads.any(|thread| {
            fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.contains("sordino-prepar"))
        })
    };
    wait_until("the area is prepared", || {
        let used = session.status()["status"]["memory"]["used"].as_u64().unwrap();
        used >= PREPARED / 2 && !is_preparing()
    });
    assert_eq!(Session::join(&scene, Command::new(&program).args(["1", &events])).end().status, 0);
    let recordings = session.stop();
    assert_eq!((sum(&recordings, "events").to_string(), sum(&recordings, "ring_full")), (events, 0));
}
