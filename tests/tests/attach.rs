//! Attaching to a running program, and detaching from it.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::machine::area_kib;
use sordino_tests::{CompletedRecording, RunningProcess, Scene};
use std::process::Command;
use std::time::Duration;

/// Returns the entry of process `pid` in `sordino list --json`.
fn listed(scene: &Scene, pid: i32) -> Value {
    let listing = scene.sordino(&["list", "--json"]);
    assert_eq!(listing.status, 0, "{}", listing.errors);
    let listing: Value = serde_json::from_str(&listing.output).unwrap();
    let programs = listing["programs"].as_array().unwrap();
    programs.iter().find(|program| program["pid"] == pid).cloned().expect("the program")
}

fn start(scene: &Scene, source: &str, arguments: &[&str]) -> RunningProcess {
    let program = scene.program(source);
    let mut running = scene.start(Command::new(program).args(arguments));
    running.says("ready");
    running
}

/// "list shows it with its tracepoints, and by whom it is recorded; a second recorder records it, too; Ctrl-C leaves it
/// running, its tracepoints off, its memory given back."
#[test]
fn a_running_program_is_listed_recorded_and_let_go() {
    let scene = Scene::new();
    let mut program = start(&scene, "steady.c", &[]);
    let pid = program.pid();
    let before = listed(&scene, pid);
    assert_eq!(before["tracepoints"][0]["name"], "sordino:mark");
    assert_eq!(before["tracepoints"][1]["name"], "sordino:snapshot");
    assert_eq!(before["tracepoints"][2]["name"], "sordino:context");
    let step = &before["tracepoints"][3];
    assert_eq!((&step["name"], &step["level"]), (&"steady:step".into(), &"info".into()));
    assert_eq!(step["fields"], serde_json::json!([{ "name": "number", "type": "u64" }]));
    let file = step["file"].as_str().unwrap();
    let source = std::fs::read_to_string(file).unwrap();
    let line = 1 + source.lines().position(|line| line.starts_with("SORDINO_TRACEPOINT(steady")).unwrap();
    assert!(file.ends_with("steady.c") && step["line"] == line, "{step}");
    assert_eq!((&before["problem"], &before["recorded_by"]), (&Value::Null, &serde_json::json!([])));

    for _ in 0..3 {
        let mut attached = scene.attach(pid, &["--name", "first one", "--user", "steady:*"]);
        let first = serde_json::json!({ "name": "first one", "pid": attached.running.pid() });
        assert_eq!(listed(&scene, pid)["recorded_by"], serde_json::json!([first]));
        assert!(area_kib(pid) > 1024);
        let second = scene.attach(pid, &["--name", "second", "--user", "steady:*", "--num-subbuf", "4"]);
        let both = listed(&scene, pid)["recorded_by"].clone();
        assert_eq!((both[0]["name"].as_str(), both[1]["name"].as_str()), (Some("first one"), Some("second")));
        let text = scene.sordino(&["list"]);
        for name in ["first one", "second"] {
            assert!(text.succeeded().contains(&format!("is being recorded by '{name}'")), "{}", text.output);
        }
        let second = second.stop();
        assert_eq!((second.ended.status, second.notes().as_str()), (0, ""));
        contiguous(&second, 0);
        assert!(second.user_events() > 0);
        assert_eq!(listed(&scene, pid)["recorded_by"], serde_json::json!([first]));
        assert!(attached.running.is_running());

        program.says("recorded");
        let recording = attached.stop();
        assert_eq!((recording.ended.status, recording.notes().as_str()), (0, ""));
        contiguous(&recording, 0);
        assert!(recording.user_events() > 0);
        assert!(program.is_running());
        assert_eq!(listed(&scene, pid)["recorded_by"], serde_json::json!([]));
        assert!(area_kib(pid) < 1024, "{} KiB are still there", area_kib(pid));
    }
    program.signal(Signal::TERM);
    assert_eq!(program.end().output, "ready\nrecorded\ndone 0\n");
}

/// A program has room for eight sessions. Each gets the events that it enabled and no others; the ninth gets the names
/// of the eight.
#[test]
fn eight_sessions_record_a_program_at_once() {
    let scene = Scene::new();
    let program = start(&scene, "eight.c", &[]);
    let small = ["--subbuf-size", "64K", "--num-subbuf", "4"];
    let mut sessions = Vec::new();
    for number in 1..=8 {
        let (name, event) = (format!("s{number}"), format!("eight:event{number}"));
        sessions
            .push(scene.attach(program.pid(), &[&["--name", &name, "--user", &event], &small[..]].concat()));
    }
    let owners = sessions
        .iter()
        .zip(1..)
        .map(|(session, number)| format!("'s{number}' (process {})", session.running.pid()));
    let owners: Vec<String> = owners.collect();
    let pid = program.pid().to_string();
    let words = [
        &["8 sessions record it already", "stop one of"],
        &owners.iter().map(String::as_str).collect::<Vec<_>>()[..],
    ]
    .concat();
    scene.refuses(2, &words, &[&["record", "-o", "ninth", "--pid", &pid], &small[..]].concat());
    assert!(!scene.path("ninth").exists());

    program.signal(Signal::USR1);
    assert_eq!(program.end().status, 0);
    for (session, number) in sessions.into_iter().zip(1..) {
        let recording = session.end();
        assert_eq!((recording.ended.status, recording.notes(), recording.lost()), (0, String::new(), 0));
        let mut events = recording.events();
        events.sort_by_key(|event| event.time);
        let seen: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.numbers[0])).collect();
        let name = format!("eight:event{number}");
        assert_eq!(seen, (0..1000).map(|number| (name.as_str(), number)).collect::<Vec<_>>());
    }
}

/// Asserts that the numbers of each thread rise by one, except where records are counted as lost. `number` is the index
/// of the number among an event's integer fields.
fn contiguous(recording: &CompletedRecording, number: usize) {
    let mut events = recording.events();
    events.sort_by_key(|event| (event.tid, event.time));
    let mut missing = 0;
    for pair in events.windows(2).filter(|pair| pair[0].tid == pair[1].tid) {
        let step = pair[1].numbers[number] - pair[0].numbers[number];
        assert!(
            step > 0,
            "doubled or out of order: {} after {}",
            pair[1].numbers[number],
            pair[0].numbers[number]
        );
        missing += step as u64 - 1;
    }
    assert!(missing <= recording.lost(), "{missing} are missing, {} are counted as lost", recording.lost());
}

/// "Attach again works; 50 times", while threads write all the time; each recording is complete, in order and counted.
#[test]
fn a_program_is_attached_to_again_and_again() {
    let scene = Scene::new();
    let mut program = start(&scene, "heavy.c", &["3", "40", "2000"]);
    for round in 0..50 {
        let attached = scene.attach(program.pid(), &["--subbuf-size", "64K", "--num-subbuf", "16"]);
        std::thread::sleep(Duration::from_millis(round % 7));
        let recording = attached.stop();
        assert_eq!((recording.ended.status, recording.notes().as_str()), (0, ""));
        contiguous(&recording, 1);
        whole(&recording, 40);
        assert!(program.is_running());
    }
    assert!(area_kib(program.pid()) < 1024);
    program.signal(Signal::TERM);
    assert_eq!(program.end().output, "ready\ndone 0\n");
}

/// Asserts that each record's text has the length and the letter that its number determines.
fn whole(recording: &CompletedRecording, length: usize) {
    for event in recording.events() {
        let letter = char::from(b'a' + (event.numbers[1] % 26) as u8);
        let text = &event.texts[0];
        assert!(
            text.len() == length && text.chars().all(|c| c == letter),
            "torn: {}, {letter}, {text:.9}",
            text.len()
        );
    }
}

/// Detaching from writers that fill sub-buffer after sub-buffer and are preempted anywhere tears no record.
#[test]
fn letting_go_of_writers_in_the_middle_of_large_records_tears_nothing() {
    let scene = Scene::new();
    let program = start(&scene, "heavy.c", &["8", "6000", "0"]);
    for _ in 0..20 {
        let attached = scene.attach(program.pid(), &["--subbuf-size", "16K", "--num-subbuf", "64"]);
        let recording = attached.stop();
        assert_eq!((recording.ended.status, recording.notes().as_str()), (0, ""));
        contiguous(&recording, 1);
        whole(&recording, 6000);
        assert_eq!(recording.babeltrace_and_warnings().0.len() as u64, recording.user_events());
    }
    program.signal(Signal::TERM);
    assert_eq!(program.end().output, "ready\ndone 0\n");
}

/// "A recorder of a process that ends, ends too", and a recorder of a process without tracepoints reports that.
#[test]
fn recorders_end_with_their_programs() {
    let scene = Scene::new();
    let mut program = start(&scene, "steady.c", &[]);
    let attached = scene.attach(program.pid(), &[]);
    program.says("recorded");
    program.signal(Signal::TERM);
    assert_eq!(program.end().output, "ready\nrecorded\ndone 1\n");
    let recording = attached.end();
    assert_eq!((recording.ended.status, recording.summary["state"].as_str()), (0, Some("finished")));
    contiguous(&recording, 0);

    let pid = std::process::id().to_string();
    let refused = scene.sordino(&["record", "--pid", &pid, "-o", "nothing"]);
    assert_eq!(refused.status, 2);
    assert!(refused.errors.contains("not linked with sordino"), "{}", refused.errors);
}
