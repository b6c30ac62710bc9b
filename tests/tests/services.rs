//! Sessions and grants as services: in the foreground, told to a service manager, and with systemd from boot on.

use rustix::process::Signal;
use sordino_tests::boot::{Boot, Disk};
use sordino_tests::{Scene, installed, wait_until};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

/// Number of events of `tests/programs/late.c`.
const EVENTS: usize = 10;

/// Returns the number of the program's events in a recording.
fn events(scene: &Scene, recording: &Path) -> usize {
    scene.listed(recording).iter().filter(|event| event["name"] == "late:step").count()
}

/// Returns the number of events in each recording of a session, in their order.
fn events_of_all(scene: &Scene, session: &Path) -> Vec<usize> {
    let entries = fs::read_dir(session).expect("recordings").flatten().map(|entry| entry.path());
    let mut recordings: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    recordings.sort();
    recordings.iter().map(|recording| events(scene, recording)).collect()
}

#[test]
fn a_session_in_the_foreground_says_when_it_records_and_ends_with_sigterm() {
    let scene = Scene::new();
    let program = scene.program("late.c");
    let (manager, runtime) = (scene.path("manager"), scene.path("runtime"));
    let socket = UnixDatagram::bind(&manager).unwrap();
    let mut command = scene.command(&["start", "front", "--foreground", "-o", "front", "--user", "late"]);
    command.env("NOTIFY_SOCKET", &manager).env("SORDINO_RUNTIME_DIR", &runtime);
    let mut session = scene.start(&mut command);
    let mut notified = [0; 512];
    socket.set_read_timeout(Some(sordino_tests::PATIENCE)).unwrap();
    let length = socket.recv(&mut notified).unwrap();
    let notified = String::from_utf8_lossy(&notified[..length]).into_owned();
    assert!(
        notified.contains("READY=1\n") && notified.contains("STATUS=session 'front' records;"),
        "{notified}"
    );

    let status =
        scene.run(scene.command(&["status", "front", "--json"]).env("SORDINO_RUNTIME_DIR", &runtime));
    let status: serde_json::Value = serde_json::from_str(status.succeeded()).unwrap();
    assert_eq!(status["sessions"][0]["status"]["recorder"], session.pid(), "{status}");
    scene.run(Command::new(&program).arg("0").env("SORDINO_RUNTIME_DIR", &runtime)).succeeded();
    assert!(session.is_running());
    session.signal(Signal::TERM);
    let ended = session.end();
    ended.succeeded();
    assert!(ended.errors.contains("session 'front' records; see"), "{}", ended.errors);
    assert_eq!(events_of_all(&scene, &scene.path("front")), [EVENTS]);
    // How it was started is no part of what it records: it goes on in the background.
    let again = |arguments: &[&str]| scene.run(scene.command(arguments).env("SORDINO_RUNTIME_DIR", &runtime));
    again(&["start", "front"]).succeeded();
    again(&["stop", "front"]).succeeded();
    again(&["destroy", "front"]).succeeded();
}

fn main_pid(boot: &Boot<'_>, unit: &str) -> String {
    boot.property(unit, "MainPID")
}

#[test]
fn a_session_of_a_unit_is_there_after_each_boot() {
    let Some(scene) = Scene::new().as_root() else { return };
    let Some(disk) = Disk::new(&scene) else { return };
    let program = scene.program("late.c");
    let program = program.to_str().unwrap();
    disk.write(
        "etc/sordino/box.conf",
        "SORDINO_OPTIONS='--user \"late:* if $level <= info, !nothing:*\" --keep 9'\n",
    );
    let recorded = disk.lib().join("sordino/sordino-box");

    let first = disk.boot();
    let started = first.run(&["systemctl", "enable", "--now", "sordino@box"]);
    assert_eq!(started.status, 0, "{}\n{}", started.errors, disk.log());
    first.run(&[program, "0"]).succeeded();
    first.run(&["systemctl", "reload", "sordino@box"]).succeeded();
    wait_until("the first chunk is complete", || recorded.join("chunk-0002").exists());
    assert_eq!(events(&scene, &recorded.join("chunk-0001")), EVENTS);
    first.run(&[program, "0"]).succeeded();
    first.cut();

    let second = disk.boot();
    assert_eq!(second.property("sordino@box", "ActiveState"), "active", "{}", disk.log());
    second.run(&[program, "0"]).succeeded();
    let before = main_pid(&second, "sordino@box");
    second.run(&["kill", "-KILL", &before]).succeeded();
    wait_until("another recorder records", || {
        second.property("sordino@box", "ActiveState") == "active"
            && main_pid(&second, "sordino@box") != before
    });
    second.run(&[program, "0"]).succeeded();
    let stopped = second.run(&["systemctl", "stop", "sordino@box"]);
    assert_eq!(stopped.status, 0, "{}\n{}", stopped.errors, disk.log());
    assert_eq!(second.property("sordino@box", "Result"), "success", "{}", disk.log());
    second.cut();
    // The chunk that was cut off holds what was published until then.
    assert_eq!(events_of_all(&scene, &recorded).iter().sum::<usize>(), 4 * EVENTS, "{}", disk.log());
}

#[test]
fn a_unit_whose_options_are_wrong_fails_once_and_says_why() {
    let Some(scene) = Scene::new().as_root() else { return };
    let Some(disk) = Disk::new(&scene) else { return };
    disk.write("etc/sordino/bad.conf", "SORDINO_OPTIONS='--user \"late:* if\"'\n");
    let boot = disk.boot();
    assert_ne!(boot.run(&["systemctl", "start", "sordino@bad"]).status, 0);
    assert_eq!(boot.property("sordino@bad", "ActiveState"), "failed");
    assert_eq!(boot.property("sordino@bad", "NRestarts"), "0");
    assert_eq!(boot.property("sordino@bad", "ExecMainStatus"), "2");
    assert!(disk.log().contains("--user"), "{}", disk.log());
}

#[test]
fn a_unit_of_a_killed_recorder_leaves_no_events_on_in_the_kernel() {
    let Some(scene) = Scene::new().as_root() else { return };
    let Some(disk) = Disk::new(&scene) else { return };
    disk.write("etc/sordino/sched.conf", "SORDINO_OPTIONS='--overwrite --kernel sched_switch --last 1s'\n");
    let boot = disk.boot();
    let started = boot.run(&["systemctl", "start", "sordino@sched"]);
    assert_eq!(started.status, 0, "{}\n{}", started.errors, disk.log());
    let pid = main_pid(&boot, "sordino@sched");
    boot.run(&["kill", "-KILL", &pid]).succeeded();
    wait_until("another recorder records", || {
        boot.property("sordino@sched", "ActiveState") == "active" && main_pid(&boot, "sordino@sched") != pid
    });
    let stopped = boot.run(&["systemctl", "stop", "sordino@sched"]);
    assert_eq!(stopped.status, 0, "{}\n{}", stopped.errors, disk.log());
    // That of the one that was killed, and of the other: the scene looks for instances that are left.
    assert_eq!(events_of_all(&scene, &disk.lib().join("sordino/sordino-sched")).len(), 1, "{}", disk.log());
}

#[test]
fn a_grant_of_a_unit_lasts_until_it_is_stopped() {
    let Some(scene) = Scene::new().as_root() else { return };
    let Some(disk) = Disk::new(&scene) else { return };
    let boot = disk.boot();
    let sordino = installed().join("bin/sordino");
    let list = [sordino.to_str().unwrap(), "grant", "--list"];
    let started = boot.run(&["systemctl", "start", "sordino-grant@sys"]);
    assert_eq!(started.status, 0, "{}\n{}", started.errors, disk.log());
    assert!(boot.run(&list).succeeded().contains("sys"), "{}", disk.log());
    boot.run(&["systemctl", "stop", "sordino-grant@sys"]).succeeded();
    assert!(!boot.run(&list).output.contains("sys"));
}

#[test]
fn units_are_as_systemd_wants_them() {
    let _scene = Scene::new();
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        return Scene::not_measured("units: systemd is not installed");
    }
    let units = installed().join("lib/systemd/system");
    for unit in ["sordino@box.service", "sordino-grant@sys.service"] {
        let file = units.join(unit.replace("box", "").replace("sys.", "."));
        let instance = tempfile::tempdir().unwrap();
        let instance = instance.path().join(unit);
        fs::copy(file, &instance).unwrap();
        let printed =
            Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&instance).output().unwrap();
        let printed = String::from_utf8_lossy(&printed.stderr).into_owned();
        let ours: Vec<&str> = printed.lines().filter(|line| line.contains("sordino")).collect();
        assert!(ours.is_empty(), "{ours:?}");
    }
}
