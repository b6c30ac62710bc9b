//! Many programs, one after the other and at once.

use sordino_tests::{Scene, wait_until};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Returns the files of a process's descriptors.
fn descriptors(pid: i32) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()).collect()
}

/// Waits until a recorder has released the programs that have ended: all but the one that starts them, which registers
/// nothing.
fn wait_until_let_go(recorder: i32) {
    let holds_one = || descriptors(recorder).iter().any(|path| path.to_string_lossy().contains("[pidfd]"));
    wait_until("no program is held", || !holds_one());
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
    let recording = sordino_tests::Recording::of(running.end(), output);
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
