//! The recorder's load: it stays off the programs' CPUs, examines few processes, and still finds programs that do not
//! register. Its remaining load is attributed to it.

use rustix::process::Signal;
use serde_json::Value;
use sordino_sched::{CpuList, affinity};
use sordino_tests::session::ScopedSession;
use sordino_tests::{CompletedRecording, Scene, last_cpu, wait_until};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// The CPUs that a thread may use, as `/proc` lists them; empty if it is gone.
fn cpus_of(pid: i32, tid: i32) -> CpuList {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.and_then(|list| list.trim().parse().ok()).unwrap_or_default()
}

/// The CPUs that the threads of a process may use, by name.
fn threads_of(pid: i32) -> Vec<(String, CpuList)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    let thread = |tid| {
        let comm = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        (comm.trim().to_owned(), cpus_of(pid, tid))
    };
    tids.map(thread).collect()
}

/// The children of a process.
fn children_of(pid: i32) -> Vec<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// All CPUs of this test, the last of them, and those that are left for a recorder. None where there is one only.
fn cpus() -> Option<(CpuList, u32, CpuList)> {
    let all = affinity().unwrap();
    let last = *all.as_slice().last().unwrap();
    let others = all.without(&CpuList::new([last]));
    if others.is_empty() {
        Scene::not_measured("a recorder that keeps off a program's CPU, for there is only one");
        return None;
    }
    Some((all, last, others))
}

#[test]
fn a_recorder_keeps_off_the_cpu_on_which_its_program_records() {
    let Some((all, last, others)) = cpus() else { return };
    let scene = Scene::new();
    let program = scene.program("steady.c");
    let script = format!("taskset -c {last} {} 20000 & wait", program.display());
    let (mut recorder, output) = scene.recorder(&[]);
    let recorder = scene.start(recorder.args(["--", "sh", "-c", &script]));
    wait_until("all threads are elsewhere", || {
        let threads = threads_of(recorder.pid());
        let has = |name: &str| threads.iter().any(|(comm, _)| comm == name);
        has("sordino-collect") && threads.iter().all(|(_, cpus)| *cpus == others)
    });
    // The command and what it starts have the CPUs that the recorder was started with.
    let shells = children_of(recorder.pid());
    assert_eq!(shells.iter().map(|pid| cpus_of(*pid, *pid)).collect::<Vec<_>>(), [all]);
    let programs = children_of(shells[0]);
    assert_eq!(programs.iter().map(|pid| cpus_of(*pid, *pid)).collect::<Vec<_>>(), [CpuList::new([last])]);
    recorder.signal(Signal::INT);
    let ended = recorder.end();
    Command::new("kill").arg(programs[0].to_string()).status().unwrap();
    let recording = CompletedRecording::of(ended, output);
    let cpus = &recording.summary["recorder_cpus"];
    assert_eq!((&cpus["cpus"], &cpus["programs"]), (&others.to_string().into(), &last.to_string().into()));
    assert_eq!((&cpus["apart"], &cpus["collector"]), (&true.into(), &Value::Null), "{cpus}");
}

#[test]
fn a_collector_stays_where_the_user_wants_it() {
    let Some((_, last, others)) = cpus() else { return };
    let scene = Scene::new();
    let program = scene.program("steady.c");
    let chosen = last.to_string();
    let session = ScopedSession::start(&scene, "stays", &["--user", "steady:*", "--collector-cpu", &chosen]);
    let mut command = Command::new("taskset");
    let program = ScopedSession::join(&scene, command.args(["-c", &chosen]).arg(program).arg("20000"));
    let recorder = session.recorder();
    wait_until("all other threads are elsewhere", || {
        let mut threads = threads_of(recorder);
        threads.retain(|(comm, _)| comm != "sordino-collect");
        threads.len() > 1 && threads.iter().all(|(_, cpus)| *cpus == others)
    });
    let threads = threads_of(recorder);
    let collector = threads.iter().find(|(comm, _)| comm == "sordino-collect").unwrap();
    assert_eq!(collector.1, CpuList::new([last]));
    let line = format!(
        "recorder on CPU {others}, kept off CPU {last}, where programs run; its collector on CPU {last}"
    );
    let status = session.ask(&["status", "stays"]);
    assert!(status.succeeded().contains(&line), "{}", status.output);
    drop(program);
    session.destroy();
}

#[test]
fn whoever_gives_a_recorder_other_cpus_has_the_last_word() {
    let Some((_, last, others)) = cpus() else { return };
    let scene = Scene::new();
    let program = scene.program("steady.c");
    let session = ScopedSession::start(&scene, "moved", &["--user", "steady:*"]);
    let mut command = Command::new("taskset");
    let program =
        ScopedSession::join(&scene, command.args(["-c", &last.to_string()]).arg(program).arg("20000"));
    let recorder = session.recorder();
    let all_have = |cpus: &CpuList| threads_of(recorder).iter().all(|(_, has)| has == cpus);
    wait_until("all threads are elsewhere", || all_have(&others));
    let only = last.to_string();
    let pid = recorder.to_string();
    let mut taskset = Command::new("taskset");
    taskset.args(["-a", "-p", "-c", &only, &pid]);
    // It fails if one of them ends meanwhile, as the thread does that frees the area which no program took.
    wait_until("all threads are moved", || scene.run(&mut taskset).status == 0);
    // It looks once a second.
    std::thread::sleep(Duration::from_millis(2500));
    assert!(all_have(&CpuList::new([last])), "{:?}", threads_of(recorder));
    let cpus = &session.status()["status"]["recorder_cpus"];
    assert_eq!((&cpus["cpus"], &cpus["apart"]), (&only.into(), &false.into()));
    drop(program);
    session.destroy();
}

/// Processes that were forked since the machine was started.
fn forks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().find_map(|line| line.strip_prefix("processes "));
    line.and_then(|count| count.trim().parse().ok()).unwrap()
}

/// Returns true if the kernel can name processes that fork and execute.
fn names_processes() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    let is_first = |kind: &str, inode: &str| {
        let link = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        link.to_string_lossy().contains(inode)
    };
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    // PROC_PID_INIT_INO and PROC_USER_INIT_INO of the kernel's proc_ns.h.
    (major, minor) >= (6, 6) && is_first("pid", "4026531836") && is_first("user", "4026531837")
}

#[test]
fn a_session_looks_at_new_processes_and_at_no_others() {
    if !names_processes() {
        return Scene::not_measured("events of processes, which take Linux 6.6 and its first namespaces");
    }
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "idle", &["--user", "*"]);
    let looked_at = || session.status()["status"]["processes_looked_at"].as_u64().unwrap();
    // Programs that ran when it began are inspected several times.
    wait_until("the first looks are over", || {
        let (before, forked) = (looked_at(), forks());
        std::thread::sleep(Duration::from_millis(1300));
        looked_at() - before <= 12 * (forks() - forked)
    });
    // A process is looked at for five seconds.
    let forked = forks();
    std::thread::sleep(Duration::from_millis(5500));
    let before = looked_at();
    std::thread::sleep(Duration::from_secs(2));
    let (after, forked) = (looked_at(), forks() - forked);
    // Ten inspections of each, and one or two when it executes a program. The command that requests the status is a new
    // process itself.
    assert!(
        (1..=12 * forked).contains(&(after - before)),
        "{} looks, {forked} new processes",
        after - before
    );
    session.destroy();
}

#[test]
fn a_program_that_did_not_register_is_found_when_it_is_executed() {
    let scene = Scene::new();
    let program = scene.program("steady.c");
    let session = ScopedSession::start(&scene, "finds", &["--user", "steady:*"]);
    // By then, all that were there are known.
    std::thread::sleep(Duration::from_millis(1500));
    // As in a container, it finds no session. Its process is known before it executes the program.
    let script = format!("sleep 1.5; exec {} 20000", program.display());
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .env("SORDINO_RUNTIME_DIR", scene.path("nowhere"))
        .env_remove("SORDINO_SESSION");
    let mut program = scene.start(&mut command);
    program.says("recorded");
    session.records(program.pid());
    drop(program);
    session.destroy();
}

#[test]
fn the_recorder_is_named_where_it_took_the_time() {
    let Some(scene) = Scene::new().as_root() else { return };
    let program = scene.program("steady.c");
    let cpu = last_cpu();
    // One CPU for both.
    let (mut recorder, output) = scene.recorder(&["--kernel", "sched"]);
    let script = format!("timeout 2 {} 20000", program.display());
    recorder.args(["--", "sh", "-c", &script]);
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", &cpu]).arg(recorder.get_program()).args(recorder.get_args());
    pinned.current_dir(scene.path("."));
    for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
        pinned.env_remove(name);
    }
    scene.run(&mut pinned);
    // The trace names its recorder's threads.
    let named = scene.listed(&output);
    let named = named.iter().filter(|event| event["name"] == "sordino_statedump_recorder");
    let names: Vec<&str> = named.filter_map(|event| event["fields"]["name"].as_str()).collect();
    for name in ["sordino", "sordino-collect", "sordino-kernel", "sordino-intake", "sordino-state"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    // They are among what took the longest intervals' time.
    let trace = output.to_str().unwrap();
    let explained = scene.sordino(&["explain", "--json", "--event", "steady:step", "--over", "50us", trace]);
    let findings: Value = serde_json::from_str(&explained.output).unwrap();
    let mut behind = Vec::new();
    recorders(&findings, &mut behind);
    let are_recorders = behind.iter().all(|comm| comm.starts_with("sordino"));
    assert!(!behind.is_empty() && are_recorders, "{}", explained.output);
}

/// The names of all threads in it that belong to the recorder, by the trace.
fn recorders(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if fields.get("is_recorder") == Some(&Value::Bool(true)) {
                names.extend(fields["comm"].as_str().map(str::to_owned));
            }
            fields.values().for_each(|value| recorders(value, names));
        }
        Value::Array(values) => values.iter().for_each(|value| recorders(value, names)),
        _ => {}
    }
}
