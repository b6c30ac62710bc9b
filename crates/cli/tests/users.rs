//! Who may record what, and whose the recording is.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::recording::{Recording, babeltrace, events_of};
use support::{NOBODY, Scene, all_below};

/// Says who it is, and leaves 1,002 events.
const WHO: &str = "id -u; id -g; id -G; ./sordino npt --prio 0 --warm-up 0 --loops 1000 > /dev/null";

/// The users whom what lies below `path` belongs to.
fn owners(path: &Path) -> Vec<(u32, u32)> {
    let files = all_below(path).into_iter().chain([path.to_owned()]);
    let mut owners: Vec<_> =
        files.map(|file| fs::metadata(file).unwrap()).map(|file| (file.uid(), file.gid())).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// The programs in a listing, or in a recorder's summary.
fn pids(listing: &str) -> Vec<i32> {
    let listing: Value = serde_json::from_str(listing).unwrap();
    let programs = listing["programs"].as_array().unwrap().iter();
    programs.map(|program| program["pid"].as_i64().unwrap() as i32).collect()
}

#[test]
fn an_ordinary_user_records_programs_of_their_own() {
    let Some(scene) = Scene::as_root() else { return };
    let mine = scene.directory_of_nobody("mine");
    let record =
        ["record", "--json", "-o", "trace", "--", "sh", "-c", "../sordino npt --prio 0 --loops 1000"];
    let ended = scene.run(scene.command_of_nobody(&record).current_dir(&mine));
    ended.succeeded();
    let recording = Recording::of(mine.join("trace"), &ended);
    assert_eq!((recording.user_events(), recording.lost(), recording.notes()), (2002, 0, String::new()));
    let (lines, complaints) = babeltrace(&recording.path);
    assert_eq!(complaints, "");
    assert_eq!(lines.iter().filter(|line| line.contains("npt:")).count(), 2002);
    assert_eq!(owners(&recording.path), [(NOBODY, NOBODY)]);
    let events = scene.run(scene.command_of_nobody(&["events", "trace"]).current_dir(&mine));
    assert_eq!(events.succeeded().lines().count(), lines.len());
}

#[test]
fn an_ordinary_user_does_not_record_the_programs_of_others() {
    let Some(scene) = Scene::as_root() else { return };
    let mine = scene.directory_of_nobody("mine");
    let program = scene.compile("steady");
    let start = |command: &mut Command| {
        let mut running = scene.start(command);
        running.says("ready");
        running
    };
    let other = start(&mut Command::new(&program));
    let own = start(Command::new(&program).uid(NOBODY).gid(NOBODY));
    let by_nobody = |arguments: &[&str]| {
        let mut command = scene.command_of_nobody(arguments);
        scene.run(command.current_dir(&mine))
    };
    let pid = other.pid().to_string();
    by_nobody(&["record", "-o", "theirs", "--pid", &pid]).failed(2, &[&pid, "another user's", "run as root"]);
    by_nobody(&["record", "-o", "theirs", "--kernel", "sched", "--", "true"]).failed(2, &["root"]);
    by_nobody(&["record", "-o", "theirs", "--as", "root", "--", "true"]).failed(2, &["only root", "sudo"]);
    let unwritable = by_nobody(&["record", "-o", "/sordino-trace", "--", "touch", "started"]);
    unwritable.failed(2, &["can't write to /sordino-trace", "Permission denied"]);
    assert_eq!(all_below(&mine), Vec::<PathBuf>::new(), "refused before anything is done");

    // All that can be recorded: what is theirs, and has room for the rings: an ordinary program reserves little.
    let all = ["record", "--json", "-o", "all", "--duration", "300ms"];
    let ended = by_nobody(&[&all[..], &["--subbuf-size", "64K", "--num-subbuf", "4"]].concat());
    let recording = Recording::of(mine.join("all"), &ended);
    let recorded = pids(&recording.summary.to_string());
    assert!(recorded.contains(&own.pid()) && !recorded.contains(&other.pid()), "{recorded:?}");
    assert_eq!((recording.status, events_of(recording.program("steady")) > 0), (0, true));
    let listed = pids(by_nobody(&["list", "--json"]).succeeded());
    assert!(listed.contains(&own.pid()) && !listed.contains(&other.pid()), "{listed:?}");
    assert!(by_nobody(&["list"]).succeeded().contains("processes of other users"));
    let all = pids(scene.sordino(&["list", "--json"]).succeeded());
    assert!(all.contains(&own.pid()) && all.contains(&other.pid()), "{all:?}");
    for running in [own, other] {
        running.signal(Signal::TERM);
        running.end().succeeded();
    }
}

#[test]
fn a_command_runs_as_the_user_who_called_sudo_and_the_recording_is_theirs() {
    let Some(scene) = Scene::as_root() else { return };
    let record = |name: &str, options: &[&str], sudo: bool| {
        let words = [&["record", "--json", "-o", name], options, &["--", "sh", "-c", WHO]].concat();
        let mut command = scene.command(&words);
        if sudo {
            let id = NOBODY.to_string();
            command.env("SUDO_UID", &id).env("SUDO_GID", &id).env("SUDO_USER", "nobody");
        }
        let ended = scene.run(&mut command);
        let recording = Recording::of(scene.path(name), &ended);
        assert_eq!((recording.status, recording.lost()), (0, 0), "{}", recording.errors);
        assert_eq!(recording.user_events(), 1002, "{}", recording.summary);
        let who: Vec<String> = ended.output.lines().take(3).map(str::to_owned).collect();
        (who, owners(&recording.path))
    };
    let nobody = || vec![NOBODY.to_string(); 3];
    let of_nobody = vec![(NOBODY, NOBODY)];
    // With the kernel's events, which need root, too.
    assert_eq!(record("sudo", &[], true), (nobody(), of_nobody.clone()));
    assert_eq!(record("kernel", &["--kernel", "sched_switch"], true), (nobody(), of_nobody.clone()));
    // Named by --as; by number, too.
    assert_eq!(record("as", &["--as", "nobody"], false), (nobody(), of_nobody.clone()));
    assert_eq!(record("number", &["--as", "65534"], false), (nobody(), of_nobody.clone()));
    // --as goes before who called sudo; the recording is still theirs who called it.
    let (who, owners) = record("root", &["--as", "root"], true);
    assert_eq!((who[0].as_str(), owners), ("0", of_nobody));
    let (who, owners) = record("stay", &[], false);
    assert_eq!((who[0].as_str(), owners), ("0", vec![(0, 0)]));
    scene.refuses(2, &["no user 'nobody-at-all'"], &["record", "--as", "nobody-at-all", "--", "true"]);
}
