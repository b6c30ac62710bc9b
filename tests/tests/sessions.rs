//! Sessions: recordings that outlive the shell, which programs join, which rotate, and of which snapshots are taken.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sordino_event::catalogue;
use sordino_ring::area::control::Program;
use sordino_ring::area::enable::EnableMask;
use sordino_tests::exchange::area;
use sordino_tests::listing::{babeltrace, named};
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::{Scene, wait_until};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The numbers of all `steady:step` of some recordings, in the order of time.
fn steps(scene: &Scene, recordings: &[PathBuf]) -> Vec<i64> {
    let of = |path: &PathBuf| -> Vec<i64> {
        named(&scene.listed(path), "steady:step").iter().map(|step| number(step)).collect()
    };
    let mut numbers: Vec<i64> = recordings.iter().flat_map(of).collect();
    numbers.sort_unstable();
    numbers
}

fn number(event: &Value) -> i64 {
    event["fields"]["number"].as_i64().unwrap()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

fn is_complete(path: &Path) -> bool {
    summary(path)["state"] == "finished" && babeltrace(path).1.is_empty()
}

/// The enable word of `steady:step` in a program.
fn word(pid: i32) -> EnableMask {
    let file = area(pid);
    let program = Program::open(&file).unwrap();
    let (points, _) = catalogue::parse(&program.catalogue(0)).unwrap();
    let (id, _) =
        points.iter().find(|(_, schema)| schema.full_name() == "steady:step").expect("the tracepoint");
    let mut word = [0; 8];
    let offset = program.capacity().points_offset() + 8 * usize::from(*id);
    File::from(file).read_exact_at(&mut word, offset as u64).unwrap();
    EnableMask(u64::from_ne_bytes(word))
}

/// A tracepoint that one session has enabled costs as much as with one session, also after there were two.
#[test]
fn a_condition_is_a_gate_again_when_the_other_session_is_gone() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "picky", &["--user", "steady:step if number < 1000"]);
    let mut running = ScopedSession::join(&scene, &mut Command::new(scene.program("steady.c")));
    running.says("recorded");
    wait_until("there is an inline filter", || word(running.pid()).has_inline_filter());
    let other = ScopedSession::start(&scene, "other", &["--user", "steady:*"]);
    wait_until("both want it", || !word(running.pid()).has_inline_filter());
    other.destroy();
    wait_until("there is an inline filter again", || word(running.pid()).has_inline_filter());
    session.does("disable", &["steady:*"]);
    wait_until("nobody wants it", || word(running.pid()) == EnableMask(0));
    running.signal(Signal::TERM);
    assert_eq!(running.end().output, "ready\nrecorded\ndone 0\n");
    session.destroy();
}

#[test]
fn a_program_that_starts_later_is_recorded_from_its_first_event_on() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "first", &["--user", "steady"]);
    let mut running = ScopedSession::join(&scene, &mut Command::new(scene.program("steady.c")));
    running.says("recorded");
    session.records(running.pid());
    running.signal(Signal::TERM);
    running.end().succeeded();
    let recordings = session.stop();
    let [chunk] = &recordings[..] else { panic!("{recordings:?}") };
    assert!(chunk.ends_with("of-first/chunk-0001") && is_complete(chunk));
    let numbers = steps(&scene, &recordings);
    // The very first hit: the tracepoint is hit for the first time while it is recorded.
    assert_eq!(numbers, (0..numbers.len() as i64).collect::<Vec<_>>());
    assert_eq!(session.status()["state"], "stopped");
    session.destroy();
}

#[test]
fn chunks_are_complete_and_together_hold_each_event_once() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "chunks", &["--user", "steady", "--rotate-every", "300ms"]);
    let mut running = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("20000"));
    running.says("recorded");
    wait_until("three chunks are there", || {
        session.status()["status"]["recordings"].as_array().unwrap().len() > 3
    });
    let asked = session.rotate();
    assert!(is_complete(&asked), "{}", summary(&asked));
    running.signal(Signal::TERM);
    running.end().succeeded();
    let recordings = session.stop();
    assert!(recordings.len() > 4 && recordings.contains(&asked), "{recordings:?}");
    assert!(recordings.iter().all(|chunk| is_complete(chunk)));
    let numbers = steps(&scene, &recordings);
    assert_eq!(numbers, (0..numbers.len() as i64).collect::<Vec<_>>());
    session.destroy();
}

#[test]
fn chunks_hold_each_event_of_the_kernel_once() {
    let Some(scene) = Scene::new().as_root() else { return };
    let session = ScopedSession::start(&scene, "kernel", &["--kernel", "syscalls:sys_enter_access"]);
    let there = scene.path("there");
    let calls = || (0..500).for_each(|_| assert!(!there.exists()));
    let mut chunks = Vec::new();
    for _ in 0..3 {
        calls();
        chunks.push(session.rotate());
    }
    calls();
    let recordings = session.stop();
    assert!(chunks.iter().all(|chunk| recordings.contains(chunk)));
    assert!(recordings.iter().all(|chunk| is_complete(chunk)));
    session.destroy();
}

#[test]
fn the_oldest_chunks_are_removed() {
    let scene = Scene::new();
    let session =
        ScopedSession::start(&scene, "kept", &["--user", "steady", "--rotate-size", "200K", "--keep", "2"]);
    let mut running = ScopedSession::join(&scene, &mut Command::new(scene.program("steady.c")));
    running.says("recorded");
    wait_until("five chunks were made", || session.output.join("chunk-0005").exists());
    running.signal(Signal::TERM);
    running.end().succeeded();
    let recordings = session.stop();
    assert_eq!(recordings.len(), 2, "{recordings:?}");
    assert!(recordings.iter().all(|chunk| is_complete(chunk)));
    session.destroy();
}

#[test]
fn snapshots_have_the_newest_events_while_recording_goes_on() {
    let scene = Scene::new();
    let small = ["--overwrite", "--user", "steady", "--subbuf-size", "64K", "--num-subbuf", "8"];
    let session = ScopedSession::start(&scene, "box", &small);
    let mut running = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("2000"));
    running.says("recorded");
    let mut newest = -1;
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(200));
        let snapshot = session.snapshot(&["--why", "a test"]);
        assert!(is_complete(&snapshot), "{}", summary(&snapshot));
        assert_eq!(summary(&snapshot)["reason"], "a test");
        let events = scene.listed(&snapshot);
        let events = named(&events, "steady:step");
        let last = events.last().expect("events");
        // It may have moved from one CPU to the other: each ring keeps its own newest.
        let on_its_cpu = events.iter().rev().take_while(|event| event["cpu"] == last["cpu"]);
        let numbers: Vec<i64> = on_its_cpu.map(|event| number(event)).collect();
        assert!(numbers.is_sorted_by(|newer, older| newer - older == 1), "a gap");
        assert!(numbers.len() > 1000 && numbers[0] > newest, "{} up to {}", numbers.len(), numbers[0]);
        newest = numbers[0];
    }
    let short = session.snapshot(&["--last", "1ms"]);
    let all = session.snapshot(&[]);
    assert!(steps(&scene, &[short]).len() < steps(&scene, &[all]).len());
    session.ask(&["rotate", "box"]).failed(2, &["sordino snapshot box"]);
    running.signal(Signal::TERM);
    running.end().succeeded();
    // It has ended, and what it left is still there.
    let after = session.snapshot(&[]);
    let after = steps(&scene, &[after]);
    assert!(after.last().is_some_and(|last| *last > newest));
    let recordings = session.stop();
    assert_eq!(recordings.len(), 7);
    assert_eq!(summary(&recordings[6])["reason"], "stop");
    session.destroy();
}

#[test]
fn an_event_that_meets_a_condition_takes_a_snapshot_with_itself_in_it() {
    let scene = Scene::new();
    let options =
        ["--overwrite", "--user", "steady", "--trigger", "steady:step if number == 30000", "--last", "1s"];
    let session = ScopedSession::start(&scene, "armed", &options);
    let mut running = ScopedSession::join(&scene, &mut Command::new(scene.program("steady.c")));
    running.says("recorded");
    wait_until("a snapshot was taken", || session.output.join("snapshot-0001/recording.json").exists());
    wait_until("it is complete", || summary(&session.output.join("snapshot-0001"))["state"] == "finished");
    let snapshot = session.output.join("snapshot-0001");
    assert_eq!(summary(&snapshot)["reason"], "steady:step");
    assert!(is_complete(&snapshot));
    assert!(steps(&scene, &[snapshot]).contains(&30_000));
    assert_eq!(session.status()["status"]["triggers"], 1);
    running.signal(Signal::TERM);
    running.end().succeeded();
    session.destroy();
}

#[test]
fn a_crash_takes_a_snapshot_and_an_orderly_end_none() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "crash", &["--overwrite", "--on-exit", "crash"]);
    let program = scene.program("steady.c");
    for (signal, snapshots) in [(Signal::TERM, 0), (Signal::ABORT, 1)] {
        let mut running = ScopedSession::join(&scene, &mut Command::new(&program));
        running.says("recorded");
        let pid = running.pid();
        running.signal(signal);
        running.end();
        wait_until("it is no longer recorded", || !session.has(pid));
        assert_eq!(session.status()["status"]["triggers"], snapshots, "{signal:?}");
    }
    let recordings = session.stop();
    let reason = summary(&recordings[0])["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("steady") && reason.ends_with("was ended by signal 6"), "{reason}");
    session.destroy();
}

#[test]
fn events_are_switched_while_recording() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "switched", &["--user", "other"]);
    let mut running = ScopedSession::join(&scene, &mut Command::new(scene.program("steady.c")));
    running.says("ready");
    session.records(running.pid());
    session.does("enable", &["steady:step if number % 1000 == 7"]);
    running.says("recorded");
    std::thread::sleep(Duration::from_millis(100));
    session.does("disable", &["steady:*"]);
    running.signal(Signal::TERM);
    assert!(running.end().succeeded().contains("done 0"));
    let numbers = steps(&scene, &session.stop());
    assert!(numbers.len() > 2 && numbers.iter().all(|number| number % 1000 == 7), "{numbers:?}");
    session.destroy();
}

#[test]
fn a_session_whose_recorder_was_killed_goes_on_when_it_is_started_again() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "killed", &["--user", "steady"]);
    let mut running = ScopedSession::join(&scene, &mut Command::new(scene.program("steady.c")));
    running.says("recorded");
    std::thread::sleep(Duration::from_millis(200));
    kill(session.recorder());
    wait_until("its death is known", || session.status()["state"] == "died");
    session.ask(&["rotate", "killed"]).failed(2, &["was killed", "sordino start killed"]);
    assert!(running.is_running());
    session.ask(&["start", "killed"]).succeeded();
    session.records(running.pid());
    running.signal(Signal::TERM);
    running.end().succeeded();
    let recordings = session.stop();
    assert_eq!(recordings.len(), 2);
    assert_eq!(summary(&recordings[0])["state"], "recovered");
    assert!(recordings.iter().all(|chunk| babeltrace(chunk).1.is_empty()));
    session.destroy();
}

#[test]
fn a_session_of_named_processes_takes_their_children_and_lets_others_go_on() {
    const CHILDREN: usize = 30;
    let scene = Scene::new();
    let (parent, ends) = (scene.program("parent.c"), scene.program("ends.c"));
    let (children, child) = (CHILDREN.to_string(), ends.to_str().unwrap());
    let mut running = ScopedSession::join(&scene, Command::new(parent).args([&children, child, "exit", "0"]));
    running.says("ready");
    let session = ScopedSession::start(
        &scene,
        "family",
        &["--pid", &running.pid().to_string(), "--subbuf-size", "16K", "--num-subbuf", "2"],
    );
    assert_eq!(ScopedSession::join(&scene, Command::new(&ends).args(["exit", "0"])).end().status, 0);
    assert_eq!(running.end().status, 0);
    wait_until("it has ended with its processes", || session.status()["state"] == "stopped");
    let summary = summary(&session.output.join("chunk-0001"));
    assert_eq!(summary["programs"].as_array().map(Vec::len), Some(1 + CHILDREN), "{summary}");
    assert_eq!((&summary["notes"], summary["state"].as_str()), (&Value::Array(Vec::new()), Some("finished")));
    session.destroy();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scene = Scene::new();
    let refuses = |words: &[&str], arguments: &[&str]| {
        ScopedSession::sordino(&scene, arguments).failed(2, words);
    };
    for command in ["snapshot", "rotate", "stop", "destroy", "status"] {
        refuses(&["no session 'nobody'", "sordino start nobody"], &[command, "nobody"]);
    }
    refuses(&["'../x'"], &["start", "../x"]);
    refuses(&["--overwrite"], &["start", "x", "--trigger", "a:b"]);
    refuses(&["cannot be used with"], &["start", "x", "--overwrite", "--rotate-size", "1M"]);
    refuses(&["a:b if c >", "^"], &["start", "x", "--overwrite", "--trigger", "a:b if c >"]);
    refuses(&["no such process"], &["start", "x", "--pid", "999999999"]);
    ScopedSession::sordino(&scene, &["start", "x", "--", "nothing-like-it"])
        .failed(127, &["nothing-like-it"]);
    let session = ScopedSession::start(&scene, "there", &[]);
    refuses(&["is recording", "sordino stop there"], &["start", "there"]);
    refuses(&["there are: there"], &["status", "nobody"]);
    refuses(&["sordino rotate there"], &["snapshot", "there"]);
    refuses(&["^"], &["enable", "there", "a:b if"]);
    refuses(&["999999999"], &["attach", "there", "999999999"]);
    session.stop();
    refuses(&["is stopped", "sordino start there"], &["rotate", "there"]);
    session.destroy();
}

/// A request to attach is answered once all named processes are attached, and names those that could not be.
#[test]
fn attach_is_answered_when_its_processes_have_been_taken_up() {
    let scene = Scene::new();
    let start = || {
        let mut running = scene.start(&mut Command::new(scene.program("steady.c")));
        running.says("ready");
        running
    };
    let [first, second, third] = [start(), start(), start()];
    let mut unlinked = scene.start(Command::new("sleep").arg("60"));
    assert!(unlinked.is_running());
    let session = ScopedSession::start(
        &scene,
        "named",
        &["--pid", &first.pid().to_string(), "--subbuf-size", "16K", "--num-subbuf", "4"],
    );
    assert!(session.has(first.pid()) && !session.has(second.pid()));
    session.does("attach", &[&second.pid().to_string()]);
    assert!(session.has(second.pid()), "{}", session.status());
    let both = [third.pid(), unlinked.pid()].map(|pid| pid.to_string());
    let refused = session.ask(&["attach", "named", &both[0], &both[1]]);
    refused.failed(2, &[&both[1], "not linked with sordino"]);
    assert!(session.has(third.pid()), "{}", session.status());
    session.does("attach", &[&second.pid().to_string()]);
    session.stop();
    for running in [first, second, third, unlinked] {
        running.signal(Signal::KILL);
        running.end();
    }
    session.destroy();
}
