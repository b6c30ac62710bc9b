//! Impossible recordings are rejected before anything is started, with the reason and the remedy.

use sordino_tests::disk::SmallDisk;
use sordino_tests::recording::all_below;
use sordino_tests::{CompletedRecording, NOBODY, Scene};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Requests a recording of a command that leaves a file. Asserts that this is a usage error, that each of the words is
/// printed, and that nothing was started.
#[track_caller]
fn is_refused(scene: &Scene, options: &[&str], words: &[&str]) {
    let (started, output) = (scene.fresh("started"), scene.fresh("recording"));
    let mut command = scene.command(&["record"]);
    command.args(options);
    if !options.contains(&"-o") {
        command.arg("-o").arg(&output);
    }
    if !options.contains(&"--pid") {
        command.args(["--", "touch"]).arg(&started);
    }
    scene.run(&mut command).failed(2, words);
    assert!(!started.exists(), "{options:?}: the command was started");
    assert!(!output.exists(), "{options:?}: a directory was left behind");
}

/// "Unknown kernel events: error with the nearest names"; "bad filter expression: the kernel's words".
#[test]
fn kernel_events_that_are_not_there_are_named_with_their_neighbours() {
    let Some(scene) = Scene::new().as_root() else { return };
    is_refused(&scene, &["--kernel", "sched_swich"], &["sched_swich", "did you mean sched_switch?"]);
    is_refused(&scene, &["--kernel", "shced"], &["shced", "sched"]);
    let unknown = ["no_such_thing_at_all", "no kernel event matches 'no_such_thing_at_all'"];
    is_refused(&scene, &["--kernel", "no_such_thing_at_all"], &unknown);
    let no_field = ["no_such_field", "sched:sched_switch", "Field not found", "^"];
    is_refused(&scene, &["--kernel", "sched_switch if no_such_field == 1"], &no_field);
    is_refused(&scene, &["--kernel", "sched_switch if prev_prio <"], &["prev_prio"]);
    is_refused(&scene, &["--kernel", "sched,"], &["a name is empty"]);
    let no_thread = ["--kernel-tid 2147483647", "no such thread"];
    is_refused(&scene, &["--kernel", "sched", "--kernel-tid", "2147483647"], &no_thread);
    for buffer in ["0", "1", "1K", "32K", "5G"] {
        is_refused(&scene, &["--kernel-buffer", buffer], &["--kernel-buffer"]);
    }
    is_refused(&scene, &["--kernel", "sched", "--kernel-buffer", "1K"], &["--kernel-buffer", "64K to 4G"]);
}

/// "Sizes not power of two, zero, absurd: refused with the range"; "--cpus not online".
#[test]
fn sizes_cpus_and_times_that_make_no_sense_are_refused_with_the_range() {
    let scene = Scene::new();
    for size in ["0", "1", "3M", "1000000", "8K", "512M", "99999999999G", "K", "1T", ""] {
        is_refused(&scene, &["--subbuf-size", size], &["--subbuf-size"]);
    }
    let range = ["--subbuf-size 3145728", "16384 to 268435456 bytes", "2 to 4096"];
    is_refused(&scene, &["--subbuf-size", "3M"], &range);
    is_refused(&scene, &["--subbuf-size", "99999999999G"], &["--subbuf-size", "is no size"]);
    for count in ["0", "1", "3", "8192", "18446744073709551616"] {
        is_refused(&scene, &["--num-subbuf", count], &["--num-subbuf"]);
    }
    is_refused(&scene, &["--num-subbuf", "0"], &["--num-subbuf 0", "2 to 4096"]);
    is_refused(&scene, &["--subbuf-size", "256M", "--num-subbuf", "4096"], &["2048 MiB together"]);
    for cpus in ["4095", "0-4095", "x", "1-0", "", "99999999999"] {
        is_refused(&scene, &["--cpus", cpus], &["--cpus"]);
    }
    is_refused(&scene, &["--cpus", "0-4095"], &["--cpus 0-4095", "not online"]);
    is_refused(&scene, &["--collector-cpu", "4095"], &["can't run on CPU 4095"]);
    for time in ["0s", "1h", "x", "200"] {
        is_refused(&scene, &["--read-timer", time], &["--read-timer"]);
    }
    is_refused(&scene, &["--read-timer", "1h"], &["--read-timer", "1us to 20ms"]);
    is_refused(&scene, &["--duration", "5"], &["--duration", "a time has a unit: 5us"]);
    is_refused(&scene, &["--pid", "motor"], &["'motor'", "expected the id of a process", "pidof motor"]);
    is_refused(&scene, &["--pid", "0"], &["--pid"]);
    is_refused(&scene, &["--collector-prio", "100"], &["--collector-prio"]);
    is_refused(&scene, &["--user", "a["], &["--user", "only * and ? stand"]);
    is_refused(&scene, &["--wakeup", "--busy"], &["--busy"]);
    is_refused(&scene, &["--pid", "2147483647"], &["2147483647"]);
    is_refused(&scene, &["--pid", "0"], &["0"]);
    is_refused(&scene, &["--as", "nobody-at-all"], &["no user 'nobody-at-all'"]);
}

/// "Output directory not empty: refused before anything starts."
#[test]
fn a_directory_that_is_not_empty_is_not_recorded_into() {
    let scene = Scene::new();
    fs::create_dir(scene.path("full")).unwrap();
    fs::write(scene.path("full/precious"), "text").unwrap();
    is_refused(&scene, &["-o", "full"], &["full is not empty", "-o"]);
    is_refused(&scene, &["-o", "full/precious"], &["full/precious"]);
    assert_eq!(all_below(&scene.path("full")), [scene.path("full/precious")]);
    is_refused(&scene, &["-o", "/proc/nothing"], &["can't write to /proc/nothing"]);
    // An empty one that was there before stays when the recording is refused, and is used when it is not.
    fs::create_dir(scene.path("empty")).unwrap();
    is_refused(&scene, &["-o", "empty", "--kernel", "sched_swich"], &["sched_switch"]);
    assert_eq!(fs::read_dir(scene.path("empty")).unwrap().count(), 0);
    scene.sordino(&["record", "-o", "empty", "--", "true"]).succeeded();
    assert!(scene.path("empty/recording.json").exists());
}

/// "Not writable": as an ordinary user, whom permissions hold back; "--as without root"; kernel events without root.
#[test]
fn an_ordinary_user_is_told_what_only_root_may() {
    let Some(scene) = Scene::new().as_root() else { return };
    let mine = scene.directory_of(NOBODY, "mine");
    let is_refused = |directory: &Path, options: &[&str], words: &[&str]| {
        let started = mine.join("started");
        let mut command = scene.command_of(NOBODY, &[&["record"], options, &["--", "touch"]].concat());
        scene.run(command.arg(started).current_dir(directory)).failed(2, words);
        assert_eq!(all_below(&mine).len(), 0, "{options:?}: something was started or left behind");
    };
    is_refused(&scene.path(""), &[], &["can't write to sordino-"]);
    let unwritable = ["can't write to /sordino-trace", "Permission denied"];
    is_refused(&mine, &["-o", "/sordino-trace"], &unwritable);
    is_refused(&mine, &["--as", "root"], &["only root can run a command as", "sudo"]);
    is_refused(&mine, &["-o", "mine", "--as", "root"], &["only root can run a command as", "sudo"]);
    is_refused(&mine, &["--kernel", "sched_switch"], &["root"]);
    is_refused(&mine, &["-o", "mine", "--kernel", "sched"], &["root"]);
}

/// "COMMAND not found: 127"; not executable.
#[test]
fn a_command_that_is_not_there_is_not_found_as_shells_say_it() {
    let scene = Scene::new();
    fs::write(scene.path("text"), "no program").unwrap();
    fs::write(scene.path("script"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(scene.path("text"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(scene.path("our-tool"), "echo no program\n").unwrap();
    for tool in ["script", "our-tool"] {
        fs::set_permissions(scene.path(tool), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (command, status, words) in [
        ("no-such-command", 127, &["no-such-command: command not found"][..]),
        ("./nothing", 127, &["./nothing", "No such file"]),
        ("./text", 127, &["./text", "permission denied", "chmod +x"]),
        ("our-tool", 127, &["our-tool: command not found; did you mean ./our-tool?"]),
        ("./script", 2, &["./script", "its interpreter", "is not there"]),
        ("./our-tool", 2, &["./our-tool", "no script with a first line"]),
    ] {
        scene.refuses(status, words, &["record", "-o", "out", "--", command]);
        assert!(!scene.path("out").exists(), "{command}");
    }
}

/// "The exit status of COMMAND is passed on": its code, or 128 and the signal. Its events are there after any end.
#[test]
fn the_commands_own_status_is_passed_on() {
    let scene = Scene::new();
    let program = scene.program("ends.c");
    for (how, number, status) in [
        ("exit", "0", 0),
        ("exit", "3", 3),
        ("exit", "255", 255),
        ("signal", "15", 143),
        ("signal", "6", 134),
        ("signal", "9", 137),
    ] {
        let recording = scene.record(&[], &[program.to_str().unwrap(), how, number]);
        assert_eq!((recording.ended.status, recording.lost()), (status, 0), "{how} {number}");
        recording.assert_count(1);
    }
}

/// "Disk full while recording: recording stops cleanly, COMMAND runs on, what is on disk is readable, the summary says
/// what is missing."
#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    let Some(scene) = Scene::new().as_root() else { return };
    let program = scene.program("burst.c");
    for (number, kernel) in [&[][..], &["--kernel", "raw_syscalls"]].into_iter().enumerate() {
        let place = scene.path(&format!("disk{number}"));
        let disk = SmallDisk::mount(&place, "size=5m");
        let finished = scene.fresh("finished");
        let output = place.join("recording");
        let small = ["record", "--json", "--subbuf-size", "256K", "--num-subbuf", "8", "-o"];
        let mut recorder = scene.command(&small);
        recorder.arg(&output).args(kernel);
        let script = format!("{} 2 1000000 && sleep 0.5 && touch {}", program.display(), finished.display());
        let ended = scene.run(recorder.args(["--", "sh", "-c", &script]));
        assert!(!ended.errors.contains("panicked"), "{}", ended.errors);
        sordino_tests::wait_until("the command has run on to its end", || finished.exists());
        let recording = CompletedRecording::of(ended, output);
        assert_eq!(recording.summary["state"], "finished", "{}", recording.summary);
        // A loss is reported also without --fail-on-loss.
        recording.ended.failed(1, &["INCOMPLETE: could not be written: ", "No space left on device"]);
        assert!(recording.sum("unwritten") > 0, "{}", recording.summary);
        assert_eq!(recording.summary["missing"]["sub_buffers"], recording.sum("unwritten"));
        assert!(recording.notes().contains("could not be written"), "{}", recording.notes());
        assert!(recording.user_events() > 0);
        recording.babeltrace_reads_all();
        assert_eq!(recording.babeltrace_and_warnings().0.len() as u64, recording.user_events());
        drop(disk);
        fs::remove_dir(&place).unwrap();
    }
}

#[test]
fn a_forgotten_double_dash_is_shown_where_it_goes() {
    let scene = Scene::new();
    let own = ["record", "--subbuf-size", "64K", "./x y", "--its-option"];
    scene.refuses(2, &["a command follows '--'", "record --subbuf-size 64K -- './x y' --its-option"], &own);
    scene.refuses(2, &["start box -- ./x"], &["start", "box", "./x"]);
    scene.refuses(2, &["no command after '--'", "record -- ./motor", "every program"], &["record", "--"]);
    scene.refuses(
        2,
        &["unexpected argument '--subuf-size'", "--subbuf-size"],
        &["record", "--subuf-size", "1M"],
    );
    for option in [&["--kernel-tid", "1"][..], &["--kernel-buffer", "1M"], &["--no-user"]] {
        is_refused(&scene, option, &["--kernel <EVENTS>"]);
    }
    is_refused(&scene, &["--kernel", "sched", "--no-user", "--user", "motor"], &["--no-user", "--user"]);
}

#[test]
fn the_end_of_a_recording_says_what_reads_it() {
    let scene = Scene::new();
    let program = scene.program("pairs.c");
    let ended = scene.sordino(&["record", "-o", "a trace", "--", program.to_str().unwrap()]);
    let line = ended.errors.lines().last().unwrap().to_owned();
    let path = scene.path("a trace");
    let path = format!("'{}'", path.display());
    assert!(
        line.contains(&format!("look at it with: sordino events {path}, sordino explain {path} (or")),
        "{line}"
    );
    scene.sordino(&["explain", "a trace", "--event", "net:request"]).succeeded();
}

#[test]
fn root_is_told_which_capability_it_lacks_and_not_to_be_root() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_nice"]).arg(scene.path("sordino"));
    command.args(["npt", "--prio", "50", "--warm-up", "0", "--loops", "10"]).current_dir(scene.path(""));
    let ended = scene.run(&mut command);
    ended.succeeded();
    assert!(ended.errors.contains("root lacks CAP_SYS_NICE here"), "{}", ended.errors);
    assert!(!ended.errors.contains("as root"), "{}", ended.errors);
    let nobody =
        scene.run(&mut scene.command_of(NOBODY, &["npt", "--prio", "50", "--warm-up", "0", "--loops", "10"]));
    assert!(nobody.errors.contains("(run as root, or raise ulimit -r)"), "{}", nobody.errors);
}
