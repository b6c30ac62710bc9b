//! Programs under a debugger that stops them, steps through them or emulates their processor: each record is there
//! once, or counted as lost.

use sordino_tests::storm::{StormMemory, StormProgram};
use sordino_tests::verified::StormLanes;
use sordino_tests::{CompletedRecording, RunningProcess, Scene, wait_until};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Records a storm under the debugger that `debug` starts.
fn debugged(
    scene: &Scene,
    before: &[&str],
    loads: &[&str],
    debug: impl FnOnce(&StormMemory, &mut RunningProcess),
) -> CompletedRecording {
    let seed = 1;
    let (command, shared) = StormProgram::new(scene).storm(scene, seed, 60_000, loads);
    let (mut recorder, output) =
        scene.recorder(&["--subbuf-size", "16K", "--num-subbuf", "2", "--read-timer", "1ms"]);
    let mut running = scene.start(recorder.arg("--").args(before).args(command));
    wait_until("the storm is ready", || shared.pid() != 0);
    shared.go();
    debug(&shared, &mut running);
    shared.stop();
    let recording = CompletedRecording::of(running.end(), output);
    assert_eq!((recording.ended.status, recording.notes()), (0, String::new()), "{}", recording.ended.errors);
    let (begun, mut lanes) = (shared.begun(), StormLanes::new(seed));
    assert_eq!(begun, shared.done(), "a hit that has not returned");
    lanes.read(&recording.path.join("user"), false);
    assert_eq!(recording.user_events(), lanes.count());
    assert_eq!((lanes.missing(&begun, &shared.done()), lanes.lost), (recording.lost(), recording.lost()));
    recording
}

/// Returns the number of events in the main program's shared ring.
fn shared_events(recording: &CompletedRecording) -> u64 {
    recording
        .streams()
        .filter(|stream| stream["cpu"].is_null())
        .map(|stream| stream["events"].as_u64().unwrap_or(0))
        .sum()
}

/// Returns the threads of a process except the first.
fn threads(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let names = tasks.map(|task| task.file_name().to_string_lossy().into_owned());
    names.filter(|tid| *tid != pid.to_string()).collect()
}

/// "A debugger that steps through the section: it then never completes", and the record goes to the shared ring.
#[test]
fn a_thread_that_is_stepped_through_is_recorded_in_the_shared_ring() {
    let scene = Scene::new();
    let stepper = scene.program("stepper.c");
    let recording = debugged(&scene, &[], &["calm", "migration"], |shared, _| {
        std::thread::sleep(Duration::from_millis(200));
        let workers = threads(shared.pid());
        for worker in workers.iter().take(4).cycle().take(8) {
            let ended = scene.run(Command::new(&stepper).args([worker, "20000"]));
            assert_eq!((ended.status, ended.output.trim()), (0, "20000"), "{}", ended.errors);
        }
        std::thread::sleep(Duration::from_millis(200));
    });
    assert!(shared_events(&recording) > 8, "{}", recording.summary);
}

/// "gdb": attaching, stepping, and a breakpoint inside the restartable section.
#[test]
fn a_debugger_that_comes_and_goes_changes_no_record() {
    let scene = Scene::new();
    let gdb = |pid: i32, commands: &[&str]| {
        let mut command = Command::new("gdb");
        command.args(["-nx", "-batch", "-p", &pid.to_string()]);
        command.args([
            "-iex",
            "set debuginfod enabled off",
            "-ex",
            "handle SIGUSR1 SIGUSR2 nostop noprint pass",
        ]);
        commands.iter().for_each(|text| _ = command.args(["-ex", text]));
        let ended = scene.run(command.args(["-ex", "detach"]));
        assert_eq!(ended.status, 0, "{}", ended.errors);
        assert!(ended.output.contains("detached"), "{}\n{}", ended.output, ended.errors);
    };
    debugged(&scene, &[], &["calm", "migration"], |shared, _| {
        gdb(shared.pid(), &[]);
        gdb(shared.pid(), &["thread 2", "stepi 50", "stepi 50"]);
        gdb(shared.pid(), &["break hit", "continue", "continue", "stepi 50", "delete"]);
        gdb(shared.pid(), &["thread apply all backtrace 3"]);
    });
}

/// "valgrind", which has no restartable sequences: all records go to the shared ring.
#[test]
fn under_valgrind_all_is_recorded_in_the_shared_ring() {
    let scene = Scene::new();
    let recording =
        debugged(&scene, &["valgrind", "-q", "--tool=none"], &["signals", "fork", "plugin"], |_, _| {
            std::thread::sleep(Duration::from_secs(3));
        });
    assert!(recording.user_events() > 1000, "{}", recording.summary);
    assert_eq!(shared_events(&recording), recording.user_events());
}
