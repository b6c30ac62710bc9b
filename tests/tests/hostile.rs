//! Programs that lie to the recorder. It reports their faults, records all others, and ends as always.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::listing::babeltrace;
use sordino_tests::recording::events_of;
use sordino_tests::{CompletedRecording, Scene};
use std::path::Path;
use std::process::Command;

const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");
/// Program that is linked with sordino and overwrites its own area.
const SPOIL: &str = env!("CARGO_BIN_EXE_spoil");
/// Events of the honest program that runs at the same time, twice for some 200 ms.
const HONEST: u64 = 40_000;

/// Returns the hostile program with its arguments except the time.
fn command(kind: &str) -> String {
    if kind == "spoil" { SPOIL.to_owned() } else { format!("{HOSTILE} {kind}") }
}

/// Records an honest program twice beside the shell's other programs: all of its events have to be there, and no note
/// may name it.
fn record_beside(scene: &Scene, options: &[&str], others: &str) -> CompletedRecording {
    let honest = scene.program("burst.c");
    let twice = format!("{0} 1 {1} 20000; sleep 0.1; {0} 1 {1} 20000", honest.display(), HONEST / 2);
    let recording = scene.record(options, &["sh", "-c", &format!("{others} {twice}; wait")]);
    let errors = &recording.ended.errors;
    assert_eq!(recording.ended.status, 0, "{others}: {errors}");
    assert!(!errors.contains("panicked"), "{others}: {errors}");
    assert_eq!(recording.summary["state"], "finished");
    let name = honest.file_name().unwrap().to_str().unwrap();
    let honest_ones = recording.programs().iter().filter(|program| program["name"] == name);
    for program in honest_ones.clone() {
        let (lines, complaints) = babeltrace(&recording.path.join(program["trace"].as_str().unwrap()));
        let count = events_of(program);
        assert_eq!((lines.len() as u64, complaints.as_str()), (count, ""), "{others}");
        assert_eq!(
            (count, program["notes"].as_array().unwrap().len()),
            (HONEST / 2, 0),
            "{others}: {program}"
        );
    }
    assert_eq!(honest_ones.count(), 2, "{others}: {}", recording.summary);
    recording
}

/// Returns the number of the honest program's events that `sordino events` lists, and the number of losses.
fn listed(scene: &Scene, recording: &CompletedRecording) -> (u64, usize) {
    let ended = scene.sordino(&["events", "--json", recording.name()]);
    assert!(!ended.errors.contains("panicked"), "{}", ended.errors);
    let events = ended.output.lines().filter(|line| line.contains("\"name\":\"burst:step\"")).count() as u64;
    (events, ended.output.lines().filter(|line| line.starts_with("{\"type\":\"loss\"")).count())
}

/// Kinds of files that look like areas, and the reason with which each is rejected.
const NO_AREAS: [(&str, &str); 12] = [
    ("magic", "no complete area"),
    ("version", "layout 99"),
    ("sizes", "makes no sense"),
    ("cpus", "makes no sense"),
    ("all-sizes", "makes no sense"),
    ("pid", "another process's"),
    ("truncated", "no complete area"),
    ("short", "no complete area"),
    ("empty", "no complete area"),
    ("unsealed", "not sealed"),
    ("huge", "no complete area"),
    ("locked", "keeps its area locked"),
];

/// "A memfd named sordino with the wrong magic, version, sizes; truncated, unsealed": a recorder that records all
/// programs reports those that it can't record.
#[test]
fn what_is_no_area_is_skipped_with_the_reason() {
    let scene = Scene::checked();
    let hostile: String = NO_AREAS.iter().map(|(kind, _)| format!("{HOSTILE} {kind} 1.5 & ")).collect();
    let recording = record_beside(&scene, &[], &hostile);
    // Programs of one reason share a note.
    let (notes, skipped) = (recording.notes(), recording.summary["skipped"].as_array().unwrap());
    for (_, reason) in NO_AREAS {
        let expected = NO_AREAS.iter().filter(|(_, other)| *other == reason).count();
        let mut reasons =
            notes.lines().filter(|note| note.contains("skipped hostile") && note.contains(reason));
        let note = reasons.next().unwrap_or_else(|| panic!("{reason}: {notes}"));
        let programs = format!(", {expected} programs: ");
        assert!(reasons.next().is_none() && (expected == 1 || note.contains(&programs)), "{reason}: {notes}");
        let has_reason = |kind: &&Value| kind["reason"].as_str().is_some_and(|text| text.contains(reason));
        let pids = skipped.iter().filter(has_reason).map(|kind| kind["pids"].as_array().unwrap().len());
        assert_eq!(pids.sum::<usize>(), expected, "{reason}: {skipped:?}");
    }
}

/// A recording of such a program in particular is rejected, and a listing names its fault.
#[test]
fn what_is_no_area_is_refused_and_listed_with_the_reason() {
    let scene = Scene::checked();
    for (kind, reason) in NO_AREAS {
        let mut program = scene.start(Command::new(HOSTILE).args([kind, "60"]));
        program.says("ready");
        let pid = program.pid().to_string();
        scene.refuses(2, &[&pid, reason], &["record", "-o", "refused", "--pid", &pid]);
        assert!(!scene.path("refused").exists());
        let listing: Value = serde_json::from_str(scene.sordino(&["list", "--json"]).succeeded()).unwrap();
        let mut programs = listing["programs"].as_array().unwrap().iter();
        let listed = programs.find(|listed| listed["pid"] == program.pid()).expect(kind);
        // A listing checks neither the area's owner nor its lock.
        let (has_reason, problem) = (!["pid", "locked"].contains(&kind), listed["problem"].as_str());
        assert!(!has_reason || problem.is_some_and(|text| text.contains(reason)), "{kind}: {listed}");
        let listing = scene.sordino(&["list"]);
        assert!(listing.succeeded().contains(&format!("({pid})")), "{kind}: {}", listing.output);
        program.signal(Signal::KILL);
        program.end();
    }
}

/// "A program that overwrites its own rings and catalogue", more tracepoints than there may be, a catalogue of a
/// gigabyte, heads that never rest: it is its own trace that suffers.
#[test]
fn programs_that_spoil_their_area_spoil_nothing_else() {
    let scene = Scene::checked();
    for kind in ["nonsense", "points", "catalogue", "ahead", "spoil"] {
        let recording = record_beside(&scene, &[], &format!("{} 0.6 &", command(kind)));
        assert!(recording.notes() != "" || kind == "ahead", "{kind}: {}", recording.summary);
    }
}

/// The same while it hits a tracepoint; the recorder or the listing reports the damage.
#[test]
fn a_program_that_overwrites_its_own_rings_spoils_its_own_trace_only() {
    let scene = Scene::checked();
    let vandal = scene.program("vandal.c");
    for part in ["control", "rings", "both"] {
        let vandals: String =
            (1..=4).map(|seed| format!("{} {part} {seed} 2>vandal.errors & ", vandal.display())).collect();
        let recording = record_beside(&scene, &["--num-subbuf", "4"], &vandals);
        assert_eq!(recording.programs().len(), 2 + 4, "{}", recording.summary);
        let (events, losses) = listed(&scene, &recording);
        assert_eq!(events, HONEST);
        scene.sordino(&["explain", "--event", "burst:step", recording.name()]).succeeded();
        assert!(losses > 0 || !recording.notes().is_empty(), "{}", recording.summary);
    }
}

/// "A program that registers with nonsense, or connects and never speaks", or does so all the time.
#[test]
fn nonsense_on_the_sessions_socket_holds_nobody_up() {
    let scene = Scene::checked();
    for kind in ["silent", "babble", "files", "flood", "versions"] {
        let recording = record_beside(&scene, &["--num-subbuf", "4"], &format!("{} 0.6 &", command(kind)));
        assert_eq!(recording.programs().len(), 2, "{kind}: {}", recording.summary);
        assert!(recording.ended.output.starts_with("ready\n"), "the recorder does not listen to {kind}");
        let is_noted = recording.notes().lines().any(|note| {
            note.starts_with("refused ") && note.contains("another version of the registration protocol")
        });
        assert_eq!(is_noted, kind == "versions", "{}", recording.notes());
    }
}

/// A recorder is stopped by Ctrl-C whatever the program does meanwhile.
#[test]
fn a_recorder_ends_when_it_is_told_to_whatever_a_program_does() {
    let scene = Scene::checked();
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
    let scene = Scene::checked();
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
    let scene = Scene::checked();
    let (mismatch, honest) = (scene.program("mismatch.c"), scene.program("burst.c"));
    let twice = format!("{0} 1000; {0} 1000 &", mismatch.display());
    let recording = record_beside(&scene, &["--num-subbuf", "4"], &twice);
    assert_eq!(recording.programs().len(), 2 + 2);
    assert!(recording.notes().contains("make no sense"), "{}", recording.notes());
    let (events, losses) = listed(&scene, &recording);
    assert_eq!(events, HONEST);
    assert!(losses >= 2, "{losses}");
    let script = format!("{} 1000; {} 1 1000", mismatch.display(), honest.display());
    let recording = scene.record(&["--fail-on-loss"], &["sh", "-c", &script]);
    assert_eq!(recording.ended.status, 1, "{}", recording.summary);
    assert!(recording.notes().contains("make no sense"), "{}", recording.notes());
    assert_eq!(events_of(recording.programs().last().unwrap()), 1000);
}

/// Programs with a valid area and invalid tracepoints are listed.
#[test]
fn programs_with_nonsense_in_their_area_are_listed() {
    let scene = Scene::checked();
    for kind in ["points", "nonsense"] {
        let program = scene.start(Command::new(HOSTILE).args([kind, "20"]));
        let pid = program.pid().to_string();
        sordino_tests::wait_until("it is listed", || {
            let listing = scene.sordino(&["list"]);
            assert_eq!(listing.status, 0, "{kind}: {}", listing.errors);
            listing.output.contains(&format!("({pid})"))
        });
    }
}
