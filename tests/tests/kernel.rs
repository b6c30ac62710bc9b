//! The kernel's events beside the programs', on one clock.

use rustix::process::Signal;
use serde_json::Value;
use sordino_ctf::read::Trace;
use sordino_event::{Classes, PriorityNumbering};
use sordino_tests::listing::{babeltrace, counts, name_in, named};
use sordino_tests::{CompletedRecording, NOBODY, RecordedEvent, Scene, wait_until};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::process::Command;

/// The number of the system call `getppid`.
const GETPPID: i64 = if cfg!(target_arch = "x86_64") { 110 } else { 173 };

/// Returns true for an event that happened; the recorder adds the state dump, and time that a hypervisor took.
fn happened(name: &str) -> bool {
    !name.contains("_statedump_") && name != "sordino_steal"
}

/// Returns the kernel's own events.
fn kernel(recording: &CompletedRecording) -> Vec<RecordedEvent> {
    let mut events = recording.events_of_kernel();
    events.retain(|event| happened(&event.name));
    events.sort_by_key(|event| event.time);
    events
}

/// Returns the events that `sordino events` lists, after asserting that the recorder, sordino's reader, the listing and
/// babeltrace2 agree on their number.
#[track_caller]
fn listed(scene: &Scene, recording: &CompletedRecording) -> Vec<Value> {
    let ended = &recording.ended;
    assert_eq!(
        (ended.status, recording.lost(), recording.notes()),
        (0, 0, String::new()),
        "{}",
        ended.errors
    );
    let mut events = scene.listed(&recording.path);
    events.retain(|event| happened(event["name"].as_str().unwrap_or_default()));
    let of_user = events.iter().filter(|event| event["domain"] == "user").count();
    let counted = [recording.user_events(), recording.kernel_events()].map(|count| count as usize);
    assert_eq!(counted, [of_user, events.len() - of_user], "the listing");
    assert_eq!(counted, [recording.events().len(), kernel(recording).len()], "sordino's reader");
    let (lines, complaints) = babeltrace(&recording.path);
    assert_eq!(complaints, "");
    let names = lines.iter().map(|line| name_in(line)).filter(|name| happened(name));
    assert_eq!(counts(names), counts(events.iter().map(|event| event["name"].as_str().unwrap())));
    let (lines, _) = babeltrace(&recording.path.join("kernel"));
    assert_eq!(lines.iter().filter(|line| happened(name_in(line))).count(), counted[1]);
    events
}

#[test]
fn a_thread_has_the_name_it_gives_itself_while_it_runs_on() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("renamed.c");
    let recording = scene.record(&["--kernel", "sched_switch"], &[program.to_str().unwrap()]);
    let events = listed(&scene, &recording);
    let names: Vec<&Value> = named(&events, "renamed:to").iter().map(|event| &event["comm"]).collect();
    assert_eq!(names.len(), 1_000);
    for (number, name) in names.iter().enumerate() {
        assert_eq!(**name, format!("name {number}"));
    }
    // Without switches, the trace has the requested events and no others.
    let recording = scene.record(&["--kernel", "sched_wakeup"], &[program.to_str().unwrap()]);
    assert_eq!(recording.summary["kernel_events"], serde_json::json!(["sched:sched_wakeup"]));
}

#[test]
fn the_trace_states_how_its_priorities_are_numbered() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let recording = scene.record(&["--kernel", "sched_switch"], &["sleep", "0.1"]);
    let events = scene.listed(&recording.path);
    let fields = named(&events, "sched_switch").into_iter().map(|event| &event["fields"]);
    let sleeping: Vec<&Value> = fields.filter(|fields| fields["prev_comm"] == "sleep").collect();
    // LTTng's number of an ordinary thread; it is as nice as this one.
    let expected = 20 + rustix::process::getpriority_process(None).unwrap();
    assert!(sleeping.iter().any(|fields| fields["prev_prio"] == expected), "{sleeping:?}");
    let trace = Trace::open(recording.path.join("kernel"), &mut Classes::default()).unwrap();
    let stated = trace.environment().text(PriorityNumbering::ENTRY).and_then(PriorityNumbering::from_name);
    assert_eq!(stated, Some(PriorityNumbering::Lttng));
}

/// "A tracepoint between two system calls of the same thread lies between their sys_enter events."
#[test]
fn events_of_programs_and_of_the_kernel_interleave_as_they_happened() {
    const COUNT: usize = 20_000;
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("between.c");
    let filter = format!("raw_syscalls:sys_enter if id == {GETPPID}");
    let command = [program.to_str().unwrap(), &COUNT.to_string()];
    let recording = scene.record(&["--kernel", &filter, "--fail-on-loss"], &command);
    let events = listed(&scene, &recording);
    assert!(named(&events, "sys_enter").iter().all(|event| event["fields"]["id"] == GETPPID));
    let tid = &named(&events, "between:calls")[0]["tid"];
    let thread: Vec<&Value> = events.iter().filter(|event| event["tid"] == *tid).collect();
    assert_eq!(thread.len(), 2 * COUNT + 1);
    for (number, trio) in thread.windows(3).step_by(2).enumerate() {
        let [before, event, after] = trio else { unreachable!() };
        assert_eq!((&before["name"], &after["name"]), (&"sys_enter".into(), &"sys_enter".into()));
        assert_eq!((&event["name"], &event["fields"]["number"]), (&"between:calls".into(), &number.into()));
        let [before, event, after] = [before, event, after].map(|event| event["time_ns"].as_i64().unwrap());
        assert!(before < event && event < after, "{event} is not between {before} and {after}");
    }
    // The same by what each reader of a part has.
    let mut user = recording.events();
    user.sort_by_key(|event| event.time);
    let calls = kernel(&recording).into_iter().filter(|event| event.tid == user[0].tid);
    let calls: Vec<RecordedEvent> = calls.collect();
    assert_eq!((user.len(), calls.len()), (COUNT, COUNT + 1));
    assert!(calls.iter().all(|call| call.name == "sys_enter" && call.numbers[0] == GETPPID));
    for (event, pair) in user.iter().zip(calls.windows(2)) {
        assert!(pair[0].time < event.time && event.time < pair[1].time, "{event:?} is not between {pair:?}");
    }
}

#[test]
fn each_selection_has_its_own_filter() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("between.c");
    let [enter, exit] = [format!("sys_enter if id == {GETPPID}"), "sys_exit if id == -7".to_owned()];
    let options = ["--kernel", &enter, "--kernel", &exit, "--kernel", "sched_process_exec,sched_process_f*"];
    let recording = scene.record(&options, &["sh", "-c", &format!("{0} 2000; {0} 2000", program.display())]);
    let events = listed(&scene, &recording);
    assert!(named(&events, "sys_exit").is_empty());
    let hits = named(&events, "between:calls");
    assert_eq!(hits.len(), 4000);
    // `sh` itself may call `getppid`, and other processes meanwhile, too.
    let tids: BTreeSet<i64> = hits.iter().map(|event| event["tid"].as_i64().unwrap()).collect();
    assert_eq!(tids.len(), 2);
    for tid in tids {
        let enters = named(&events, "sys_enter").into_iter().filter(|event| event["tid"] == tid).count();
        let execs = named(&events, "sched_process_exec");
        assert_eq!(enters, 2001);
        assert!(execs.iter().any(|event| event["tid"] == tid), "{execs:?}");
    }
}

/// "--cpus": nothing is recorded on others, neither of the kernel nor of programs.
#[test]
fn only_the_cpus_that_are_wanted_are_recorded() {
    const COUNT: usize = 5000;
    let Some(scene) = Scene::checked().as_root() else { return };
    let allowed = sordino_sched::affinity().unwrap();
    let [chosen, .., other] = allowed.as_slice() else {
        return Scene::not_measured("it needs two CPUs");
    };
    let program = scene.program("between.c");
    for (cpu, expected) in [(chosen, COUNT), (other, 0)] {
        let options = ["--kernel", "sched_switch,raw_syscalls", "--cpus", &chosen.to_string()];
        let command = [program.to_str().unwrap(), &COUNT.to_string(), &cpu.to_string()];
        let recording = scene.record(&options, &command);
        let events = listed(&scene, &recording);
        assert_eq!(named(&events, "between:calls").len(), expected);
        assert!(events.iter().all(|event| event["cpu"] == *chosen));
        assert!(kernel(&recording).iter().all(|event| event.cpu == Some(*chosen)));
        assert!(expected == 0 || !named(&events, "sched_switch").is_empty());
        let calls = named(&events, "sys_enter").into_iter().filter(|event| event["fields"]["id"] == GETPPID);
        assert!(calls.count() >= expected);
    }
}

/// "--kernel-tid": the events of that thread and what it forks, and of no other.
#[test]
fn only_the_threads_that_are_wanted_are_recorded() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let go_on = scene.path("go-on");
    let waiter = scene.start(Command::new(scene.program("waiter.c")).arg(&go_on));
    let tid = waiter.pid();
    let options = ["--kernel", "raw_syscalls", "--kernel-tid", &tid.to_string()];
    let script = format!("sleep 0.1; touch {}; sleep 0.3", go_on.display());
    let recording = scene.record(&options, &["sh", "-c", &script]);
    assert_eq!(waiter.end().status, 0);
    listed(&scene, &recording);
    let events = kernel(&recording);
    assert!(events.iter().any(|event| event.tid == tid), "nothing of the thread that is wanted");
    let threads: BTreeSet<i32> = events.iter().map(|event| event.tid).collect();
    assert_eq!(threads.len(), 2, "it, and what it forks: {threads:?}");
    // This process and the recorder call the kernel all the time, too.
    let recorder = recording.summary["recorder"].as_i64().unwrap() as i32;
    let others: Vec<i32> = fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .filter_map(|thread| thread.file_name().to_str()?.parse().ok())
        .chain([recorder])
        .collect();
    assert!(threads.iter().all(|thread| !others.contains(thread)), "{threads:?}");
}

/// The filter holds for a program that is recorded, too.
#[test]
fn the_kernels_events_of_one_thread_are_those_of_one_thread() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let mut running = scene.start(Command::new(scene.program("between.c")).args(["1000", "wait"]));
    running.says("ready");
    let tid = running.pid();
    let attached = scene.attach(tid, &["--kernel", "raw_syscalls", "--kernel-tid", &tid.to_string()]);
    // The kernel's events are switched on after the program's.
    wait_until("the kernel's events are recorded", || is_tracing(attached.running.pid()));
    running.signal(Signal::USR1);
    running.end().succeeded();
    let events = listed(&scene, &attached.end());
    let of_others: Vec<&Value> = events.iter().filter(|event| event["tid"] != tid).collect();
    assert!(of_others.is_empty(), "{tid}: {of_others:?}");
    let calls = named(&events, "sys_enter").into_iter().filter(|event| event["fields"]["id"] == GETPPID);
    assert_eq!((calls.count(), named(&events, "between:calls").len()), (1001, 1000));
}

/// Returns true if the recorder's instance traces: the thread that empties it runs then.
fn is_tracing(recorder: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{recorder}/task")).into_iter().flatten().flatten();
    let mut names = threads.map(|thread| fs::read_to_string(thread.path().join("comm")));
    names.any(|name| name.is_ok_and(|name| name == "sordino-kernel\n"))
}

/// Groups, globs and single events with filters, in one list; a schedule that makes sense.
#[test]
fn groups_and_events_are_chosen_together() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("crowd.c");
    let recording = scene.record(
        &["--kernel", "sched_switch,sched_wak*", "--kernel", "irq", "--fail-on-loss"],
        &[program.to_str().unwrap(), "50"],
    );
    assert_eq!(recording.ended.status, 0, "{}", recording.summary);
    listed(&scene, &recording);
    let chosen = recording.summary["kernel_events"].as_array().unwrap();
    let has = |name: &str| chosen.iter().any(|event| event == name);
    assert!(has("sched:sched_switch") && has("sched:sched_wakeup") && has("irq:softirq_entry"), "{chosen:?}");
    assert!(!has("sched:sched_process_fork"));
    assert!(has("task:task_rename"), "what threads are called goes with switches: {chosen:?}");
    // Each of the program's threads is switched out where it was switched in. Some kernels do not report that of other
    // threads, such as idle ones.
    let ours: BTreeSet<i32> = recording.events().iter().map(|event| event.tid).collect();
    let (mut running, mut switches) = (HashMap::new(), 0);
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

#[test]
fn the_kernels_events_are_listed_for_root_and_their_absence_is_explained_to_others() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let groups = scene.sordino(&["list"]);
    let sched = groups.succeeded().lines().find(|line| line.trim().starts_with("sched ")).expect("sched");
    let count: usize = sched.split_whitespace().nth(1).unwrap().parse().unwrap();
    let each = scene.sordino(&["list", "-v"]);
    assert_eq!(each.succeeded().lines().filter(|line| line.starts_with("  sched:")).count(), count);
    let json: Value = serde_json::from_str(scene.sordino(&["list", "--json"]).succeeded()).unwrap();
    let events = json["kernel"]["events"].as_array().unwrap();
    let of_sched = events.iter().filter(|event| event.as_str().unwrap().starts_with("sched:"));
    assert_eq!((of_sched.count(), &json["kernel"]["problem"]), (count, &Value::Null));
    let ended = scene.run(&mut scene.command_of(NOBODY, &["list", "--json"]));
    let json: Value = serde_json::from_str(ended.succeeded()).unwrap();
    assert_eq!(json["kernel"]["events"].as_array().unwrap().len(), 0);
    assert!(json["kernel"]["problem"].as_str().is_some_and(|text| text.contains("root")), "{json}");
    assert!(json["hidden_processes"].as_u64().is_some_and(|count| count > 0));
}
