//! Requests to a session's recorder by signals, retained snapshots, and counts of events during writing.

use rustix::process::{Pid, Signal, kill_process};
use sordino_tests::listing::{babeltrace, named};
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::{RunningProcess, Scene, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn is_complete(path: &Path) -> bool {
    path.join("recording.json").exists()
        && summary(path)["state"] == "finished"
        && babeltrace(path).1.is_empty()
}

/// A program that a session is to record alone.
fn running(scene: &Scene, pause: &str) -> RunningProcess {
    let mut running = ScopedSession::join(scene, Command::new(scene.program("steady.c")).arg(pause));
    running.says("ready");
    running
}

fn send(session: &ScopedSession<'_>, signal: Signal) {
    kill_process(Pid::from_raw(session.recorder()).unwrap(), signal).unwrap();
}

/// Ends the program, and with it the session.
fn end(session: &ScopedSession<'_>, running: RunningProcess) {
    running.signal(Signal::TERM);
    running.end().succeeded();
    wait_until("the session has ended with its program", || session.status()["state"] == "stopped");
}

#[test]
fn a_signal_to_a_flight_recorder_takes_a_snapshot_and_tells_who_sent_it() {
    let scene = Scene::new();
    let running = running(&scene, "2000");
    let pid = running.pid().to_string();
    let session = ScopedSession::start(&scene, "kicked", &["--overwrite", "--pid", &pid, "--hold-off", "1h"]);
    for (number, signal, name) in [(1, Signal::USR1, "SIGUSR1"), (2, Signal::USR2, "SIGUSR2")] {
        send(&session, signal);
        let snapshot = session.output.join(format!("snapshot-000{number}"));
        wait_until("it is complete", || is_complete(&snapshot));
        let (user, me) = (rustix::process::geteuid().as_raw(), std::process::id());
        let reason = format!("signal {name} of user {user} from process {me}");
        assert_eq!(summary(&snapshot)["reason"], reason.as_str());
    }
    let recorder = session.recorder();
    let text = session.ask(&["status", "kicked"]);
    assert!(text.succeeded().contains(&format!("recorder {recorder},")));
    (0..50).for_each(|_| kill_process(Pid::from_raw(recorder).unwrap(), Signal::USR1).unwrap());
    wait_until("another one is complete", || is_complete(&session.output.join("snapshot-0003")));
    end(&session, running);
    session.destroy();
}

#[test]
fn a_signal_to_a_session_that_writes_to_disk_begins_another_chunk_and_events_are_counted_meanwhile() {
    let scene = Scene::new();
    let running = running(&scene, "2000");
    let pid = running.pid().to_string();
    let options = ["--pid", &pid, "--user", "steady", "--subbuf-size", "16K"];
    let session = ScopedSession::start(&scene, "turned", &options);
    let present = || session.status()["status"]["recordings"].as_array().unwrap().last().unwrap().clone();
    wait_until("events are on disk", || present()["user_events_so_far"].as_u64() > Some(0));
    let before = present();
    assert!(before["events"].is_null(), "{before}");
    send(&session, Signal::USR1);
    let chunk = session.output.join("chunk-0001");
    wait_until("it is complete", || is_complete(&chunk));
    assert!(present()["directory"].as_str().unwrap().ends_with("chunk-0002"));
    let steps = named(&scene.listed(&chunk), "steady:step").len() as u64;
    assert!(Some(steps) >= before["user_events_so_far"].as_u64(), "{steps}: {before}");
    end(&session, running);
    session.destroy();
}

/// The snapshots that are ranked, oldest first, and by which value.
fn ranked(output: &Path) -> Vec<(PathBuf, i64)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort_unstable();
    let value = |path: &PathBuf| summary(path)["rank"]["value"].as_i64();
    paths.into_iter().filter_map(|path| value(&path).map(|value| (path, value))).collect()
}

/// Takes many snapshots, each with a greater value than the one before. Returns the retained ones with their values,
/// and one that was requested.
fn left(scene: &Scene, name: &str, condition: &str, most: &str) -> (Vec<(PathBuf, i64)>, PathBuf) {
    let running = running(scene, "10000");
    let pid = running.pid().to_string();
    let trigger = format!("steady:step if number % 1000 == 7 && {condition}");
    let ranked_by = ["--trigger", &trigger, "--worst", most, "--hold-off", "50ms", "--last", "1s"];
    let session =
        ScopedSession::start(scene, name, &[&["--overwrite", "--pid", &pid][..], &ranked_by].concat());
    let asked = session.snapshot(&[]);
    wait_until("many were taken", || session.output.join("snapshot-0008").exists());
    end(&session, running);
    let left = ranked(&session.output);
    session.destroy();
    (left, asked)
}

#[test]
fn the_worst_snapshots_are_kept_and_others_stay() {
    let scene = Scene::new();
    let (kept, asked) = left(&scene, "worst", "number > 0", "2");
    let [(older, less), (newer, more)] = &kept[..] else { panic!("{kept:?}") };
    assert!(less < more && less % 1000 == 7 && more % 1000 == 7, "{kept:?}");
    for (path, value) in [(older, less), (newer, more)] {
        assert!(
            is_complete(path) && path.file_name().unwrap().to_str().unwrap() > "snapshot-0003",
            "{kept:?}"
        );
        let events = scene.listed(path);
        assert!(named(&events, "steady:step").iter().any(|step| step["fields"]["number"] == *value));
    }
    assert!(asked.exists() && summary(&asked)["rank"].is_null());
}

#[test]
fn where_less_is_worse_the_first_one_is_kept() {
    let scene = Scene::new();
    let (kept, asked) = left(&scene, "least", "number < 1000000000", "1");
    assert!(kept.len() == 1 && asked.exists(), "{kept:?}");
    assert!(kept[0].0.file_name().unwrap().to_str().unwrap() <= "snapshot-0002", "{kept:?}");
}

#[test]
fn what_does_not_tell_the_worst_is_refused() {
    let scene = Scene::new();
    let refuses = |words: &[&str], arguments: &[&str]| {
        let start = ["start", "x", "--overwrite", "--worst", "2"];
        ScopedSession::sordino(&scene, &[&start[..], arguments].concat()).failed(2, words);
    };
    refuses(&["--trigger"], &[]);
    refuses(&["--by FIELD", "^"], &["--trigger", "a:b"]);
    refuses(&["--by FIELD", "^^^^^^^^^^^^^^ several"], &["--trigger", "a:b if c > 1 && d < 2"]);
    refuses(&["cannot be used with"], &["--trigger", "a:b if c > 1", "--keep", "3"]);
}
