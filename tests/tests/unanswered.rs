//! Hits before the recorder's answer: they are counted, or reported as uncounted.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sordino_ring::area::control::Program;
use sordino_ring::layout::POINTS;
use sordino_ring::number::PointId;
use sordino_tests::exchange::{area, find_area};
use sordino_tests::listing::{babeltrace, named};
use sordino_tests::running::{RunningProcess, Stopped};
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::{CompletedRecording, NOBODY, NativeCompiler, Scene, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TIMES: u64 = 100;
const HITS: &[&str] = &["--user", "unanswered:hit"];

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// A program that has hit its tracepoint while the recorder was stopped, as it still is.
fn meanwhile(scene: &Scene, recorder: i32) -> (RunningProcess, Stopped) {
    let stopped = Stopped::now(recorder);
    let mut program =
        ScopedSession::join(scene, Command::new(scene.program("unanswered.c")).arg(TIMES.to_string()));
    program.says("hit");
    (program, stopped)
}

fn end(program: RunningProcess) {
    program.signal(Signal::TERM);
    program.end().succeeded();
}

/// The hits that a program's area has counted for recorders that have not answered.
fn counted(pid: i32) -> u64 {
    let area = Program::open(&area(pid)).unwrap();
    (0..POINTS).map(|id| u64::from(area.pending().hits(PointId(id as u16)))).sum()
}

/// The unanswered hits in the session's status.
fn unanswered(session: &ScopedSession<'_>) -> Value {
    session.status()["status"]["unanswered"].clone()
}

/// A recording's unanswered losses in sordino's reader, and babeltrace2's warnings.
fn unrecorded(scene: &Scene, path: &Path) -> (Vec<Value>, String) {
    let is_loss = |event: &Value| event["cause"] == "hit before the recorder's answer";
    let losses = scene.listed(path).into_iter().filter(is_loss).collect();
    (losses, babeltrace(path).1)
}

#[test]
fn hits_before_a_late_answer_are_counted_and_those_behind_it_recorded() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "late", HITS);
    let recorder = session.recorder();
    let (mut program, stopped) = meanwhile(&scene, recorder);
    assert_eq!(counted(program.pid()), TIMES);
    drop(stopped);
    let name = session.records(program.pid())["name"].as_str().unwrap().to_owned();
    assert_eq!(unanswered(&session), json!({"hits": TIMES, "uncounted": false}));
    assert_eq!(counted(program.pid()), 0);
    let text = session.ask(&["status", "late"]).succeeded().to_owned();
    assert!(text.contains(&format!("lost {TIMES}\n")), "{text}");
    let line = format!("1 program of {name}: {TIMES} events before the recorder's answer are missing");
    assert!(text.contains(&line), "{text}");
    // Nothing is pending any more: the next hits are recorded, and not counted.
    program.signal(Signal::USR1);
    program.says("hit\nhit");
    end(program);
    let recordings = session.stop();
    let of = summary(&recordings[0]);
    let mine =
        of["programs"].as_array().unwrap().iter().find(|program| program["name"] == name.as_str()).unwrap();
    assert_eq!(mine["unanswered"], json!({"hits": TIMES, "uncounted": false}));
    let events = scene.listed(&recordings[0]);
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["fields"]["number"].as_u64()).collect();
    assert_eq!(numbers, (TIMES..2 * TIMES).collect::<Vec<_>>());
    let (losses, warnings) = unrecorded(&scene, &recordings[0]);
    assert_eq!((losses.len(), losses[0]["count"].as_u64()), (1, Some(TIMES)), "{losses:?}");
    assert!(warnings.contains(&format!("discarded {TIMES} events between")), "{warnings}");
    session.destroy();
}

/// A trace whose metadata can't be written to, until it is dropped.
struct WithoutMetadata(PathBuf, PathBuf);

impl WithoutMetadata {
    fn of(trace: &Path) -> Self {
        let (path, aside) = (trace.join("metadata"), trace.join("aside"));
        fs::rename(&path, &aside).unwrap();
        fs::create_dir(&path).unwrap();
        Self(path, aside)
    }
}

impl Drop for WithoutMetadata {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).unwrap();
        fs::rename(&self.1, &self.0).unwrap();
    }
}

/// A plug-in's tracepoints that the metadata does not have yet are not recorded: an event without a declaration would
/// make the trace unreadable. Their hits are counted until there is room for the declarations, or the program ends.
#[test]
fn hits_without_a_declaration_are_counted() {
    /// Hits of a plug-in's tracepoints: the constructor's, and three that follow.
    const FIRST: u64 = 4;
    for ends_before in [false, true] {
        let scene = Scene::new();
        let session = ScopedSession::start(&scene, "undeclared", &["--user", "opener,plugin"]);
        let plugin = scene.compile(NativeCompiler::Gcc, "plugin.c", &["-shared", "-fPIC"]);
        let mut program = ScopedSession::join(&scene, Command::new(scene.program("opener.c")).arg(plugin));
        program.says("ready");
        session.records(program.pid());
        let mut traces = fs::read_dir(session.output.join("chunk-0001/user")).unwrap();
        let without = WithoutMetadata::of(&traces.next().unwrap().unwrap().path());
        program.signal(Signal::USR1);
        program.says("hit");
        assert_eq!(counted(program.pid()), FIRST);
        let again = if ends_before {
            end(program);
            wait_until("it has been let go", || unanswered(&session)["hits"] == FIRST);
            drop(without);
            0
        } else {
            drop(without);
            wait_until("its tracepoints are declared", || unanswered(&session)["hits"] == FIRST);
            program.signal(Signal::USR1);
            program.says("hit\nhit");
            end(program);
            3
        };
        assert_eq!(unanswered(&session), json!({"hits": FIRST, "uncounted": false}));
        let recordings = session.stop();
        let events = scene.listed(&recordings[0]);
        assert_eq!(named(&events, "plugin:hit").len(), again, "{events:?}");
        // The trace of a program that ends before has no room for its loss: it is in the summary alone.
        let in_trace = (!ends_before).then_some(FIRST);
        let (losses, warnings) = unrecorded(&scene, &recordings[0]);
        assert_eq!(losses.first().and_then(|loss| loss["count"].as_u64()), in_trace, "{losses:?}");
        assert_eq!(
            warnings.contains(&format!("discarded {FIRST} events between")),
            !ends_before,
            "{warnings}"
        );
        let programs = summary(&recordings[0])["programs"].as_array().unwrap().clone();
        assert_eq!(programs[0]["unanswered"], json!({"hits": FIRST, "uncounted": false}), "{programs:?}");
        session.destroy();
    }
}

#[test]
fn hits_that_a_condition_would_have_decided_about_are_not_counted_and_said_to_be_missing() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "choosy", &["--user", "unanswered:hit if number < 5"]);
    let recorder = session.recorder();
    let (program, stopped) = meanwhile(&scene, recorder);
    drop(stopped);
    session.records(program.pid());
    assert_eq!(unanswered(&session), json!({"hits": 0, "uncounted": true}));
    assert!(session.ask(&["status", "choosy"]).succeeded().contains("lost some, not counted"));
    end(program);
    let recordings = session.stop();
    let (losses, warnings) = unrecorded(&scene, &recordings[0]);
    assert_eq!((losses.len(), &losses[0]["count"]), (1, &Value::Null), "{losses:?}");
    assert!(warnings.contains("discarded 1 packet between"), "{warnings}");
    session.destroy();
}

#[test]
fn a_snapshot_lists_the_programs_of_its_own_time() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "box", &[HITS, &["--overwrite"]].concat());
    let stopped = Stopped::now(session.recorder());
    let program = scene.program("unanswered.c");
    ScopedSession::join(&scene, Command::new(program).args(["3", "once"])).end().succeeded();
    drop(stopped);
    let missed = || session.status()["status"]["unrecorded"]["programs"].clone();
    wait_until("the program is counted", || missed() == 1);
    let unrecorded = |snapshot: &Path| summary(snapshot)["unrecorded"]["programs"].clone();
    assert_eq!(unrecorded(&session.snapshot(&[])), 1);
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(unrecorded(&session.snapshot(&["--last", "50ms"])), 0);
    assert_eq!(missed(), 1);
    session.stop();
    session.destroy();
}

#[test]
fn the_trace_of_a_program_that_ran_before_has_the_time_at_which_it_was_taken_up() {
    let scene = Scene::new();
    let mut program = scene.start(&mut Command::new(scene.program("steady.c")));
    program.says("ready");
    let attached = scene.attach(program.pid(), &["--user", "steady:*"]);
    let recording = attached.stop();
    let of = &recording.summary["programs"][0];
    let taken_up = of["taken_up_ns"].as_u64().unwrap();
    let begin = recording.summary["begin_ns"].as_u64().unwrap();
    let end = begin + recording.summary["duration_ns"].as_u64().unwrap();
    assert!((begin..=end).contains(&taken_up), "{begin} {taken_up} {end}");
    let trace = recording.path.join(of["trace"].as_str().unwrap());
    let metadata = fs::read_to_string(trace.join("metadata")).unwrap();
    assert!(metadata.contains("taken_up = "), "{metadata}");
    program.signal(Signal::TERM);
    program.end().succeeded();
    // One that waits for the recorder is recorded from its first hit on.
    let recording = record(&scene, &[], "\"$0\" 3 once");
    assert_eq!(recording.summary["programs"][0]["taken_up_ns"], Value::Null);
}

/// The same by an ordinary user: the recorder gets the area with the registration, and has it also when its process has
/// ended.
fn record_as_user(scene: &Scene, script: &str) -> CompletedRecording {
    let (program, home) = (scene.program("unanswered.c"), scene.directory_of(NOBODY, "home"));
    let record = [&["record", "--json", "-o", "one", "--fail-on-loss"], HITS].concat();
    let mut recorder = scene.command_of(NOBODY, &record);
    let ended = scene.run(recorder.args(["--", "sh", "-c", script]).arg(program).current_dir(&home));
    CompletedRecording::of(ended, home.join("one"))
}

/// Records a shell's commands; its parent is the recorder.
fn record(scene: &Scene, options: &[&str], script: &str) -> CompletedRecording {
    let program = scene.program("unanswered.c");
    let options = [&["--fail-on-loss"], HITS, options].concat();
    scene.record(&options, &["sh", "-c", script, program.to_str().unwrap()])
}

#[test]
fn a_program_that_ends_before_the_recorder_looks_is_an_uncounted_loss() {
    let scene = Scene::new();
    let recording = record(&scene, &[], "kill -STOP $PPID; \"$0\" 3 once; kill -CONT $PPID");
    assert_eq!(recording.ended.status, 1, "{}", recording.summary);
    let unrecorded = &recording.summary["unrecorded"];
    assert_eq!((unrecorded["programs"].as_u64(), unrecorded["uncounted"].as_u64()), (Some(1), Some(1)));
}

#[test]
fn a_program_that_ended_while_it_waited_has_lost_nothing() {
    let scene = Scene::new();
    let script =
        "kill -STOP $PPID; \"$0\" 3 once & sleep 0.5; kill -KILL $!; kill -CONT $PPID; \"$0\" 3 once";
    let recording = record(&scene, &[], script);
    assert_eq!(recording.ended.status, 0, "{}", recording.summary);
    assert_eq!((recording.user_events(), &recording.summary["unrecorded"]["programs"]), (3, &json!(0)));
}

#[test]
fn the_hits_of_a_program_that_has_ended_are_counted_where_its_area_is_left() {
    let Some(scene) = Scene::new().as_root() else { return };
    let recording = record_as_user(&scene, "kill -STOP $PPID; \"$0\" 3 once; kill -CONT $PPID");
    assert_eq!((recording.ended.status, recording.lost()), (1, 3), "{}", recording.summary);
    assert_eq!(
        recording.summary["unrecorded"],
        json!({"programs": 1, "hits": 3, "uncounted": 0, "unseen": false})
    );
    assert!(recording.notes().contains("it ended before it was looked at"), "{}", recording.notes());
}

#[test]
fn a_program_that_was_killed_while_it_waited_is_no_note() {
    let Some(scene) = Scene::new().as_root() else { return };
    let script =
        "kill -STOP $PPID; \"$0\" 3 once & sleep 0.5; kill -KILL $!; wait; kill -CONT $PPID; \"$0\" 3 once";
    let recording = record_as_user(&scene, script);
    assert_eq!((recording.ended.status, recording.user_events()), (0, 3), "{}", recording.summary);
    assert_eq!((recording.notes(), &recording.summary["unrecorded"]["programs"]), (String::new(), &json!(0)));
}

#[test]
fn a_program_that_is_refused_is_an_uncounted_loss() {
    let scene = Scene::new();
    let recording = record(&scene, &[], "SORDINO_RESERVE=1000000 \"$0\" 3 once");
    assert_eq!((recording.ended.status, recording.user_events()), (1, 0), "{}", recording.summary);
    let unrecorded = &recording.summary["unrecorded"];
    assert_eq!((unrecorded["programs"].as_u64(), unrecorded["uncounted"].as_u64()), (Some(1), Some(1)));
    assert!(recording.notes().contains("SORDINO_RESERVE"), "{}", recording.notes());
}

#[test]
fn nothing_stays_pending_when_the_recorder_is_killed() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "killed", HITS);
    let recorder = session.recorder();
    let _stopped = Stopped::now(recorder);
    let mut program =
        ScopedSession::join(&scene, Command::new(scene.program("unanswered.c")).arg(TIMES.to_string()));
    let pid = program.pid();
    let is_pending = |file| Program::open(&file).is_ok_and(|area| area.pending().since() > 0);
    wait_until("the program waits for the recorder", || find_area(pid).is_some_and(is_pending));
    signal(recorder, Signal::KILL);
    program.says("hit");
    assert_eq!(counted(pid), 0);
    end(program);
    drop(session);
}

#[test]
fn of_many_programs_at_once_each_is_recorded_or_said_to_be_missing() {
    const PROGRAMS: usize = 60;
    let scene = Scene::new();
    let script = format!("for i in $(seq {PROGRAMS}); do \"$0\" 3 once & done; wait");
    let recording = record(&scene, &[], &script);
    let missing = &recording.summary["unrecorded"];
    let number = |field: &str| missing[field].as_u64().unwrap();
    assert_eq!(recording.programs().len() + number("programs") as usize, PROGRAMS, "{missing}");
    let known = recording.user_events() + recording.lost();
    let unknown = 3 * number("uncounted");
    assert!((3 * PROGRAMS as u64).saturating_sub(unknown) <= known, "{known} events, {missing}");
    assert_eq!(recording.ended.status, i32::from(recording.lost() + unknown > 0), "{}", recording.summary);
}

#[test]
fn hits_are_counted_for_a_recorder_whose_queue_is_full() {
    let scene = Scene::new();
    let path = scene.path("full");
    let socket = || socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let (listener, first) = (socket(), socket());
    let address = SocketAddrUnix::new(&path).unwrap();
    bind(&listener, &address).unwrap();
    listen(&listener, 0).unwrap();
    connect(&first, &address).unwrap();
    let mut command = Command::new(scene.program("unanswered.c"));
    let mut program = scene.start(command.arg(TIMES.to_string()).env("SORDINO_SESSION", &path));
    program.says("hit");
    assert_eq!(counted(program.pid()), TIMES);
    end(program);
}
