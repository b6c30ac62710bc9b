//! Contexts of threads in their events, and annotations that threads set themselves.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::listing::named;
use sordino_tests::session::ScopedSession;
use sordino_tests::{CompletedRecording, RunningProcess, Scene, wait_until};
use std::process::Command;

fn started(scene: &Scene, arguments: &[&str]) -> RunningProcess {
    let mut running = ScopedSession::join(scene, Command::new(scene.program("contexts.c")).args(arguments));
    running.says("ready");
    running
}

fn steps(items: &[Value]) -> Vec<&Value> {
    let steps = named(items, "contexts:step");
    assert!(steps.len() > 10, "{} steps", steps.len());
    steps
}

/// Hits some events, and returns the state of the threads.
fn a_while() {
    std::thread::sleep(std::time::Duration::from_millis(400));
}

fn next_phase(running: &RunningProcess) {
    a_while();
    running.signal(Signal::USR1);
    a_while();
}

#[test]
fn each_event_has_what_its_thread_said_and_what_the_recorder_saw() {
    let scene = Scene::new();
    let running = started(&scene, &["2"]);
    let pid = running.pid();
    let attached = scene.attach(pid, &["--user", "contexts:*", "--context", "all"]);
    next_phase(&running);
    next_phase(&running);
    let recording = attached.stop();
    running.signal(Signal::TERM);
    running.end().succeeded();
    let items = scene.listed(&recording.path);
    for step in steps(&items) {
        let (context, fields) = (&step["context"], &step["fields"]);
        // The annotation was set before the recording began, or during it.
        assert_eq!(context["annotations"]["phase"], fields["phase"].to_string(), "{step}");
        let role = format!("worker {}", fields["worker"]);
        match fields["phase"].as_u64() {
            Some(2) => assert_eq!(context["annotations"].get("role"), None, "{step}"),
            _ => assert_eq!(context["annotations"]["role"], role.as_str(), "{step}"),
        }
        assert_eq!((&context["policy"], &context["nice"]), (&"OTHER".into(), &nice().into()), "{step}");
        assert_eq!((&context["vpid"], &context["tid"]), (&pid.into(), &step["tid"]), "{step}");
        assert!(context["cgroup"].as_str().is_some_and(|path| path.contains('/')), "{step}");
        assert_eq!(context["comm"], step["comm"]);
    }
    let steps = steps(&items);
    let first = &steps[0];
    assert_eq!(first["comm"], format!("worker-{}", first["fields"]["worker"]), "{first}");
    assert_eq!(steps[steps.len() - 1]["comm"], "named \u{fffd}", "a name may hold any bytes");
    reads_as_text(&scene, &recording);
    recording.babeltrace_reads_all();
}

/// Returns the tests' own nice value, which programs inherit.
fn nice() -> i32 {
    rustix::process::getpriority_process(None).unwrap()
}

fn reads_as_text(scene: &Scene, recording: &CompletedRecording) {
    let path = recording.path.to_str().unwrap();
    let text = scene.sordino(&["events", path]);
    let line = text.succeeded().lines().find(|line| line.contains("step worker = 1")).unwrap().to_owned();
    let context = line.split_once('{').expect(&line).1;
    assert!(
        context
            .starts_with(&format!("phase = 0, role = worker 1, priority = OTHER nice {}, cgroup = ", nice())),
        "{line}"
    );
    assert!(!context.contains("tid"), "the line says the ids already: {line}");
}

#[test]
fn a_snapshot_has_values_whose_events_were_overwritten() {
    let scene = Scene::new();
    let small = ["--subbuf-size", "16K", "--num-subbuf", "2"];
    let options = ["--overwrite", "--user", "contexts:*", "--context", "annotations"];
    let session = ScopedSession::start(&scene, "box", &[&options[..], &small].concat());
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "0"]).arg(scene.program("contexts.c"));
    let mut running = ScopedSession::join(&scene, command.args(["1", "0", "50"]));
    running.says("ready");
    session.records(running.pid());
    next_phase(&running);
    a_while();
    let snapshot = session.snapshot(&[]);
    let items = scene.listed(&snapshot);
    assert_eq!(named(&items, "sordino:context").len(), 0, "they are older");
    for step in steps(&items) {
        assert_eq!(step["context"]["annotations"]["role"], "worker 0", "{step}");
        assert_eq!(step["context"]["annotations"]["phase"], "1", "{step}");
        assert_eq!(step["context"].get("policy"), None, "nobody asked for it: {step}");
    }
    running.signal(Signal::TERM);
    running.end().succeeded();
    session.destroy();
}

#[test]
fn each_chunk_has_what_holds_when_it_begins() {
    let scene = Scene::new();
    let options = ["--user", "contexts:*", "--context", "annotations,priority"];
    let session = ScopedSession::start(&scene, "chunks", &options);
    let running = started(&scene, &["1"]);
    session.records(running.pid());
    next_phase(&running);
    session.rotate();
    a_while();
    running.signal(Signal::TERM);
    running.end().succeeded();
    let recordings = session.stop();
    let items = scene.listed(&recordings[1]);
    for step in steps(&items) {
        assert_eq!(step["context"]["annotations"]["phase"], "1", "{step}");
        assert_eq!(step["context"]["policy"], "OTHER", "{step}");
    }
    session.destroy();
}

#[test]
fn values_of_threads_that_have_ended_make_room_and_are_nobody_else_s() {
    let scene = Scene::new();
    let running = started(&scene, &["1", "2000"]);
    let attached = scene.attach(running.pid(), &["--context", "annotations"]);
    a_while();
    let recording = attached.stop();
    running.signal(Signal::TERM);
    running.end().succeeded();
    assert_eq!(recording.notes(), "");
    for step in steps(&scene.listed(&recording.path)) {
        assert_eq!(step["context"]["annotations"]["role"], "worker 0", "{step}");
        assert_eq!(step["context"]["annotations"].get("number"), None, "{step}");
    }
}

#[test]
fn a_thread_in_a_container_has_both_its_ids() {
    let Some(scene) = Scene::new().as_root() else { return };
    let session = ScopedSession::start(&scene, "host", &["--user", "contexts:*", "--context", "ids,comm"]);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--fork", "--mount-proc"]).arg(scene.program("contexts.c"));
    let mut running = scene.start(command.arg("1").env_remove("SORDINO_RUNTIME_DIR"));
    running.says("ready");
    let programs = || session.status()["status"]["programs"].as_array().unwrap().clone();
    wait_until("it is found", || programs().iter().any(|program| program["own_pid"] == 1));
    let inside = programs().into_iter().find(|program| program["own_pid"] == 1).unwrap();
    a_while();
    let _ = Command::new("kill").arg(inside["pid"].to_string()).status();
    wait_until("it has ended", || !running.is_running());
    let recordings = session.stop();
    let items = scene.listed(&recordings[0]);
    for step in steps(&items) {
        let context = &step["context"];
        assert_eq!((&step["pid"], &context["vpid"]), (&inside["pid"], &1.into()), "{step}");
        assert_eq!(step["comm"], "worker-0");
        // The worker is the second thread in the container and outside.
        assert!(
            step["tid"].as_i64() < Some(10) && context["tid"].as_i64() > inside["pid"].as_i64(),
            "{step}"
        );
    }
    session.destroy();
}

#[test]
fn a_context_that_there_is_not_is_refused_with_those_there_are() {
    let scene = Scene::new();
    let arguments = ["record", "--context", "comm,colour", "--", "true"];
    scene.refuses(
        2,
        &["there is no context 'colour'", "comm, ids, priority, cgroup, annotations, counters, all"],
        &arguments,
    );
}
