//! Limits of sessions' snapshots and chunks, reports of a program that requests a snapshot, and programs that wait.

use rustix::process::Signal;
use sordino_tests::listing::named;
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::{Scene, wait_until};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A session with a snapshot request in each thousandth step, while there are many, and its number of snapshots at the
/// end, without the last.
fn taken(scene: &Scene, name: &str, options: &[&str]) -> usize {
    let trigger = [
        "--overwrite",
        "--user",
        "steady",
        "--trigger",
        "steady:step if number % 1000 == 0",
        "--last",
        "1ms",
    ];
    let session = ScopedSession::start(scene, name, &[&trigger[..], options].concat());
    let mut running = ScopedSession::join(scene, Command::new(scene.program("steady.c")).arg("10000"));
    running.says("recorded");
    wait_until("one is complete", || session.output.join("snapshot-0001/recording.json").exists());
    std::thread::sleep(std::time::Duration::from_secs(1));
    running.signal(Signal::TERM);
    running.end().succeeded();
    let recordings = session.stop();
    session.destroy();
    recordings.len() - 1
}

#[test]
fn one_snapshot_holds_off_the_next() {
    let scene = Scene::new();
    assert_eq!(taken(&scene, "patient", &["--hold-off", "1h"]), 1);
}

#[test]
fn programs_get_so_many_snapshots_and_no_more() {
    let scene = Scene::new();
    assert_eq!(taken(&scene, "few", &["--hold-off", "100ms", "--max-snapshots", "3"]), 3);
}

/// Records as the example in `sordino start --help`.
#[test]
fn a_long_loop_of_npt_is_in_the_snapshot_that_it_triggers() {
    let scene = Scene::new();
    let rule = "npt:loop if duration > 50us";
    let options = ["--overwrite", "--user", "npt", "--trigger", rule, "--hold-off", "1h", "--last", "10ms"];
    let session = ScopedSession::start(&scene, "gap", &options);
    // Page by page, a megabyte takes longer than that on any machine.
    let npt = ["npt", "-p", "0", "--pace", "2us", "--duration", "2s", "--faults-at", "1s"];
    ScopedSession::sordino(&scene, &npt).succeeded();
    let snapshot = session.output.join("snapshot-0001");
    assert_eq!(summary(&snapshot)["state"], "finished");
    let loops = scene.listed(&snapshot);
    let durations = named(&loops, "npt:loop").into_iter().map(|event| &event["fields"]["duration"]);
    let longest = durations.map(|duration| duration.as_u64().unwrap()).max();
    assert!(longest > Some(50_000), "{longest:?} in {}", summary(&snapshot)["reason"]);
    session.destroy();
}

#[test]
fn ends_of_programs_are_held_off_too() {
    let scene = Scene::new();
    let session =
        ScopedSession::start(&scene, "ends", &["--overwrite", "--on-exit", "any", "--hold-off", "1h"]);
    let program = scene.program("ends.c");
    for _ in 0..3 {
        ScopedSession::join(&scene, Command::new(&program).args(["exit", "1"])).end();
    }
    wait_until("all are told of", || session.status()["status"]["triggers"] == 3);
    assert_eq!(session.stop().len(), 2);
    session.destroy();
}

#[test]
fn a_snapshot_says_why_the_program_asked_for_it_though_it_ended_at_once() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "asked", &["--overwrite"]);
    ScopedSession::join(&scene, &mut Command::new(scene.program("marks.c"))).end();
    let snapshot = session.output.join("snapshot-0001");
    wait_until("it is complete", || {
        snapshot.join("recording.json").exists() && summary(&snapshot)["state"] == "finished"
    });
    assert_eq!(summary(&snapshot)["reason"], "sordino:snapshot: late by 120 us");
    assert_eq!(named(&scene.listed(&snapshot), "sordino:mark").len(), 6);
    session.destroy();
}

fn bytes(path: &Path) -> u64 {
    let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
    entries
        .map(
            |entry| {
                if entry.path().is_dir() { bytes(&entry.path()) } else { entry.metadata().unwrap().len() }
            },
        )
        .sum()
}

/// The bytes of the chunks that are left of many that may take 5 MiB together, each 1 MiB or more.
fn sizes_of_many(scene: &Scene) -> Vec<u64> {
    let options = ["--user", "steady", "--subbuf-size", "64K", "--rotate-size", "1M", "--max-size", "5M"];
    let session = ScopedSession::start(scene, "small", &options);
    let mut running = ScopedSession::join(scene, Command::new(scene.program("steady.c")).arg("10000"));
    running.says("recorded");
    wait_until("many chunks were made", || session.output.join("chunk-0009").exists());
    running.signal(Signal::TERM);
    running.end().succeeded();
    let chunks = session.stop();
    let sizes = chunks.iter().map(|chunk| bytes(chunk)).collect();
    session.destroy();
    sizes
}

#[test]
fn chunks_together_take_no_more_than_so_many_bytes() {
    // Where the disk stalled for seconds, the last chunk but one may be too large for any to stay beside the last.
    let mut tries = std::iter::repeat_with(|| sizes_of_many(&Scene::new())).take(3);
    let sizes = tries.find(|sizes| sizes.len() > 1).expect("more than one chunk in one of three tries");
    assert!(sizes.iter().sum::<u64>() <= 5 << 20, "{sizes:?}");
    // All but the last were as large as they were to be.
    let (_, whole) = sizes.split_last().unwrap();
    assert!(whole.iter().all(|size| *size >= 1 << 20), "{sizes:?}");
}

#[test]
fn programs_that_may_wait_for_a_slow_collector_lose_nothing() {
    const HITS: i64 = 20_000;
    let scene = Scene::new();
    let slow = ["--on-full", "block", "--subbuf-size", "16K", "--num-subbuf", "2", "--read-timer", "20ms"];
    let session = ScopedSession::start(&scene, "waits", &[&["--user", "hits:pair"][..], &slow].concat());
    let mut hits = Command::new(scene.program("hits.c"));
    let mut running =
        ScopedSession::join(&scene, hits.arg(HITS.to_string()).env("SORDINO_ALLOW_BLOCKING", "1"));
    running.says("ready");
    session.records(running.pid());
    running.signal(Signal::USR2);
    assert_eq!(running.end().status, 0);
    let recordings = session.stop();
    let events = scene.listed(&recordings[0]);
    let mut numbers: Vec<i64> =
        named(&events, "hits:pair").iter().map(|hit| hit["fields"]["number"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..HITS).collect::<Vec<_>>());
    session.destroy();
}
