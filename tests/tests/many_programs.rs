//! Many programs, one after the other and at once.

use rustix::process::Signal;
use sordino_ring::area::control::Program;
use sordino_tests::exchange::find_area;
use sordino_tests::recording::events_of;
use sordino_tests::running::Stopped;
use sordino_tests::session::ScopedSession;
use sordino_tests::{CompletedRecording, NOBODY, Scene, wait_until};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Returns the files of a process's descriptors.
fn descriptors(pid: i32) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()).collect()
}

/// Waits until a recorder has released the programs that have ended: all processes but its command, which starts them.
fn wait_until_let_go(recorder: i32) {
    let is_process = |path: &&PathBuf| path.to_string_lossy().contains("[pidfd]");
    let held = || descriptors(recorder).iter().filter(is_process).count();
    wait_until("the command alone is held", || held() == 1);
}

/// Returns the number of a process's open descriptors, and its resident memory in KiB.
fn size_of_process(pid: i32) -> (usize, u64) {
    let descriptors = descriptors(pid).len();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    (descriptors, line.trim().trim_end_matches(" kB").parse().unwrap_or(0))
}

/// "Descriptor or memory leaks of the recorder: 500 programs that start and end."
#[test]
fn the_recorder_does_not_grow_with_programs_that_have_ended() {
    const PROGRAMS: usize = 500;
    let scene = Scene::new();
    let program = scene.program("ends.c");
    let go_on = scene.path("go-on");
    let (early, late) = (scene.path("early"), scene.path("late"));
    // The shell prints its progress and waits until the test has checked the recorder.
    let script = format!(
        "for i in $(seq {PROGRAMS}); do {} exit 0; \
         [ $i = 50 ] && {{ touch {}; while [ ! -e {}1 ]; do sleep 0.01; done; }}; done; \
         touch {}; while [ ! -e {}2 ]; do sleep 0.01; done",
        program.display(),
        early.display(),
        go_on.display(),
        late.display(),
        go_on.display(),
    );
    let (mut recorder, output) = scene.recorder(&["--subbuf-size", "64K", "--num-subbuf", "4"]);
    let running = scene.start(recorder.args(["--", "sh", "-c", &script]));
    wait_until("fifty have ended", || early.exists());
    wait_until_let_go(running.pid());
    let before = size_of_process(running.pid());
    fs::write(format!("{}1", go_on.display()), "").unwrap();
    wait_until("all have ended", || late.exists());
    wait_until_let_go(running.pid());
    let after = size_of_process(running.pid());
    fs::write(format!("{}2", go_on.display()), "").unwrap();
    let recording = CompletedRecording::of(running.end(), output);
    assert_eq!((recording.programs().len(), recording.user_events() as usize), (PROGRAMS, PROGRAMS));
    // One more while it walks through /proc.
    assert!(after.0 <= before.0 + 1, "{} descriptors, {}", before.0, after.0);
    assert!(after.1 < before.1 + 4096, "{} KiB, {} KiB", before.1, after.1);
    assert_eq!(recording.babeltrace().len(), PROGRAMS);
}

/// Programs that do not register are found while they run, whenever they start: a recorder looks every 100 ms.
#[test]
fn programs_that_do_not_register_are_found_while_they_run() {
    const PROGRAMS: usize = 100;
    let scene = Scene::new();
    let (parent, late) = (scene.program("parent.c"), scene.program("late.c"));
    let mut program = scene.start(Command::new(parent).arg(PROGRAMS.to_string()).arg(late).arg("1000"));
    program.says("ready");
    let recording = scene.attach(program.pid(), &["--subbuf-size", "16K", "--num-subbuf", "2"]).end();
    assert_eq!(program.end().status, 0);
    let counts = recording.counts();
    assert_eq!(
        (counts["parent:started"], counts["late:step"]),
        (PROGRAMS, 10 * PROGRAMS),
        "{}",
        recording.notes()
    );
}

/// "Limits of descriptors: the session lives, the honest ones are recorded, the rest is counted and said": a recorder
/// that may have 40 descriptors, and more programs at once than it has descriptors for.
#[test]
fn a_recorder_with_few_descriptors_lives_and_tells_of_those_that_it_can_not_record() {
    const LIMIT: usize = 40;
    const PROGRAMS: u64 = 30;
    const HITS: u64 = 3;
    let Some(scene) = Scene::new().as_root() else { return };
    let (program, home) = (scene.program("unanswered.c"), scene.directory_of(NOBODY, "home"));
    // All of the crowd live until each has hit its tracepoints; one more comes when there is room again.
    let script = format!(
        "for i in $(seq {PROGRAMS}); do \"$0\" {HITS} >said$i & crowd=\"$crowd $!\"; done; \
         while [ $(cat said* | wc -l) -lt {PROGRAMS} ]; do sleep 0.1; done; \
         kill $crowd; wait $crowd; touch ended; while [ ! -e go-on ]; do sleep 0.1; done; exec \"$0\" {HITS} once"
    );
    // An ordinary user's recorder can't raise the hard limit.
    let arguments =
        ["record", "--json", "-o", "recording", "--fail-on-loss", "--user", "unanswered", "--", "sh", "-c"];
    let mut recorder = Command::new("prlimit");
    recorder
        .arg(format!("--nofile={LIMIT}:{LIMIT}"))
        .args(["setpriv", &format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups", "--"])
        .arg(scene.path("sordino"));
    let mut running = scene.start(recorder.args(arguments).arg(script).arg(program).current_dir(&home));
    wait_until("the crowd has ended", || home.join("ended").exists());
    wait_until_let_go(running.pid());
    assert!(running.is_running(), "{}", running.errors());
    fs::write(home.join("go-on"), "").unwrap();
    let recording = CompletedRecording::of(running.end(), home.join("recording"));
    let summary = &recording.summary;
    let mut programs = recording.programs().to_vec();
    programs.sort_by_key(|program| program["trace"].to_string());
    // One for which there was room too late, when it had hit its tracepoints, has no event, and is counted as missing.
    let events: Vec<u64> = programs.iter().map(events_of).collect();
    assert!(events.iter().all(|&events| events == HITS || events == 0), "{events:?}");
    assert_eq!(
        events.last(),
        Some(&HITS),
        "the last one has all the room that it needs: {}",
        recording.notes()
    );
    let whole = events.iter().filter(|&&events| events == HITS).count() as u64;
    // Without a descriptor for the metadata, a program's hits are unanswered.
    let unanswered = programs.iter().filter(|program| program["unanswered"]["hits"] == HITS).count() as u64;
    let [unrecorded, unplaced] =
        [&summary["unrecorded"]["programs"], &summary["unplaced"]].map(|number| number.as_u64().unwrap());
    let missing = unanswered + unrecorded + unplaced;
    assert!(missing > 0, "there was room for all: {events:?}");
    assert!(whole + missing > PROGRAMS, "{events:?}, {missing}, {summary}");
    assert!(recording.notes().contains("(ulimit -n)"), "{}", recording.notes());
    assert_eq!(recording.ended.status, 1, "{}", recording.ended.errors);
}

/// "In the order of their waiting": programs that registered while their recorder had no CPU.
#[test]
fn programs_are_taken_up_in_the_order_in_which_they_came() {
    const PROGRAMS: usize = 40;
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "order", &["--user", "unanswered"]);
    let program = scene.program("unanswered.c");
    let stopped = Stopped::now(session.recorder());
    let is_pending = |file| Program::open(&file).is_ok_and(|area| area.pending().since() > 0);
    let start = |_| {
        let program = ScopedSession::join(&scene, Command::new(&program).arg("1"));
        wait_until("it has registered", || find_area(program.pid()).is_some_and(is_pending));
        program
    };
    let programs: Vec<_> = (0..PROGRAMS).map(start).collect();
    drop(stopped);
    programs.iter().for_each(|program| drop(session.records(program.pid())));
    // The number of a trace is that of its program in the session.
    let traces = fs::read_dir(session.output.join("chunk-0001/user")).unwrap();
    let traces = traces.map(|trace| trace.unwrap().file_name().into_string().unwrap());
    let mut traces: Vec<String> = traces.filter(|trace| trace.contains("-unanswered-")).collect();
    traces.sort_unstable();
    let taken_up: Vec<i32> =
        traces.iter().map(|trace| trace.rsplit('-').next().unwrap().parse().unwrap()).collect();
    assert_eq!(taken_up, programs.iter().map(|program| program.pid()).collect::<Vec<_>>(), "{traces:?}");
    for program in programs {
        program.signal(Signal::TERM);
        program.end().succeeded();
    }
    session.destroy();
}
