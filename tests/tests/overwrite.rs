//! `record --overwrite`: nothing on disk before the end, then the newest of all, whole.

use rustix::process::Signal;
use sordino_tests::Scene;
use sordino_tests::listing::{babeltrace, name_in, named};
use sordino_tests::recording::packet_files;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Bytes of events below `path`.
fn event_bytes(path: &Path) -> u64 {
    packet_files(path).into_iter().map(|file| fs::metadata(file).unwrap().len()).sum()
}

#[test]
fn interrupted_it_has_the_newest_events_without_a_gap() {
    let scene = Scene::checked();
    let program = scene.program("steady.c");
    for ring in ["", "shared"] {
        let mut running = scene.start(Command::new(&program).env("SORDINO_RING", ring));
        running.says("ready");
        let small = ["--overwrite", "--subbuf-size", "16K", "--num-subbuf", "4"];
        let attached = scene.attach(running.pid(), &small);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(event_bytes(&attached.output), 0, "nothing is written before the end");
        let recording = attached.stop();
        assert_eq!((recording.ended.status, recording.lost(), recording.notes().as_str()), (0, 0, ""));
        // Where it was for a moment only, nothing need be overwritten.
        let overwritten = recording.program("steady-1")["streams"].as_array().unwrap();
        assert!(overwritten.iter().any(|stream| stream["overwritten"].as_u64().unwrap() > 10), "{ring}");

        let events = scene.listed(&recording.path);
        let steps = named(&events, "steady:step");
        assert_eq!(steps.len() as u64, recording.user_events());
        let (lines, complaints) = babeltrace(&recording.path.join("user"));
        assert_eq!((lines.len(), complaints.as_str()), (steps.len(), ""));
        // It may have moved to another CPU: each ring keeps its own newest.
        let cpu = &steps[steps.len() - 1]["cpu"];
        let last: Vec<i64> = steps.iter().rev().take_while(|step| step["cpu"] == *cpu).map(number).collect();
        assert!(last.is_sorted_by(|newer, older| newer - older == 1), "{ring}");
        assert!(last.len() > 400, "{}", last.len());
        running.signal(Signal::TERM);
        running.end().succeeded();
    }
}

fn number(event: &&serde_json::Value) -> i64 {
    event["fields"]["number"].as_i64().unwrap()
}

#[test]
fn a_program_that_was_killed_leaves_its_newest_events() {
    let scene = Scene::checked();
    let mut running = scene.start(&mut Command::new(scene.program("steady.c")));
    running.says("ready");
    let small = ["--overwrite", "--subbuf-size", "16K", "--num-subbuf", "2"];
    let attached = scene.attach(running.pid(), &small);
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::KILL);
    let recording = attached.end();
    assert_eq!((recording.lost(), recording.notes().as_str()), (0, ""));
    assert!(recording.user_events() > 400, "{}", recording.summary);
}

#[test]
fn the_kernels_buffers_overwrite_too_and_babeltrace_does_not_complain() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let mut running = scene.start(&mut Command::new(scene.program("steady.c")));
    running.says("ready");
    let options = ["--overwrite", "--kernel", "raw_syscalls,sched", "--kernel-buffer", "64K"];
    let attached = scene.attach(running.pid(), &options);
    for _ in 0..2000 {
        assert!(!scene.path("nothing").exists());
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(event_bytes(&attached.output), 0, "nothing is written before the end");
    let recording = attached.stop();
    assert_eq!((recording.lost(), recording.notes().as_str()), (0, ""));
    let overwritten = recording.summary["kernel"].as_array().unwrap();
    assert!(overwritten.iter().any(|cpu| cpu["overwritten"].as_u64().unwrap() > 0), "{}", recording.summary);
    let (lines, complaints) = babeltrace(&recording.path);
    assert_eq!(complaints, "");
    let added = |name: &&str| !name.contains("_statedump_") && *name != "sordino_steal";
    let recorded = lines.iter().map(|line| name_in(line)).filter(added).count() as u64;
    assert_eq!(recorded, recording.user_events() + recording.kernel_events());
    running.signal(Signal::TERM);
    running.end().succeeded();
}

#[test]
fn what_makes_no_sense_with_it_is_refused() {
    let scene = Scene::checked();
    for option in [&["--wakeup"][..], &["--busy"], &["--read-timer", "1ms"]] {
        let all = [&["record", "--overwrite"], option, &["--", "true"]].concat();
        scene.refuses(2, &["--overwrite", "cannot be used with"], &all);
    }
}
