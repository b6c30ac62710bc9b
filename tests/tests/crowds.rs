//! Crowds: programs that fork in a loop, many at once, many of one kind that are skipped. Each event is recorded or
//! counted. `CROWD` sets the number of programs that live at once (default 300).

use serde_json::{Value, json};
use sordino_tests::recording::events_of;
use sordino_tests::storm::number;
use sordino_tests::{CompletedRecording, NOBODY, PATIENCE, Scene};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Events of each program of a crowd.
const HITS: u64 = 3;

/// Asserts that each event of brood.c's children was recorded or counted, or that the recording names the programs with
/// uncounted events.
#[track_caller]
fn is_accounted_for(recording: &CompletedRecording, brood: &str, programs_before: u64, children: u64) {
    let of = |field: &str| recording.summary["unrecorded"][field].clone();
    let [programs, hits, uncounted] =
        ["programs", "hits", "uncounted"].map(|field| of(field).as_u64().unwrap());
    let unplaced = recording.summary["unplaced"].as_u64().unwrap();
    let mine: Vec<&Value> = recording.programs().iter().filter(|program| program["name"] == brood).collect();
    let all = || format!("{} recorded, {}, {unplaced} unplaced", mine.len(), recording.summary["unrecorded"]);
    if of("unseen") == false {
        // The parent is a program, too.
        assert_eq!(mine.len() as u64 + programs + unplaced, programs_before + 1 + children, "{}", all());
    }
    let unanswered = mine.iter().filter_map(|program| program["unanswered"]["hits"].as_u64()).sum::<u64>();
    let is_unknown = |program: &&&Value| program["unanswered"]["uncounted"] == true;
    let unknown = uncounted + unplaced + mine.iter().filter(is_unknown).count() as u64;
    let events: u64 = mine.iter().map(|program| events_of(program)).sum();
    let lost: u64 = mine.iter().map(|program| lost_of(program)).sum();
    let known = events + lost + unanswered + hits;
    assert!(known <= HITS * children, "{known} of {}: {}", HITS * children, all());
    if of("unseen") == false {
        assert!(known + HITS * unknown >= HITS * children, "{known} of {}: {}", HITS * children, all());
    }
    let is_whole = events == HITS * children;
    assert_eq!(recording.ended.status, i32::from(!is_whole), "{}, {}", all(), recording.ended.errors);
    println!("{children} children: {events} events, {lost} lost, {unanswered} unanswered, {}", all());
}

/// Returns the number of lost records in a program's rings.
fn lost_of(program: &Value) -> u64 {
    let lost = |stream: &Value| {
        ["ring_full", "too_large", "unfinished"].map(|cause| stream[cause].as_u64().unwrap_or(0))
    };
    program["streams"].as_array().into_iter().flatten().flat_map(lost).sum()
}

fn name(program: &Path) -> &str {
    program.file_name().and_then(|name| name.to_str()).expect("a name of characters")
}

/// "Programs that fork in a loop: the session lives, the honest ones are recorded, the rest is counted and said."
#[test]
fn a_program_that_forks_in_a_loop_takes_nothing_from_an_honest_one() {
    const CHILDREN: u64 = 1000;
    const EVENTS: u64 = 20_000;
    let scene = Scene::new();
    let (honest, brood) = (scene.program("burst.c"), scene.program("brood.c"));
    // The honest one runs three times: before the children, beside them, and until after them.
    let burst = format!("{} 1 {EVENTS} 20000", honest.display());
    let script = format!("{burst} & {} {CHILDREN} {HITS} & {burst}; {burst}; wait", brood.display());
    let recording = scene.record(&["--fail-on-loss"], &["sh", "-c", &script]);
    let honest_ones = recording.programs().iter().filter(|program| program["name"] == name(&honest));
    let events: Vec<u64> = honest_ones.map(events_of).collect();
    assert_eq!(events, [EVENTS; 3], "{}", recording.notes());
    assert_eq!(recording.summary["state"], "finished");
    is_accounted_for(&recording, name(&brood), 0, CHILDREN);
}

/// Returns the number of a process's open descriptors, and its resident memory in KiB.
fn size_of_process(pid: i32) -> (usize, u64) {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("a process").count();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("resident memory");
    (descriptors, line.trim().trim_end_matches(" kB").parse().expect("a number"))
}

/// Waits until `done` returns true, longer than other tests for a crowd of thousands.
#[track_caller]
fn wait_for(crowd: u64, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE * (1 + crowd as u32 / 500);
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        sleep(Duration::from_millis(10));
    }
}

/// "10,000 at once: the session lives, the rest is counted and said"; descriptors and memory go back afterwards.
#[test]
fn of_a_crowd_at_once_each_event_is_recorded_or_counted_and_nothing_is_kept() {
    /// KiB that the recorder keeps for each program, for the summary, and for any number of them.
    const KEPT: [u64; 2] = [4, 6144];
    let crowd = number("CROWD").unwrap_or(300);
    let scene = Scene::new();
    let brood = scene.program("brood.c");
    let (early, late, go_on) = (scene.path("early"), scene.path("late"), scene.path("go-on"));
    // The shell waits twice, until the test has looked at the recorder.
    let wait = |at: &Path, number: u32| {
        format!("touch {}; while [ ! -e {}{number} ]; do sleep 0.01; done", at.display(), go_on.display())
    };
    let script = format!(
        "{0} 20 0 together; {1}; {0} {crowd} {HITS} together || exit 9; {2}",
        brood.display(),
        wait(&early, 1),
        wait(&late, 2)
    );
    let (mut recorder, output) = scene.recorder(&["--fail-on-loss"]);
    let mut running = scene.start(recorder.args(["--", "sh", "-c", &script]));
    wait_for(crowd, "the first have ended", || early.exists());
    let is_settled = |most| size_of_process(running.pid()).0 <= most;
    // Of the first, nothing is left but the recorder's own: those of its 21 programs are at least 63.
    wait_for(crowd, "the first are let go", || is_settled(40));
    let before = size_of_process(running.pid());
    fs::write(format!("{}1", go_on.display()), "").unwrap();
    wait_for(crowd, "the crowd has ended", || late.exists());
    // One more while it walks through /proc.
    wait_for(crowd, "the descriptors are closed", || is_settled(before.0 + 1));
    let after = size_of_process(running.pid());
    assert!(running.is_running(), "{}", running.errors());
    fs::write(format!("{}2", go_on.display()), "").unwrap();
    let recording = CompletedRecording::of(running.end(), output);
    assert!(after.1 < before.1 + KEPT[0] * crowd + KEPT[1], "{} KiB, {} KiB", before.1, after.1);
    // The 20 that came first hit nothing; they and their parent are programs of that name.
    is_accounted_for(&recording, name(&brood), 21, crowd);
}

/// "All of it is summed up: one line for a hundred programs of one kind, details in --json."
#[test]
fn programs_of_one_kind_that_are_refused_share_one_line() {
    const PROGRAMS: u64 = 30;
    let scene = Scene::new();
    let program = scene.program("unanswered.c");
    let script = format!(
        "for i in $(seq {PROGRAMS}); do SORDINO_RESERVE=1000000 {} {HITS} once >/dev/null & done; wait",
        program.display()
    );
    let command = ["sh", "-c", &script];
    let recording = scene.record(&["--fail-on-loss"], &command);
    let expected = format!(
        "skipped {} of user {}, {PROGRAMS} programs: ",
        name(&program),
        rustix::process::geteuid().as_raw()
    );
    let notes = recording.notes();
    assert_eq!(notes.lines().filter(|note| note.starts_with(&expected)).count(), 1, "{notes}");
    assert_eq!(notes.matches("skipped").count(), 1, "{notes}");
    let unrecorded = &recording.summary["unrecorded"];
    assert_eq!((&unrecorded["programs"], &unrecorded["uncounted"]), (&PROGRAMS.into(), &PROGRAMS.into()));
    assert_eq!(recording.ended.status, 1);
    // The same in the summary for a reader.
    let text = scene.fresh("text");
    let ended = scene.run(scene.command(&["record", "-o"]).arg(&text).arg("--").args(command));
    let all = format!("{}{}", ended.output, ended.errors);
    assert_eq!(all.matches("skipped").count(), 1, "{all}");
    assert!(all.contains(&expected), "{all}");
}

/// A program that ends while it is pending: its hits are counted, and under a condition their number is unknown.
#[test]
fn a_program_that_ends_while_it_is_pending_leaves_its_counts_or_an_unknown_number() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (program, home) = (scene.program("unanswered.c"), scene.directory_of(NOBODY, "home"));
    let script = format!("kill -STOP $PPID; {} {HITS} once; kill -CONT $PPID", program.display());
    for (rule, hits, uncounted) in [("unanswered:hit", HITS, 0), ("unanswered:hit if number < 5", 0, 1)] {
        let output = scene.fresh("pending").file_name().unwrap().to_owned();
        let mut recorder =
            scene.command_of(NOBODY, &["record", "--json", "--fail-on-loss", "--user", rule, "-o"]);
        let ended = scene.run(recorder.arg(&output).args(["--", "sh", "-c", &script]).current_dir(&home));
        let recording = CompletedRecording::of(ended, home.join(&output));
        let expected = json!({"programs": 1, "hits": hits, "uncounted": uncounted, "unseen": false});
        assert_eq!(recording.summary["unrecorded"], expected, "{rule}: {}", recording.notes());
        assert_eq!((recording.ended.status, recording.lost()), (1, hits), "{rule}: {}", recording.notes());
    }
}
