//! Programs that lie to the recorder. It says what is wrong with them, records all others, and ends as always.

use rustix::process::Signal;
use sordino_tests::{Recording, Scene};
use std::path::Path;
use std::process::Command;

const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");
/// Is linked with sordino and overwrites its own area.
const SPOIL: &str = env!("CARGO_BIN_EXE_spoil");
/// Events of the honest program that runs at the same time.
const HONEST: u64 = 20_000;

/// The program of that kind, and its arguments but for the time.
fn command(kind: &str) -> String {
    if kind == "spoil" { SPOIL.to_owned() } else { format!("{HOSTILE} {kind}") }
}

/// Records a hostile program of that kind, and beside it an honest one, all of whose events have to be there.
fn record_beside(scene: &Scene, honest: &Path, kind: &str) -> Recording {
    let hostile = command(kind);
    let script = format!(
        "{hostile} 0.6 & {} 1 {}; sleep 0.3; {} 1 {}; wait",
        honest.display(),
        HONEST / 2,
        honest.display(),
        HONEST / 2,
    );
    let recording = scene.record(&[], &["sh", "-c", &script]);
    assert_eq!(recording.ended.status, 0, "{kind}: {}", recording.ended.errors);
    assert!(!recording.ended.errors.contains("panicked"), "{kind}: {}", recording.ended.errors);
    assert_eq!(recording.summary["state"], "finished");
    let honest_ones = recording.programs().iter().filter(|program| program["name"] == "burst-1");
    let streams = honest_ones.flat_map(|program| program["streams"].as_array().unwrap());
    let events: u64 = streams.map(|stream| stream["events"].as_u64().unwrap_or(0)).sum();
    assert_eq!(events, HONEST, "{kind}: {}", recording.summary);
    recording
}

/// "A memfd named sordino with the wrong magic, version, sizes; truncated, unsealed": the reason is noted.
#[test]
fn what_is_no_area_is_skipped_with_the_reason() {
    let scene = Scene::new();
    let honest = scene.program("burst.c");
    for (kind, reason) in [
        ("magic", "no complete area"),
        ("version", "layout 99"),
        ("sizes", "makes no sense"),
        ("cpus", "makes no sense"),
        ("pid", "another process's"),
        ("truncated", "no complete area"),
        ("empty", "no complete area"),
        ("unsealed", "not sealed"),
        ("huge", "no complete area"),
        ("locked", "keeps its area locked"),
    ] {
        let recording = record_beside(&scene, &honest, kind);
        assert!(recording.notes().contains(reason), "{kind}: {}", recording.summary);
        assert!(recording.notes().contains("skipped hostile"), "{kind}: {}", recording.summary);
    }
}

/// "A program that overwrites its own rings and catalogue", more tracepoints than there may be, a catalogue of a gigabyte, heads
/// that never rest: it is its own trace that suffers.
#[test]
fn programs_that_spoil_their_area_spoil_nothing_else() {
    let scene = Scene::new();
    let honest = scene.program("burst.c");
    for kind in ["nonsense", "points", "catalogue", "ahead", "spoil"] {
        let recording = record_beside(&scene, &honest, kind);
        assert!(recording.notes() != "" || kind == "ahead", "{kind}: {}", recording.summary);
    }
}

/// "A program that announces itself with nonsense, or connects and never speaks", or does so all the time.
#[test]
fn nonsense_on_the_sessions_socket_holds_nobody_up() {
    let scene = Scene::new();
    let honest = scene.program("burst.c");
    for kind in ["silent", "babble", "flood"] {
        record_beside(&scene, &honest, kind);
    }
}

/// A recorder is stopped by Ctrl-C whatever the program does meanwhile.
#[test]
fn a_recorder_ends_when_it_is_told_to_whatever_a_program_does() {
    let scene = Scene::new();
    for kind in ["ahead", "flood", "spoil", "silent", "locked"] {
        let (mut recorder, output) = scene.recorder(&["--subbuf-size", "16K", "--num-subbuf", "4", "--"]);
        let mut running = scene.start(recorder.args(command(kind).split(' ')).arg("200"));
        let begun = || output.join("recording.json").exists();
        sordino_tests::wait_until("the recording has begun", begun);
        std::thread::sleep(std::time::Duration::from_millis(700));
        assert!(running.is_running());
        running.signal(Signal::INT);
        let ended = running.end();
        assert!(!ended.errors.contains("panicked"), "{kind}: {}", ended.errors);
        assert!(ended.errors.contains("still running") || ended.status == 0, "{kind}: {}", ended.errors);
        // The command runs on, as it does after any Ctrl-C to the recorder alone.
        end_of(&[HOSTILE, SPOIL]);
    }
}

/// A program whose memory never comes holds up the recorder for a moment and no longer.
#[test]
fn a_program_whose_pages_never_come_does_not_hang_the_recorder() {
    let scene = Scene::new();
    let mut program = scene.start(&mut Command::new(scene.program("stuck.c")));
    program.says("ready");
    let recording = scene.attach(program.pid(), &["--subbuf-size", "1M", "--duration", "100ms"]).end();
    assert!(recording.notes().contains("could not be made present (timed out)"), "{}", recording.notes());
    assert!(program.is_running());
}

/// Ends the processes that execute one of `programs`; only these tests start them.
fn end_of(programs: &[&str]) {
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        if std::fs::read_link(entry.path().join("exe"))
            .is_ok_and(|executed| programs.iter().any(|program| executed == Path::new(program)))
        {
            let pid =
                entry.file_name().to_string_lossy().parse().ok().and_then(rustix::process::Pid::from_raw);
            let _ = rustix::process::kill_process(pid.unwrap(), Signal::KILL);
        }
    }
}

/// "Records that don't match their schema: reported; the others' events are all there."
#[test]
fn records_that_are_not_what_they_say_are_reported() {
    let scene = Scene::new();
    let (mismatch, honest) = (scene.program("mismatch.c"), scene.program("burst.c"));
    let script = format!("{} 1000; {} 1 1000", mismatch.display(), honest.display());
    let recording = scene.record(&["--fail-on-loss"], &["sh", "-c", &script]);
    assert_eq!(recording.ended.status, 1, "{}", recording.summary);
    assert!(recording.notes().contains("make no sense"), "{}", recording.notes());
    let last = recording.programs().last().unwrap();
    let events: u64 =
        last["streams"].as_array().unwrap().iter().map(|stream| stream["events"].as_u64().unwrap()).sum();
    assert_eq!(events, 1000);
}

/// `sordino list` looks at the same programs.
#[test]
fn listing_hostile_programs_says_what_is_wrong_with_them() {
    let scene = Scene::new();
    for kind in ["magic", "huge", "points", "locked", "nonsense"] {
        let program = scene.start(Command::new(HOSTILE).args([kind, "20"]));
        let pid = program.pid().to_string();
        sordino_tests::wait_until("it is listed", || {
            let listing = scene.sordino(&["list"]);
            assert_eq!(listing.status, 0, "{kind}: {}", listing.errors);
            listing.output.contains(&format!("({pid})"))
        });
    }
}
