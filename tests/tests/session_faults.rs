//! Sessions when things go wrong: disks that are full, recorders that are stopped, directories that are removed, two at
//! once.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sordino_tests::disk::SmallDisk;
use sordino_tests::listing::{babeltrace, named};
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::{Scene, wait_until};
use std::fs;
use std::path::Path;
use std::process::Command;

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn chunks_in(directory: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn is_complete(path: &Path) -> bool {
    summary(path)["state"] == "finished" && babeltrace(path).1.is_empty()
}

#[test]
fn a_full_disk_ends_no_session_and_recording_goes_on_when_there_is_room() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("of-full"), "size=24m");
    let options = [
        "--user",
        "steady",
        "--subbuf-size",
        "16K",
        "--num-subbuf",
        "4",
        "--kernel",
        "syscalls:sys_enter_access",
        "--rotate-every",
        "500ms",
        "--keep",
        "3",
    ];
    let session = ScopedSession::start(&scene, "full", &options);
    let mut running = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("20000"));
    running.says("recorded");
    wait_until("a chunk is complete", || session.output.join("chunk-0002").exists());
    disk.fill_but(0);
    let notes = || session.status()["status"]["notes"].to_string();
    wait_until("it says that it can't rotate", || notes().contains("the next chunk could not be begun"));
    let unwritten = || {
        let rings = session.records(running.pid())["rings"].as_array().unwrap().clone();
        rings.iter().map(|ring| ring["unwritten"].as_u64().unwrap()).sum::<u64>()
    };
    wait_until("what it reads can't be written", || unwritten() > 0);
    let there = scene.path("there");
    wait_until("neither can the kernel's pages", || {
        (0..50_000).for_each(|_| assert!(!there.exists()));
        notes().contains("the kernel's events were not written for a while")
    });
    // One that starts now has no place for its trace yet.
    let mut late = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("20000"));
    late.says("ready");
    disk.empty();
    session.records(late.pid());
    let recordings =
        |session: &ScopedSession<'_>| session.status()["status"]["recordings"].as_array().unwrap().clone();
    let last = recordings(&session).last().unwrap()["directory"].clone();
    wait_until("another chunk was begun", || recordings(&session).last().unwrap()["directory"] != last);
    for mut program in [running, late] {
        program.says("recorded");
        program.signal(Signal::TERM);
        program.end().succeeded();
    }
    let stopped = session.ask(&["stop", "full"]);
    assert_eq!(stopped.status, 1, "{}", stopped.errors);
    assert!(stopped.output.starts_with("INCOMPLETE: could not be written: "), "{}", stopped.output);
    assert!(stopped.output.contains("the traces of "), "{}", stopped.output);
    // The file that filled the disk may have taken the room for completing a chunk.
    scene.run(scene.command(&["recover"]).arg(&session.output)).succeeded();
    let mut chunks = chunks_in(&session.output);
    chunks.sort_unstable();
    let newest = chunks.last().unwrap();
    assert_eq!(summary(newest)["state"], "finished");
    assert!(chunks.iter().all(|chunk| !named(&scene.listed(chunk), "steady:step").is_empty()));
    session.destroy();
    drop(disk);
    fs::remove_dir(scene.path("of-full")).unwrap();
}

#[test]
fn two_that_start_at_once_leave_one_session_that_works() {
    let scene = Scene::new();
    let (name, path) = ScopedSession::environment(&scene);
    let output = scene.path("of-twins");
    for _ in 0..5 {
        let start = || {
            let arguments = ["start", "twins", "-o", output.to_str().unwrap(), "--user", "steady"];
            scene.start(scene.command(&arguments).env(name, &path))
        };
        let twins = [start(), start()];
        let ended = twins.map(|twin| twin.end());
        let mut statuses = ended.each_ref().map(|ended| ended.status);
        statuses.sort_unstable();
        assert_eq!(statuses, [0, 2], "{ended:?}");
        let status: Value =
            serde_json::from_str(ScopedSession::sordino(&scene, &["status", "twins", "--json"]).succeeded())
                .unwrap();
        assert_eq!(status["sessions"][0]["state"], "running");
        ScopedSession::sordino(&scene, &["destroy", "twins"]).succeeded();
    }
}

#[test]
fn nobody_waits_for_ever_for_a_recorder_that_was_stopped() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "asleep", &[]);
    let recorder = session.recorder();
    signal(recorder, Signal::STOP);
    let status = session.status();
    for command in ["rotate", "stop"] {
        session.ask(&[command, "asleep"]).failed(2, &["no answer in time"]);
    }
    signal(recorder, Signal::CONT);
    assert_eq!(status["state"], "running");
    assert!(status["silent"].as_str().unwrap().contains("no answer in time"), "{status}");
    assert!(is_complete(&session.rotate()));
    session.destroy();
}

#[test]
fn a_session_whose_directory_was_removed_ends_and_another_one_can_have_its_name() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "lost", &["--user", "steady"]);
    let mut running = ScopedSession::join(&scene, &mut Command::new(scene.program("steady.c")));
    running.says("recorded");
    fs::remove_dir_all(ScopedSession::environment(&scene).1.join("lost")).unwrap();
    let chunk = session.output.join("chunk-0001");
    wait_until("its recording is complete", || summary(&chunk)["state"] == "finished");
    session.ask(&["start", "lost", "-o", session.output.to_str().unwrap(), "--user", "steady"]).succeeded();
    session.records(running.pid());
    running.signal(Signal::TERM);
    running.end().succeeded();
    assert_eq!(session.stop().len(), 2);
    session.destroy();
}

#[test]
fn what_fails_to_start_leaves_a_session_as_it_was() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "again", &["--user", "steady"]);
    session.stop();
    session.ask(&["start", "again", "--pid", "999999999"]).failed(2, &["no such process"]);
    session.ask(&["start", "again"]).succeeded();
    assert_eq!(session.status()["status"]["user"], serde_json::json!(["steady"]));
    session.stop();
    session.destroy();
    assert!(!scene.path("sordino-again").exists());
    let away = scene.path("away");
    fs::create_dir(&away).unwrap();
    let (name, path) = ScopedSession::environment(&scene);
    let from = |arguments: &[&str]| scene.run(scene.command(arguments).env(name, &path).current_dir(&away));
    from(&["start", "away"]).succeeded();
    ScopedSession::sordino(&scene, &["stop", "away"]).succeeded();
    fs::remove_dir_all(&away).unwrap();
    ScopedSession::sordino(&scene, &["start", "away"]).failed(2, &["away, which does not exist any more"]);
    ScopedSession::sordino(&scene, &["destroy", "away"]).succeeded();
}

#[test]
fn how_the_command_ended_is_in_the_log() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "done", &["--", "sh", "-c", "echo something; exit 3"]);
    wait_until("it has ended with its command", || session.status()["state"] == "stopped");
    let log = fs::read_to_string(ScopedSession::environment(&scene).1.join("done/log")).unwrap();
    assert!(log.contains("something") && log.contains("the command has ended, exit status: 3"), "{log}");
    session.destroy();
}
