//! The kernel's events beside the programs'.

mod support;

use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use support::Scene;
use support::recording::{Recording, babeltrace, counts, name_in, named};

/// The number of the system call `getppid`.
const GETPPID: i64 = if cfg!(target_arch = "x86_64") { 110 } else { 173 };

/// Whether an event happened; the recorder adds the state at the start, and time that a hypervisor took.
fn is_recorded(name: &str) -> bool {
    !name.contains("_statedump_") && name != "sordino_steal"
}

fn listed(scene: &Scene) -> Vec<Value> {
    let mut events = scene.listed("trace");
    events.retain(|event| is_recorded(event["name"].as_str().unwrap_or_default()));
    events
}

/// The recorder's counts, the listing's and babeltrace2's are the same.
#[track_caller]
fn assert_counts(recording: &Recording, events: &[Value]) {
    assert_eq!((recording.status, recording.lost(), recording.notes().as_str()), (0, 0, ""));
    let of_user = events.iter().filter(|event| event["domain"] == "user").count() as u64;
    assert_eq!(
        (recording.user_events(), recording.kernel_events()),
        (of_user, events.len() as u64 - of_user)
    );
    let (lines, complaints) = babeltrace(&recording.path);
    assert_eq!(complaints, "");
    let names = lines.iter().map(|line| name_in(line)).filter(|name| is_recorded(name));
    assert_eq!(counts(names), counts(events.iter().map(|event| event["name"].as_str().unwrap())));
}

#[test]
fn an_event_between_two_system_calls_lies_between_them_in_time() {
    let Some(scene) = Scene::as_root() else { return };
    let program = scene.compile("between");
    let filter = format!("sys_enter if id == {GETPPID}");
    let recording = scene.record("trace", &["--kernel", &filter], &[program.to_str().unwrap()]);
    let events = listed(&scene);
    assert_counts(&recording, &events);
    assert!(named(&events, "sys_enter").iter().all(|event| event["fields"]["id"] == GETPPID));
    let tid = &named(&events, "between:calls")[0]["tid"];
    let mut thread = events.iter().filter(|event| event["tid"] == *tid);
    for number in 0..1000 {
        let mut next = || thread.next().expect("an event");
        let (before, event, after) = (next(), next(), next());
        assert_eq!((&before["name"], &after["name"]), (&"sys_enter".into(), &"sys_enter".into()));
        assert_eq!(event["fields"]["number"], number, "{event}");
        let times = [before, event, after].map(|event| event["time_ns"].as_i64().unwrap());
        assert!(times.is_sorted(), "{times:?}");
    }
    assert!(thread.next().is_none());
}

#[test]
fn each_selection_has_its_own_filter() {
    let Some(scene) = Scene::as_root() else { return };
    let program = scene.compile("between");
    let [enter, exit] = [format!("sys_enter if id == {GETPPID}"), "sys_exit if id == -7".to_owned()];
    let options = ["--kernel", &enter, "--kernel", &exit, "--kernel", "sched_process_exec,sched_process_f*"];
    let recording = scene.record("trace", &options, &["sh", "-c", &format!("{0}; {0}", program.display())]);
    let events = listed(&scene);
    assert_counts(&recording, &events);
    assert!(named(&events, "sys_exit").is_empty());
    assert_eq!(named(&events, "between:calls").len(), 2000);
    // `sh` itself may ask for its pid; so may others meanwhile.
    let tids: BTreeSet<i64> =
        named(&events, "between:calls").iter().map(|event| event["tid"].as_i64().unwrap()).collect();
    assert_eq!(tids.len(), 2);
    for tid in tids {
        let enters = named(&events, "sys_enter").into_iter().filter(|event| event["tid"] == tid).count();
        let execs = named(&events, "sched_process_exec");
        assert_eq!(enters, 2000);
        assert!(execs.iter().any(|event| event["tid"] == tid), "{execs:?}");
    }
}

#[test]
fn the_kernels_events_of_one_thread_are_those_of_one_thread() {
    let Some(scene) = Scene::as_root() else { return };
    let program = scene.compile("between");
    let mut running = scene.start(Command::new(program).arg("wait"));
    running.says("ready");
    let tid = running.pid();
    let options = ["--kernel", "raw_syscalls", "--kernel-tid", &tid.to_string()];
    let recorder = scene.attach("trace", tid, &options);
    // The kernel's events are switched on after the program's.
    support::wait_until("the kernel's events are recorded", || is_tracing(recorder.pid()));
    running.signal(Signal::USR1);
    running.end().succeeded();
    let recording = Recording::of(scene.path("trace"), &recorder.end());
    let events = listed(&scene);
    assert_counts(&recording, &events);
    let of_others: Vec<&Value> = events.iter().filter(|event| event["tid"] != tid).collect();
    assert!(of_others.is_empty(), "{tid}: {of_others:?}");
    let calls = named(&events, "sys_enter").into_iter().filter(|event| event["fields"]["id"] == GETPPID);
    assert_eq!((calls.count(), named(&events, "between:calls").len()), (2000, 1000));
}

/// Whether the recorder's instance traces: the thread that empties it starts then.
fn is_tracing(recorder: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{recorder}/task")).into_iter().flatten().flatten();
    let mut names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")));
    names.any(|name| name.is_ok_and(|name| name == "sordino-kernel\n"))
}

#[test]
fn only_the_cpus_that_are_asked_for_are_recorded() {
    let Some(scene) = Scene::as_root() else { return };
    let allowed = sordino_sched::affinity().unwrap();
    let [wanted, .., other] = allowed.as_slice() else {
        eprintln!("not measured here: it needs two CPUs");
        return;
    };
    let npt = |cpu: &u32| format!("./sordino npt --prio 0 --warm-up 0 --loops 5000 --cpu {cpu} >npt.out");
    let script = format!("{}; {}", npt(wanted), npt(other));
    let cpus = wanted.to_string();
    let options = ["--cpus", &cpus, "--kernel", "sched_switch,raw_syscalls"];
    let recording = scene.record("trace", &options, &["sh", "-c", &script]);
    let events = listed(&scene);
    assert_counts(&recording, &events);
    assert_eq!(named(&events, "npt:loop").len(), 5000);
    assert!(events.iter().all(|event| event["cpu"] == *wanted));
    assert!(!named(&events, "sched_switch").is_empty());
}
