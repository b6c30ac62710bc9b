//! Memory of programs' rings: an active program gets some, an idle one gives some back, and all have a budget.

use rustix::process::Signal;
use sordino_tests::group::ControlGroup;
use sordino_tests::session::{ScopedSession, memory_of, summary};
use sordino_tests::{Scene, wait_until};
use std::path::PathBuf;
use std::process::Command;

/// Returns the sum of a figure over the rings of all recordings' summaries.
fn sum(recordings: &[PathBuf], field: &str) -> u64 {
    let programs =
        recordings.iter().flat_map(|path| summary(path)["programs"].as_array().cloned().unwrap_or_default());
    let streams = programs.flat_map(|program| program["streams"].as_array().cloned().unwrap_or_default());
    streams.map(|stream| stream[field].as_u64().unwrap_or(0)).sum()
}

/// "The memory of 100 attached programs after they went idle: under 128 MiB": thirty here, which each have more than
/// the hundredth.
#[test]
fn idle_programs_give_their_memory_back_and_status_says_so() {
    const PROGRAMS: usize = 30;
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "idle", &[]);
    let program = scene.program("hits.c");
    let mut programs: Vec<_> =
        (0..PROGRAMS).map(|_| ScopedSession::join(&scene, Command::new(&program).arg("100"))).collect();
    programs.iter_mut().for_each(|program| program.says("ready"));
    for program in &programs {
        session.records(program.pid());
    }
    let used = || session.status()["status"]["memory"]["used"].as_u64().unwrap();
    let all = || programs.iter().map(|program| memory_of(program.pid())).sum::<u64>();
    wait_until("the rings have less than a MiB each", || all() < (PROGRAMS as u64) << 20);
    wait_until("status says so", || used() < (PROGRAMS as u64) << 20);
    let budget = session.status()["status"]["memory"]["budget"].as_u64().unwrap();
    assert!(budget > used() && used() > 0, "{budget}");
    // Released memory is provided again, and nothing is missing.
    programs.iter().for_each(|program| program.signal(Signal::USR2));
    for program in programs {
        assert_eq!(program.end().status, 0);
    }
    let recordings = session.stop();
    assert_eq!(sum(&recordings, "events"), 2 * 100 * PROGRAMS as u64);
    assert_eq!(sum(&recordings, "ring_full"), 0);
}

/// Rings of a given size, rings that overwrite and rings for which programs wait: none of them gets memory by need.
#[test]
fn rings_that_need_all_of_their_memory_have_it() {
    let scene = Scene::new();
    let program = scene.program("hits.c");
    for (name, options) in [
        ("sized", &["--subbuf-size", "1M", "--num-subbuf", "4"][..]),
        ("overwritten", &["--overwrite"]),
        ("awaited", &["--on-full", "block"]),
    ] {
        let session = ScopedSession::start(&scene, name, options);
        let mut program = Command::new(&program);
        let mut program = ScopedSession::join(&scene, program.arg("1").env("SORDINO_ALLOW_BLOCKING", "1"));
        program.says("ready");
        let rings = session.records(program.pid())["rings"].as_array().unwrap().clone();
        let size: u64 = rings.iter().map(|ring| ring["size"].as_u64().unwrap()).sum();
        assert!(memory_of(program.pid()) >= size && size > 0, "{name}: {size}");
        program.signal(Signal::USR2);
        program.end();
        session.stop();
        session.destroy();
    }
}

/// Areas are files in memory, which are on no mounted file system.
#[test]
fn rings_take_nothing_from_dev_shm() {
    let Some(scene) = Scene::new().as_root() else { return };
    let program = scene.program("burst.c");
    let recording = scene.record_with(&[], &[program.to_str().unwrap(), "1", "100"], |recorder| {
        let script = "mount -t tmpfs -o size=4k tmpfs /dev/shm && exec \"$@\"";
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--", "sh", "-c", script, "sh"]);
        unshare.arg(recorder.get_program()).args(recorder.get_args());
        unshare.envs(recorder.get_envs().filter_map(|(name, value)| Some((name, value?))));
        *recorder = unshare;
    });
    assert_eq!((recording.user_events(), recording.lost()), (100, 0));
}

/// "A hit never faults": not on pages that come while a program writes at full speed, nor on those that went and came
/// again.
#[test]
fn a_program_takes_no_fault_on_pages_that_come_while_it_writes() {
    const EVENTS: u64 = 3_000_000;
    /// Bytes that a program beside another one has at first, and bytes of an event.
    const FIRST: u64 = 8 << 20;
    const EVENT: u64 = 24;
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "faults", &[]);
    let mut idle = ScopedSession::join(&scene, Command::new(scene.program("hits.c")).arg("1"));
    idle.says("ready");
    session.records(idle.pid());
    let program = scene.program("burst.c");
    for threads in ["1", "2"] {
        let arguments = [threads, &EVENTS.to_string(), "0", "faults"];
        let burst = ScopedSession::join(&scene, Command::new(&program).args(arguments)).end();
        assert_eq!((burst.status, &*burst.output), (0, "faults=0\n"), "{}", burst.errors);
    }
    idle.signal(Signal::USR2);
    idle.end();
    let recordings = session.stop();
    let recorded = sum(&recordings, "events");
    assert_eq!(recorded + sum(&recordings, "ring_full"), 3 * EVENTS + 2);
    assert!(recorded * EVENT > 3 * FIRST, "{recorded} events need no pages besides the first");
}

/// A program that is faster than its memory grows loses exactly the events that it counts.
#[test]
fn a_session_uses_no_more_than_its_budget_and_what_it_costs_is_told() {
    const EVENTS: u64 = 3_000_000;
    let scene = Scene::new();
    let program = scene.program("burst.c");
    let options = ["--max-memory", "2M", "--read-timer", "20ms"];
    let recording = scene.record(&options, &[program.to_str().unwrap(), "1", &EVENTS.to_string()]);
    assert_eq!(recording.user_events() + recording.lost(), EVENTS);
    assert_eq!(recording.sum("ring_full"), recording.lost());
    let mut events = recording.events();
    // It may have moved to another CPU, whose stream is read first.
    events.sort_by_key(|event| event.time);
    assert!(events.windows(2).all(|pair| pair[0].numbers[1] < pair[1].numbers[1]));
    let notes = recording.notes();
    assert!(notes.contains("--max-memory") && notes.contains("2 MiB"), "{notes}");
}

/// If another process has nearly all memory of the recorder's control group, the kernel would kill one of the two for
/// the rings' memory.
#[test]
fn in_a_full_control_group_nobody_is_killed_and_what_is_lost_is_counted() {
    const EVENTS: u64 = 1_000_000;
    let Some(scene) = Scene::new().as_root() else { return };
    let Some(group) =
        ControlGroup::new("memory", &[("memory.limit_in_bytes", "160M")], &[("memory.max", "160M")])
    else {
        return Scene::not_measured("a full control group: no memory controller is mounted");
    };
    let (ballast, program) = (scene.program("ballast.c"), scene.program("burst.c"));
    let mut ballast = scene.start(&mut group.of(Command::new(ballast).arg("130")));
    ballast.says("ready");
    let recording =
        scene.record_with(&[], &[program.to_str().unwrap(), "1", &EVENTS.to_string()], |recorder| {
            *recorder = group.of(recorder);
        });
    assert!(ballast.is_running(), "the kernel killed a process of the group");
    assert_eq!(recording.user_events() + recording.lost(), EVENTS);
    assert!(recording.user_events() > 0 && recording.lost() > 0);
    let notes = recording.notes();
    assert!(notes.contains("a control group of the recorder") && !notes.contains("--max-memory"), "{notes}");
}

#[test]
fn a_budget_that_is_no_size_is_refused() {
    let scene = Scene::new();
    scene.refuses(2, &["--max-memory", "1M"], &["record", "--max-memory", "4K", "--", "true"]);
    scene.refuses(2, &["--max-memory", "is no size"], &["record", "--max-memory", "many", "--", "true"]);
}

/// Pages come and go while threads write on every CPU: bursts with pauses in which the rings are idle.
#[test]
fn bursts_between_idle_times_are_recorded_whole_or_counted() {
    const EVENTS: u64 = 400_000;
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "bursts", &[]);
    let (program, waiter) = (scene.program("burst.c"), scene.program("hits.c"));
    // One that is idle all the time: its rings give memory back while the others come and go.
    let mut idle = ScopedSession::join(&scene, Command::new(waiter).arg("10000"));
    idle.says("ready");
    wait_until("it has memory before it needs it, as it is alone", || memory_of(idle.pid()) > 16 << 20);
    for _ in 0..3 {
        let burst =
            ScopedSession::join(&scene, Command::new(&program).args(["4", &(EVENTS / 4).to_string()]));
        assert_eq!(burst.end().status, 0);
    }
    wait_until("the idle one has given memory back", || memory_of(idle.pid()) < 14 << 20);
    idle.signal(Signal::USR2);
    assert_eq!(idle.end().status, 0);
    let recordings = session.stop();
    assert_eq!(sum(&recordings, "events") + sum(&recordings, "ring_full"), 3 * EVENTS + 20_000);
}
