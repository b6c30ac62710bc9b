//! `sordino record` and `sordino list`: what is refused, what is passed on, who holds which program.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use support::recording::{Recording, babeltrace, named};
use support::{Scene, all_below};

#[test]
fn what_can_t_be_recorded_is_refused_before_anything_is_started() {
    let Some(scene) = Scene::as_root() else { return };
    fs::create_dir(scene.path("full")).unwrap();
    fs::write(scene.path("full/precious"), "text").unwrap();
    for (options, words) in [
        (&["--kernel", "sched_swich"][..], &["sched_swich", "did you mean sched_switch?"][..]),
        (&["--kernel", "nothing_like_that"], &["no kernel event matches 'nothing_like_that'"]),
        (&["--kernel", "sched_switch if nothing == 1"], &["sched:sched_switch", "Field not found", "^"]),
        (&["--kernel", "sched,"], &["a name is empty"]),
        (&["--kernel", "sched", "--kernel-buffer", "1K"], &["--kernel-buffer", "64K to 4G"]),
        (
            &["--kernel", "sched", "--kernel-tid", "2147483647"],
            &["--kernel-tid 2147483647", "no such thread"],
        ),
        (&["--subbuf-size", "3M"], &["--subbuf-size 3145728", "16384 to 268435456 bytes"]),
        (&["--subbuf-size", "99999999999G"], &["--subbuf-size", "is no size"]),
        (&["--num-subbuf", "0"], &["--num-subbuf 0", "2 to 4096"]),
        (&["--cpus", "0-4095"], &["--cpus 0-4095", "not online"]),
        (&["--read-timer", "1h"], &["--read-timer", "1us to 20ms"]),
        (&["--collector-cpu", "4095"], &["can't run on CPU 4095"]),
        (&["--duration", "5"], &["--duration", "time unit"]),
        (&["--user", "a["], &["--user 'a['", "']'"]),
        (&["--as", "nobody-at-all"], &["no user 'nobody-at-all'"]),
        (&["-o", "full"], &["full is not empty", "-o"]),
        (&["-o", "/proc/nothing"], &["can't write to /proc/nothing"]),
    ] {
        let output = if options.contains(&"-o") { &[][..] } else { &["-o", "trace"] };
        let command = ["--", "touch", "started"];
        scene.refuses(2, words, &[&["record"], output, options, &command].concat());
        assert!(!scene.path("started").exists(), "{options:?}");
        assert!(!scene.path("trace").exists(), "{options:?}");
    }
    for pid in ["2147483647", "0"] {
        scene.refuses(2, &[pid], &["record", "-o", "trace", "--pid", pid]);
        assert!(!scene.path("trace").exists());
    }
    assert_eq!(all_below(&scene.path("full")), [scene.path("full/precious")]);
}

#[test]
fn the_commands_status_is_passed_on_and_its_marks_are_recorded() {
    let scene = Scene::new();
    let program = scene.compile("marks");
    let program = program.to_str().unwrap();
    for (how, number, status) in [("exit", "0", 0), ("exit", "255", 255), ("signal", "9", 137)] {
        let name = format!("{how}{number}");
        let recording = scene.record(&name, &[], &[program, how, number]);
        assert_eq!((recording.status, recording.user_events(), recording.lost()), (status, 3, 0));
        let events = scene.listed(&name);
        let marks = named(&events, "sordino:mark").into_iter();
        let texts: Vec<&str> = marks.map(|event| event["fields"]["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["plain", "turn 7 of many, 12.50%", "\"quoted\" \\ and\ttab, naïve"]);
        let (lines, complaints) = babeltrace(&recording.path.join("user"));
        assert_eq!((lines.len(), complaints.as_str()), (3, ""));
        assert!(lines[1].contains("sordino:mark:") && lines[1].contains("turn 7 of many, 12.50%"));
    }
    fs::write(scene.path("text"), "no program").unwrap();
    fs::set_permissions(scene.path("text"), Permissions::from_mode(0o644)).unwrap();
    let not_found = |command: &str, words: &[&str]| {
        scene.refuses(127, words, &["record", "-o", "none", "--", command]);
        assert!(!scene.path("none").exists());
    };
    not_found("no-such-command", &["no-such-command: command not found"]);
    not_found("./nothing", &["./nothing", "No such file"]);
    not_found("./text", &["./text", "ermission denied"]);
}

#[test]
fn a_program_has_one_recorder_at_a_time_and_is_listed_with_it() {
    let scene = Scene::new();
    let program = scene.compile("steady");
    let mut running = scene.start(&mut Command::new(program));
    running.says("ready");
    let pid = running.pid();
    let listed = || {
        let listing: Value = serde_json::from_str(scene.sordino(&["list", "--json"]).succeeded()).unwrap();
        let programs = listing["programs"].as_array().unwrap();
        programs.iter().find(|program| program["pid"] == pid).cloned().expect("the program")
    };
    let before = listed();
    let tracepoints = before["tracepoints"].as_array().unwrap();
    let step = tracepoints.iter().find(|point| point["name"] == "steady:step").expect("the tracepoint");
    assert_eq!((&step["level"], &step["fields"][0]["name"]), (&"info".into(), &"number".into()));
    assert!(step["file"].as_str().unwrap().ends_with("steady.c") && step["line"] == 5, "{step}");
    assert_eq!((&before["problem"], &before["recorded_by"]), (&Value::Null, &Value::Null));

    for turn in 0..3 {
        let name = format!("trace{turn}");
        let mut recorder = scene.attach(&name, pid, &["--name", "the first", "--user", "steady:*"]);
        assert_eq!(
            listed()["recorded_by"],
            serde_json::json!({ "name": "the first", "pid": recorder.pid() })
        );
        let text = scene.sordino(&["list"]);
        assert!(text.succeeded().contains("is being recorded by 'the first'"), "{}", text.output);
        let second = ["record", "-o", "second", "--pid", &pid.to_string()];
        scene.refuses(2, &["already recorded by session 'the first'"], &second);
        assert!(!scene.path("second").exists());
        assert!(recorder.is_running());
        let ended = recorder.interrupt();
        let recording = Recording::of(scene.path(&name), &ended);
        assert_eq!((recording.status, recording.notes().as_str()), (0, ""));
        assert!(recording.user_events() > 0);
        assert!(running.is_running());
        assert_eq!(listed()["recorded_by"], Value::Null);
    }
    running.signal(Signal::TERM);
    running.end().succeeded();
}

#[test]
fn the_kernels_events_are_listed_for_root_and_their_absence_is_explained_to_others() {
    let Some(scene) = Scene::as_root() else { return };
    let groups = scene.sordino(&["list"]);
    let sched = groups.succeeded().lines().find(|line| line.trim().starts_with("sched ")).expect("sched");
    let count: usize = sched.split_whitespace().nth(1).unwrap().parse().unwrap();
    let each = scene.sordino(&["list", "-v"]);
    assert_eq!(each.succeeded().lines().filter(|line| line.starts_with("  sched:")).count(), count);
    let json: Value = serde_json::from_str(scene.sordino(&["list", "--json"]).succeeded()).unwrap();
    let events = json["kernel"]["events"].as_array().unwrap();
    let of_sched = events.iter().filter(|event| event.as_str().unwrap().starts_with("sched:"));
    assert_eq!((of_sched.count(), &json["kernel"]["problem"]), (count, &Value::Null));
    let ended = scene.run(&mut scene.command_of_nobody(&["list", "--json"]));
    let json: Value = serde_json::from_str(ended.succeeded()).unwrap();
    assert_eq!(json["kernel"]["events"].as_array().unwrap().len(), 0);
    assert!(json["kernel"]["problem"].as_str().is_some_and(|text| text.contains("root")), "{json}");
    assert!(json["hidden_processes"].as_u64().is_some_and(|count| count > 0));
}
