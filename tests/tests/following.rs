//! `sordino events --follow`: each event once and in order, across polls, chunks and programs' ends.

use rustix::process::Signal;
use rustix::thread::gettid;
use serde_json::Value;
use sordino_tests::listing::items;
use sordino_tests::session::ScopedSession;
use sordino_tests::{RunningProcess, Scene, wait_until};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

const SEEKS: u64 = 20_000;

fn follow(scene: &Scene, name: &str) -> RunningProcess {
    let (variable, path) = ScopedSession::environment(scene);
    scene.start(scene.command(&["events", "--follow", name, "--json"]).env(variable, path))
}

/// Returns the result of `number` for each line that was shown so far.
fn shown<T>(running: &RunningProcess, number: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    let output = running.output();
    // The last line may be incomplete.
    match output.rfind('\n') {
        Some(end) => items(&output[..=end]).iter().filter_map(number).collect(),
        None => Vec::new(),
    }
}

fn step(event: &Value) -> Option<i64> {
    (event["name"] == "steady:step").then(|| event["fields"]["number"].as_i64())?
}

fn follow_a_session(mode: &[&str], rotate: bool) {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "shown", &[&["--user", "steady"][..], mode].concat());
    let program = scene.program("steady.c");
    let mut running = ScopedSession::join(&scene, Command::new(&program).arg("50000"));
    running.says("recorded");
    let reader = follow(&scene, "shown");
    wait_until("something is shown", || shown(&reader, step).len() > 1000);
    let refused = ScopedSession::sordino(&scene, &["events", "--follow", "shown"]);
    refused.failed(2, &["another process follows session 'shown'"]);
    if rotate {
        session.rotate();
        std::thread::sleep(Duration::from_millis(400));
        session.rotate();
    } else {
        session.snapshot(&[]);
    }
    running.signal(Signal::TERM);
    running.end().succeeded();
    // A program that begins and ends between two polls is shown, too.
    let mut brief = ScopedSession::join(&scene, Command::new(&program).arg("50000"));
    brief.says("recorded");
    brief.signal(Signal::TERM);
    brief.end().succeeded();
    wait_until("all of it is shown", || {
        let numbers = shown(&reader, step);
        std::thread::sleep(Duration::from_millis(700));
        shown(&reader, step) == numbers
    });
    let numbers = shown(&reader, step);
    let second = numbers.iter().rposition(|number| *number == 0).expect("the second program's first step");
    for numbers in [&numbers[..second], &numbers[second..]] {
        assert!(numbers.is_sorted_by(|one, next| next - one == 1), "{numbers:?}");
    }
    session.stop();
    reader.end().succeeded();
    assert!(!ScopedSession::environment(&scene).1.join("shown/live").exists());
    session.destroy();
}

#[test]
fn what_goes_to_disk_is_shown_once_and_in_order() {
    follow_a_session(&[], true);
}

#[test]
fn what_is_kept_in_memory_is_shown_once_and_in_order() {
    follow_a_session(&["--overwrite"], false);
}

#[test]
fn the_kernels_events_are_shown_once_and_in_order() {
    let Some(scene) = Scene::new().as_root() else { return };
    let kernel = ["--user", "x:x", "--kernel", "syscalls:sys_enter_lseek"];
    for (mode, name) in [(&[][..], "disk"), (&["--overwrite"], "memory")] {
        let session = ScopedSession::start(&scene, name, &[&kernel[..], mode].concat());
        let reader = follow(&scene, name);
        // No other program of the machine need seek, so this one does.
        let mut other = File::open("/dev/zero").unwrap();
        wait_until("something is shown", || {
            other.rewind().unwrap();
            !reader.output().is_empty()
        });
        let mut file = File::open("/dev/zero").unwrap();
        for offset in 0..SEEKS {
            file.seek(SeekFrom::Start(offset)).unwrap();
            match offset {
                10_000 if mode.is_empty() => _ = session.rotate(),
                _ if offset % 1000 == 0 => std::thread::sleep(Duration::from_millis(40)),
                _ => {}
            }
        }
        let (thread, descriptor) = (gettid().as_raw_nonzero().get(), file.as_raw_fd());
        let offset = |event: &Value| {
            let fields = &event["fields"];
            let is_ours = event["tid"] == thread && fields["fd"] == descriptor && fields["whence"] == 0;
            is_ours.then(|| fields["offset"].as_u64())?
        };
        wait_until("the last is shown", || shown(&reader, offset).last() == Some(&(SEEKS - 1)));
        assert_eq!(shown(&reader, offset), (0..SEEKS).collect::<Vec<_>>(), "{name}");
        session.stop();
        reader.end().succeeded();
        session.destroy();
    }
}

#[test]
fn a_follower_that_was_killed_leaves_nothing_that_piles_up() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "left", &[]);
    for _ in 0..2 {
        let reader = follow(&scene, "left");
        std::thread::sleep(Duration::from_millis(600));
        reader.signal(Signal::KILL);
        reader.end();
    }
    let place = ScopedSession::environment(&scene).1.join("left");
    let names =
        |place| fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let ours = ["control", "follower", "live", "lock", "log", "programs", "session.json"];
    assert!(names(&place).all(|name| ours.contains(&&*name)), "{:?}", names(&place).collect::<Vec<_>>());
    session.stop();
    assert!(!place.join("live").exists());
    session.destroy();
}

#[test]
fn what_is_not_selected_is_not_shown() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "some", &["--user", "steady"]);
    let mut running = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("50000"));
    running.says("recorded");
    let (variable, path) = ScopedSession::environment(&scene);
    let events = [
        "events",
        "--follow",
        "some",
        "--json",
        "--event",
        "steady:step if number % 100 == 0",
        "--where",
        "$cpu < 4096",
    ];
    let reader = scene.start(scene.command(&events).env(variable, path));
    wait_until("something is shown", || shown(&reader, step).len() > 100);
    running.signal(Signal::TERM);
    running.end().succeeded();
    let numbers = shown(&reader, step);
    assert!(numbers.iter().all(|number| number % 100 == 0) && numbers.is_sorted(), "{numbers:?}");
    session.stop();
    reader.end().succeeded();
    session.destroy();
}

#[test]
fn a_name_that_no_event_has_yet_is_said_and_waited_for() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "some", &[]);
    let (variable, path) = ScopedSession::environment(&scene);
    let events = ["events", "--follow", "some", "--json", "--event", "steady:step"];
    let reader = scene.start(scene.command(&events).env(variable, path));
    wait_until("what is not there is said", || {
        reader.errors().contains("nothing to list so far: --event 'steady:step'")
    });
    let mut running = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("50000"));
    running.says("recorded");
    wait_until("something is shown", || shown(&reader, step).len() > 100);
    running.signal(Signal::TERM);
    running.end().succeeded();
    session.stop();
    let ended = reader.end();
    ended.succeeded();
    assert_eq!(ended.errors.matches("so far").count(), 1, "{}", ended.errors);
    session.destroy();
}
