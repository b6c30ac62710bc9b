//! What can't be recorded is refused before anything is started, with the reason and what to do about it.

use sordino_tests::Scene;
use sordino_tests::install::{installed, sordino};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Asks for a recording of a command that leaves a file: it must not be started. The status, and what sordino said.
fn refused(scene: &Scene, options: &[&str]) -> (i32, String) {
    let started = scene.fresh("started");
    let output = scene.fresh("recording");
    let mut command = Command::new(sordino());
    command.arg("record").args(options).current_dir(scene.path(""));
    if !options.contains(&"-o") {
        command.arg("-o").arg(&output);
    }
    if !options.contains(&"--pid") {
        command.args(["--", "touch"]).arg(&started);
    }
    let ended = scene.run(&mut command);
    assert!(!started.exists(), "{options:?}: the command was started");
    assert!(!output.exists(), "{options:?}: a directory was left behind");
    assert!(!ended.errors.contains("panicked"), "{}", ended.errors);
    (ended.status, ended.errors)
}

/// Refused as bad usage, and every one of the words is said.
fn is_refused(scene: &Scene, options: &[&str], words: &[&str]) {
    let (status, text) = refused(scene, options);
    assert_eq!(status, 2, "{options:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{options:?}: '{word}' is not said: {text}");
    }
}

/// "Unknown kernel events: error with the nearest names"; "bad filter expression: the kernel's words".
#[test]
fn kernel_events_that_are_not_there_are_named_with_their_neighbours() {
    let scene = Scene::new();
    is_refused(&scene, &["--kernel", "sched_swich"], &["sched_swich", "sched_switch"]);
    is_refused(&scene, &["--kernel", "shced"], &["shced", "sched"]);
    is_refused(&scene, &["--kernel", "no_such_thing_at_all"], &["no_such_thing_at_all"]);
    is_refused(&scene, &["--kernel", "sched_switch if no_such_field == 1"], &["no_such_field"]);
    is_refused(&scene, &["--kernel", "sched_switch if prev_prio <"], &["prev_prio"]);
}

/// "Sizes not power of two, zero, absurd: refused with the range"; "--cpus not online".
#[test]
fn sizes_cpus_and_times_that_make_no_sense_are_refused_with_the_range() {
    let scene = Scene::new();
    for size in ["0", "1", "3M", "1000000", "8K", "512M", "99999999999G", "K", "1T", ""] {
        is_refused(&scene, &["--subbuf-size", size], &["--subbuf-size"]);
    }
    is_refused(&scene, &["--subbuf-size", "3M"], &["16384 to 268435456 bytes", "2 to 4096"]);
    for count in ["0", "1", "3", "8192", "18446744073709551616"] {
        is_refused(&scene, &["--num-subbuf", count], &["--num-subbuf"]);
    }
    is_refused(&scene, &["--subbuf-size", "256M", "--num-subbuf", "4096"], &["2048 MiB together"]);
    for buffer in ["0", "1", "32K", "5G"] {
        is_refused(&scene, &["--kernel-buffer", buffer], &["--kernel-buffer"]);
    }
    for cpus in ["4095", "0-4095", "x", "1-0", "", "99999999999"] {
        is_refused(&scene, &["--cpus", cpus], &["--cpus"]);
    }
    is_refused(&scene, &["--collector-cpu", "4095"], &["4095"]);
    for time in ["0s", "1h", "x", "200"] {
        is_refused(&scene, &["--read-timer", time], &["--read-timer"]);
    }
    is_refused(&scene, &["--collector-prio", "100"], &["--collector-prio"]);
    is_refused(&scene, &["--user", "a["], &["a["]);
    is_refused(&scene, &["--wakeup", "--busy"], &["--busy"]);
    is_refused(&scene, &["--pid", "2147483647"], &["2147483647"]);
    is_refused(&scene, &["--pid", "0"], &["0"]);
    is_refused(&scene, &["--as", "nobody-at-all"], &["nobody-at-all"]);
}

/// "Output directory not empty: refused before anything starts."
#[test]
fn a_directory_that_is_not_empty_is_not_recorded_into() {
    let scene = Scene::new();
    fs::create_dir(scene.path("full")).unwrap();
    fs::write(scene.path("full/precious"), "text").unwrap();
    is_refused(&scene, &["-o", "full"], &["full", "is not empty", "-o"]);
    assert_eq!(fs::read_dir(scene.path("full")).unwrap().count(), 1);
    is_refused(&scene, &["-o", "full/precious"], &["full/precious"]);
    is_refused(&scene, &["-o", "/proc/nothing"], &["/proc/nothing"]);
    // An empty one that was there before stays when the recording is refused, and is used when it is not.
    fs::create_dir(scene.path("empty")).unwrap();
    is_refused(&scene, &["-o", "empty", "--kernel", "sched_swich"], &["sched_switch"]);
    assert_eq!(fs::read_dir(scene.path("empty")).unwrap().count(), 0);
    let recorded = scene.sordino(&["record", "-o", "empty", "--", "true"]);
    assert_eq!(recorded.status, 0, "{}", recorded.errors);
    assert!(scene.path("empty/recording.json").exists());
}

/// "Not writable": as an ordinary user, whom permissions hold back; "--as without root"; kernel events without root.
#[test]
fn an_ordinary_user_is_told_what_only_root_may() {
    let scene = Scene::new();
    let program = scene.path("sordino");
    fs::copy(installed().join("bin/sordino"), &program).unwrap();
    fs::create_dir(scene.path("mine")).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&program).arg("record");
        let started = scene.fresh("started");
        scene.run(command.args(arguments).args(["--", "touch"]).arg(&started).current_dir(scene.path("mine")))
    };
    let ended = as_nobody(&[]);
    assert_eq!(ended.status, 2);
    assert!(ended.errors.contains("can't write to sordino-"), "{}", ended.errors);
    fs::set_permissions(scene.path("mine"), fs::Permissions::from_mode(0o777)).unwrap();
    let ended = as_nobody(&["--as", "root"]);
    assert_eq!(ended.status, 2);
    assert!(ended.errors.contains("only root can run a command as"), "{}", ended.errors);
    let ended = as_nobody(&["--kernel", "sched_switch"]);
    assert_eq!(ended.status, 2);
    assert!(ended.errors.contains("root"), "{}", ended.errors);
    assert_eq!(fs::read_dir(scene.path("mine")).unwrap().count(), 0, "something was left behind");
}

/// "COMMAND not found: 127"; not executable.
#[test]
fn a_command_that_is_not_there_is_not_found_as_shells_say_it() {
    let scene = Scene::new();
    fs::write(scene.path("text"), "no program").unwrap();
    fs::write(scene.path("script"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(scene.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    for (command, status, word) in [
        ("no-such-command", 127, "no-such-command"),
        ("./text", 127, "ermission"),
        ("./script", 2, "./script"),
    ] {
        let ended = scene.sordino(&["record", "-o", "out", "--", command]);
        assert_eq!(ended.status, status, "{command}: {}", ended.errors);
        assert!(ended.errors.contains(word), "{command}: {}", ended.errors);
    }
}

/// "The exit status of COMMAND is passed on": its code, or 128 and the signal.
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
    ] {
        let recording = scene.record(&[], &[program.to_str().unwrap(), how, number]);
        assert_eq!((recording.ended.status, recording.user_events()), (status, 1), "{how} {number}");
    }
}

/// A file system of its own, unmounted at the end.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(place: &'a Path, size: &str) -> Self {
        fs::create_dir(place).unwrap();
        let mut mount = Command::new("mount");
        sordino_tests::install::succeed(mount.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(place));
        Self(place)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// "Disk full while recording: recording stops cleanly, COMMAND runs on, what is on disk is readable, the summary says what is
/// missing."
#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    let scene = Scene::new();
    let program = scene.program("burst.c");
    for (turn, kernel) in [&[][..], &["--kernel", "raw_syscalls"]].into_iter().enumerate() {
        let place = scene.path(&format!("disk{turn}"));
        let disk = SmallDisk::mount(&place, "size=5m");
        let finished = scene.fresh("finished");
        let output = place.join("recording");
        let mut recorder = Command::new(sordino());
        recorder
            .args(["record", "--json", "--subbuf-size", "256K", "--num-subbuf", "8", "-o"])
            .arg(&output)
            .args(kernel);
        let script = format!("{} 2 1000000 && sleep 0.5 && touch {}", program.display(), finished.display());
        let ended = scene.run(recorder.args(["--", "sh", "-c", &script]));
        assert!(!ended.errors.contains("panicked"), "{}", ended.errors);
        sordino_tests::wait_until("the command has run on to its end", || finished.exists());
        let recording = sordino_tests::Recording::of(ended, output);
        assert_eq!(recording.summary["state"], "finished", "{}", recording.summary);
        assert!(recording.sum("unwritten") > 0, "{}", recording.summary);
        assert!(recording.notes().contains("could not be written"), "{}", recording.notes());
        assert!(recording.user_events() > 0);
        recording.babeltrace_reads_all();
        assert_eq!(recording.babeltrace_and_warnings().0.len() as u64, recording.user_events());
        drop(disk);
        fs::remove_dir(&place).unwrap();
    }
}
