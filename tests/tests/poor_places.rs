//! Environments that lack something sordino usually finds: each command continues, or reports the missing path, the
//! effect and the remedy.

use sordino_tests::{EndedProcess, Scene};
use std::process::Command;

const NO_PROC: &str = "mount -t tmpfs tmpfs /proc";
const NO_SYS: &str = "mount -t tmpfs tmpfs /sys";
const NO_PROC_NO_SYS: &str = "mount -t tmpfs tmpfs /sys; mount -t tmpfs tmpfs /proc";
const READ_ONLY_RUN: &str = "mount -t tmpfs -o ro tmpfs /run";
const READ_ONLY_PROC_SYS: &str = "mount --bind /proc/sys /proc/sys; mount -o remount,ro,bind /proc/sys";
const NO_TRACEFS: &str = "mount -t tmpfs tmpfs /sys/kernel/tracing; mount -t tmpfs tmpfs /sys/kernel/debug";
const NO_HOME: &str = "unset HOME TMPDIR";
const BAD_TMPDIR: &str = "export TMPDIR=/nowhere/at-all";
const READ_ONLY_HERE: &str = "mount -t tmpfs -o ro tmpfs .";
const FULL_HERE: &str =
    "mount -t tmpfs -o size=4k tmpfs .; cd $PWD; cat /dev/zero >ballast 2>/dev/null || true";
const FEW_DESCRIPTORS: &str = "ulimit -n 20";

const RECORD: &str = "record -o out -- true";
const RECORD_KERNEL: &str = "record --kernel sched -o out -- true";
const NPT: &str = "npt -a 0 -d 50ms";
const CHECK: &str = "check --only system";
const CHECK_NPT: &str = "check --only npt --cpus 0 -d 100ms";
const PLAN: &str = "shield plan --cpus 0";
const UP: &str = "shield up --cpus 0 --measure 0s";
const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// An environment, a command, its exit status, and its messages.
const CASES: &[(&str, &str, i32, &[&str])] = &[
    (READ_ONLY_PROC_SYS, NPT, 0, &[THROTTLE, "up to 50 ms in each second", "remount,rw /proc/sys"]),
    (READ_ONLY_PROC_SYS, CHECK_NPT, 0, &[THROTTLE, "up to 50 ms in each second", "remount,rw /proc/sys"]),
    (READ_ONLY_PROC_SYS, RECORD, 0, &[]),
    (READ_ONLY_PROC_SYS, RECORD_KERNEL, 0, &[]),
    (READ_ONLY_PROC_SYS, PLAN, 0, &[]),
    (
        NO_PROC,
        NPT,
        0,
        &[
            THROTTLE,
            "up to 50 ms in each second",
            "mount -t proc proc /proc",
            "/proc/stat",
            "interruptions are not counted",
        ],
    ),
    (NO_PROC, RECORD, 2, &["/proc/self/exe", "/proc to find programs", "mount -t proc proc /proc"]),
    (
        NO_PROC,
        "start poor -o out",
        2,
        &["/proc/self/exe", "/proc to find programs", "mount -t proc proc /proc"],
    ),
    (NO_PROC, PLAN, 2, &["/proc/self/mountinfo", "kept off the CPUs", "mount -t proc proc /proc"]),
    (NO_PROC, UP, 2, &["/proc/self/mountinfo", "kept off the CPUs", "mount -t proc proc /proc"]),
    (NO_PROC, CHECK, 0, &["NOT MEASURED", "/proc/self/mountinfo", "mount -t proc proc /proc"]),
    (NO_SYS, NPT, 0, &[]),
    (NO_SYS, RECORD, 0, &["CLOCK_MONOTONIC"]),
    (NO_SYS, RECORD_KERNEL, 0, &[]),
    (NO_SYS, PLAN, 0, &["/sys/devices/system/cpu", "stay as they are", "mount -t sysfs sysfs /sys"]),
    (NO_SYS, CHECK, 0, &["could not be read"]),
    (
        NO_PROC_NO_SYS,
        NPT,
        2,
        &["/sys/devices/system/cpu/online", "which CPUs are online", "mount /sys or /proc"],
    ),
    (
        NO_PROC_NO_SYS,
        CHECK,
        2,
        &["/sys/devices/system/cpu/online", "which CPUs are online", "mount /sys or /proc"],
    ),
    (READ_ONLY_RUN, NPT, 0, &[]),
    (READ_ONLY_RUN, RECORD, 0, &[]),
    (READ_ONLY_RUN, RECORD_KERNEL, 0, &[]),
    (
        READ_ONLY_RUN,
        "start poor -o out",
        2,
        &["/run/sordino", "programs can't register", "SORDINO_RUNTIME_DIR"],
    ),
    (READ_ONLY_RUN, PLAN, 0, &[]),
    (READ_ONLY_RUN, UP, 2, &["/run/sordino", "noted there first", "mount a writable /run"]),
    (READ_ONLY_RUN, CHECK, 0, &[]),
    (NO_TRACEFS, RECORD, 0, &[]),
    (NO_HOME, NPT, 0, &[]),
    (NO_HOME, RECORD, 0, &[]),
    (NO_HOME, "record -o - -- true", 0, &["sent"]),
    (NO_HOME, CHECK_NPT, 0, &[]),
    (BAD_TMPDIR, NPT, 0, &[]),
    (BAD_TMPDIR, RECORD, 0, &[]),
    (BAD_TMPDIR, "record -o - -- true", 2, &["/nowhere/at-all", "no place for temporary files", "TMPDIR"]),
    (
        BAD_TMPDIR,
        "npt -a 0 -d 50ms --sink usdt",
        2,
        &["/nowhere/at-all", "no place for temporary files", "TMPDIR"],
    ),
    (BAD_TMPDIR, CHECK_NPT, 0, &["NOT MEASURED", "/nowhere/at-all", "TMPDIR"]),
    (READ_ONLY_HERE, RECORD, 2, &["can't write to out", "Read-only", "name another place with -o"]),
    (READ_ONLY_HERE, "start poor -o out", 2, &["can't write to out", "Read-only", "-o"]),
    (READ_ONLY_HERE, "npt -a 0 -d 50ms -o out", 2, &["--output out", "Read-only", "-o"]),
    (READ_ONLY_HERE, "check --only system -o out", 2, &["out", "Read-only", "-o"]),
    (FULL_HERE, RECORD, 2, &["can't write to ", "place/out", "No space left", "make room there"]),
    (
        FULL_HERE,
        "start poor -o out",
        2,
        &["can't write to ", "place/out", "No space left", "make room there"],
    ),
    (FEW_DESCRIPTORS, RECORD, 0, &[]),
];

/// Runs a command of sordino in a place of its own.
fn run(scene: &Scene, place: &str, command: &str) -> EndedProcess {
    let script = format!(
        "set -e; cd {}; {place}; cd \"$PWD\"; exec {} {command}",
        scene.path("place").display(),
        scene.path("sordino").display()
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--", "sh", "-c", &script]);
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SORDINO_RUNTIME_DIR"] {
        unshare.env_remove(name);
    }
    scene.run(&mut unshare)
}

#[test]
fn what_a_place_lacks_is_named_with_what_follows_and_what_to_do() {
    let Some(scene) = Scene::new().as_root() else { return };
    let mut wrong = Vec::new();
    for &(place, command, status, words) in CASES {
        let directory = scene.path("place");
        std::fs::create_dir(&directory).unwrap();
        let ended = run(&scene, place, command);
        std::fs::remove_dir_all(&directory).unwrap();
        let printed = ended.output.clone() + &ended.errors;
        let lacks: Vec<_> = words.iter().filter(|word| !printed.contains(**word)).collect();
        if ended.status != status || !lacks.is_empty() || printed.contains("panicked") {
            wrong.push(format!(
                "{place}: {command}: status {}, lacks {lacks:?}\n{}",
                ended.status, ended.errors
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
