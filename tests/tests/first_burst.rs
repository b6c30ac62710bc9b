//! A program that writes at full speed from its first hit on. Alone in its file: a session records each program of the
//! machine, and prepares an area only while there is none.

use rustix::process::Signal;
use sordino_tests::session::{ScopedSession, summary};
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

/// Bytes of all CPUs' rings in a prepared area.
const PREPARED: u64 = 64 << 20;

/// Returns a session whose area for its first program is ready.
fn session_with_area<'a>(scene: &'a Scene, name: &'a str) -> ScopedSession<'a> {
    let session = ScopedSession::start(scene, name, &[]);
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
    session
}

/// Returns the bytes of a program's area that are present in the program.
fn present(pid: i32) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let mut is_area = false;
    let kib = maps.lines().filter_map(|line| {
        if line.contains('-') && line.split(' ').count() > 4 {
            is_area = line.contains("memfd:sordino");
        }
        let size = line.strip_prefix("Rss:").filter(|_| is_area)?;
        size.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    kib.sum::<u64>() << 10
}

/// "A program at full speed with default sizes, alone, from its first hit on loses no more than with rings that are
/// populated whole": everything that a ring has room for is recorded, although memory can't be allocated as fast as it
/// is written.
#[test]
fn a_first_burst_that_a_ring_has_room_for_loses_nothing() {
    /// Bytes of an event.
    const EVENT: u64 = 32;
    let scene = Scene::new();
    let program = scene.program("burst.c");
    let ring = (PREPARED / std::thread::available_parallelism().unwrap().get() as u64).min(32 << 20);
    let events = (ring / 8 * 7 / EVENT).to_string();
    for _ in 0..3 {
        let recording = scene.record(&[], &[program.to_str().unwrap(), "1", &events]);
        assert_eq!((recording.user_events().to_string(), recording.lost()), (events.clone(), 0));
    }
    // Other users' sessions prepare none.
    let Some(scene) = scene.as_root() else { return };
    let session = session_with_area(&scene, "first");
    assert_eq!(ScopedSession::join(&scene, Command::new(&program).args(["1", &events])).end().status, 0);
    let recordings = session.stop();
    assert_eq!((sum(&recordings, "events").to_string(), sum(&recordings, "ring_full")), (events, 0));
    all_becomes_present(&scene);
}

/// Checks that a program which writes later finds all that was prepared present, so that it takes no fault.
fn all_becomes_present(scene: &Scene) {
    let session = session_with_area(scene, "present");
    let mut program = ScopedSession::join(scene, Command::new(scene.program("hits.c")).arg("1"));
    program.says("ready");
    session.records(program.pid());
    wait_until("all that was prepared is present", || present(program.pid()) >= PREPARED / 8 * 7);
    program.signal(Signal::USR2);
    assert_eq!(program.end().status, 0);
    session.stop();
}
