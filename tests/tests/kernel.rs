//! The kernel's events beside the programs', on one clock.

use sordino_tests::{Recording, Scene, Seen};
use std::process::Command;

/// x86-64's number of getpid(2).
const GETPID: i64 = 39;

/// Whether an event is the recorder's, not the kernel's: the state at the start, stolen time.
fn is_ours(text: &str) -> bool {
    text.contains("_statedump_") || text.contains("sordino_steal")
}

/// The kernel's own events.
fn kernel(recording: &Recording) -> Vec<Seen> {
    let events = recording.kernel_events();
    let mut events: Vec<Seen> = events.into_iter().filter(|event| !is_ours(&event.name)).collect();
    events.sort_by_key(|event| event.time);
    events
}

/// Three readers agree on the kernel's events, too.
fn assert_counts(recording: &Recording) {
    let counted: u64 = recording.summary["kernel"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cpu| cpu["events"].as_u64().unwrap())
        .sum();
    assert_eq!(kernel(recording).len() as u64, counted);
    let lines =
        sordino_tests::install::succeed(Command::new("babeltrace2").arg(recording.path.join("kernel")));
    assert_eq!(lines.lines().filter(|line| !is_ours(line)).count() as u64, counted);
}

/// "A tracepoint between two system calls of the same thread lies between their sys_enter events."
#[test]
fn events_of_programs_and_of_the_kernel_interleave_as_they_happened() {
    const COUNT: usize = 20_000;
    let scene = Scene::new();
    let program = scene.program("getpids.c");
    let filter = format!("raw_syscalls:sys_enter if id == {GETPID}");
    let count = COUNT.to_string();
    let recording =
        scene.record(&["--kernel", &filter, "--fail-on-loss"], &[program.to_str().unwrap(), &count]);
    assert_eq!(recording.ended.status, 0, "{}", recording.summary);
    assert_counts(&recording);
    let user = recording.events();
    assert_eq!(user.len(), COUNT);
    let tid = user[0].tid;
    let calls: Vec<Seen> = kernel(&recording).into_iter().filter(|event| event.tid == tid).collect();
    assert!(
        calls.iter().all(|event| event.name == "sys_enter" && event.numbers[0] == GETPID),
        "the filter lets others pass"
    );
    // The dynamic linker or the C library may have asked before.
    let calls = &calls[calls.len() - COUNT - 1..];
    let mut user: Vec<&Seen> = user.iter().collect();
    user.sort_by_key(|event| event.time);
    for (event, pair) in user.iter().zip(calls.windows(2)) {
        assert!(pair[0].time < event.time && event.time < pair[1].time, "{event:?} is not between {pair:?}");
    }
}

/// "--cpus": nothing is recorded on others, neither of the kernel nor of programs.
#[test]
fn only_the_cpus_that_are_wanted_are_recorded() {
    let scene = Scene::new();
    let program = scene.program("getpids.c");
    for (cpu, expected) in [("0", 500), ("1", 0)] {
        let recording = scene
            .record(&["--kernel", "raw_syscalls", "--cpus", "0"], &[program.to_str().unwrap(), "500", cpu]);
        assert_eq!((recording.user_events(), recording.lost()), (expected, 0), "{}", recording.summary);
        assert_counts(&recording);
        let events = kernel(&recording);
        assert!(events.iter().all(|event| event.cpu == Some(0)));
        let calls = events.iter().filter(|event| event.name == "sys_enter" && event.numbers[0] == GETPID);
        assert!(calls.count() as u64 >= expected);
    }
}

/// "--kernel-tid": the events of that thread and what it forks, and of no other.
#[test]
fn only_the_threads_that_are_wanted_are_recorded() {
    let scene = Scene::new();
    let go_on = scene.path("go-on");
    let waiter = scene.start(Command::new(scene.program("waiter.c")).arg(&go_on));
    let tid = waiter.pid();
    let options = ["--kernel", "raw_syscalls", "--kernel-tid", &tid.to_string()];
    let script = format!("sleep 0.1; touch {}; sleep 0.3", go_on.display());
    let recording = scene.record(&options, &["sh", "-c", &script]);
    assert_eq!(waiter.end().status, 0);
    assert_counts(&recording);
    let events = kernel(&recording);
    assert!(events.iter().any(|event| event.tid == tid), "nothing of the thread that is wanted");
    let threads: std::collections::BTreeSet<i32> = events.iter().map(|event| event.tid).collect();
    assert_eq!(threads.len(), 2, "it, and what it forks: {threads:?}");
    // This process and the recorder call the kernel all the time, too.
    let recorder = recording.summary["recorder"].as_i64().unwrap() as i32;
    let others: Vec<i32> = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .filter_map(|thread| thread.file_name().to_str()?.parse().ok())
        .chain([recorder])
        .collect();
    assert!(threads.iter().all(|thread| !others.contains(thread)), "{threads:?}");
}

/// Groups, globs and single events with filters, in one list; a schedule that makes sense.
#[test]
fn groups_and_events_are_chosen_together() {
    let scene = Scene::new();
    let program = scene.program("crowd.c");
    let recording = scene.record(
        &["--kernel", "sched_switch,sched_wak*", "--kernel", "irq", "--fail-on-loss"],
        &[program.to_str().unwrap(), "50"],
    );
    assert_eq!(recording.ended.status, 0, "{}", recording.summary);
    assert_counts(&recording);
    let chosen = recording.summary["kernel_events"].as_array().unwrap();
    let has = |name: &str| chosen.iter().any(|event| event == name);
    assert!(has("sched:sched_switch") && has("sched:sched_wakeup") && has("irq:softirq_entry"), "{chosen:?}");
    assert!(!has("sched:sched_process_fork"));
    // The program's threads are switched from where they were switched to. Of others, as of idle ones, some kernels don't say it.
    let ours: std::collections::BTreeSet<i32> = recording.events().iter().map(|event| event.tid).collect();
    let (mut running, mut switches) = (std::collections::HashMap::new(), 0);
    for event in kernel(&recording).iter().filter(|event| event.name == "sched_switch") {
        let (from, to) = (event.tid, event.numbers[5]);
        if let Some(expected) =
            running.insert(event.cpu, to).filter(|thread| ours.contains(&(*thread as i32)))
        {
            assert_eq!(i64::from(from), expected, "{event:?}");
            switches += 1;
        }
    }
    assert!(switches > 5, "{switches}");
    recording.babeltrace_reads_all();
}
