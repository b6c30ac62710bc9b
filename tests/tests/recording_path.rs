//! Cost of a recorded event in the program: no system call, no page fault, no allocation; and the cost of a linked
//! program that is not recorded.

use rustix::process::Signal;
use sordino_tests::{NativeCompiler, Scene};
use std::fs;
use std::path::Path;
use std::process::Command;

const EVENTS: u64 = 10_000_000;
/// The Rust program. It hits a tracepoint once more, to find out that it is recorded.
const RUST: &str = env!("CARGO_BIN_EXE_path");
/// Number of events of the other thread.
const OTHERS: u64 = 1000;

/// The program dies under its filter if an event makes a system call.
fn costs_nothing(scene: &Scene, program: &Path, events: u64, environment: &[(&str, &str)]) {
    let mut command = Command::new(program);
    let mut running = scene.start(command.arg(events.to_string()).envs(environment.iter().copied()));
    running.says("ready");
    let recording = scene.attach(running.pid(), &["--user", "path:*_*"]).end();
    let ended = running.end();
    assert_eq!((ended.status, ended.errors.as_str()), (0, ""), "killed by a system call?");
    assert_eq!(ended.output, "ready\nfaults=0 allocations=0\n");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let looked_out = u64::from(program == Path::new(RUST));
    let in_all = recording.user_events() + recording.lost();
    assert_eq!(in_all, events + OTHERS + cpus + looked_out, "{}", recording.notes());
    assert!(recording.user_events() > events / 100);
}

/// "No system call, fault or allocation in the traced program on the recording path, also after late attach", in C: the
/// main thread, another thread's first event, the first event on each CPU.
#[test]
fn ten_million_events_cost_no_system_call_no_fault_and_no_allocation_in_c() {
    let scene = Scene::new();
    costs_nothing(&scene, &scene.program("path.c"), EVENTS, &[]);
}

/// The C library's allocator can't be replaced in a static program, but wrapped.
const STATIC: &[&str] = &[
    "-static",
    "-DSTATIC",
    "-Wl,--wrap=malloc",
    "-Wl,--wrap=calloc",
    "-Wl,--wrap=realloc",
    "-Wl,--wrap=memalign",
    "-Wl,--wrap=free",
];

/// The same in a program that has the library inside.
#[test]
fn a_static_program_records_as_cheaply() {
    let scene = Scene::new();
    costs_nothing(&scene, &scene.compile(NativeCompiler::Clang, "path.c", STATIC), EVENTS / 10, &[]);
}

/// "Late attach" to a program that does not lock its memory: the first hit causes no page fault, neither in its ring
/// nor on the way there, whether it is rejected or recorded.
#[test]
fn a_program_that_locks_nothing_does_not_fault_on_its_first_hit_either() {
    let scene = Scene::new();
    let program = scene.compile(NativeCompiler::Gcc, "path.c", &["-DUNLOCKED"]);
    let mut running = scene.start(Command::new(&program).arg("1000"));
    running.says("ready");
    // The kernel makes neighbouring pages present together: those of the eighth session are far from any the program
    // looked at.
    let nothing = ["--user", "nothing:*", "--subbuf-size", "16K"];
    let others: Vec<_> = (0..7).map(|_| scene.attach(running.pid(), &nothing)).collect();
    let rules = "path:main_thread if number >= 500, path:other_thread, path:each_cpu";
    let recording = scene.attach(running.pid(), &["--user", rules]).end();
    others.into_iter().for_each(|other| drop(other.end()));
    let ended = running.end();
    assert_eq!((ended.status, &*ended.output), (0, "ready\nfaults=0 allocations=0\n"), "{}", ended.errors);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    assert_eq!((recording.user_events(), recording.lost()), (500 + OTHERS + cpus, 0));
}

/// The same in Rust.
#[test]
fn ten_million_events_cost_no_system_call_no_fault_and_no_allocation_in_rust() {
    let scene = Scene::new();
    costs_nothing(&scene, Path::new(RUST), EVENTS, &[]);
}

/// The same in the shared ring: by the environment variable, and by a C library without restartable sequences.
#[test]
fn the_shared_ring_costs_no_system_call_no_fault_and_no_allocation_either() {
    let scene = Scene::new();
    let in_c = scene.program("path.c");
    for environment in [("SORDINO_RING", "shared"), ("GLIBC_TUNABLES", "glibc.pthread.rseq=0")] {
        costs_nothing(&scene, &in_c, EVENTS / 10, &[environment]);
        costs_nothing(&scene, Path::new(RUST), EVENTS / 10, &[environment]);
    }
}

/// "A program that links sordino and locks its memory still can", as an ordinary user under the usual limit, and takes
/// less than a megabyte for it.
#[test]
fn an_idle_program_of_an_ordinary_user_locks_its_memory() {
    let scene = Scene::new();
    let program = scene.program("idle.c");
    let limit = 8 << 20;
    let mut command = Command::new("prlimit");
    command.arg(format!("--memlock={limit}:{limit}"));
    command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
    let mut running = scene.start(&mut command);
    running.says("locked");
    let pid = running.pid();
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let resident = resident_kib(&smaps, "/memfd:sordino");
    assert!(resident > 0 && resident < 1024, "{resident} KiB are resident");
    assert_eq!(fs::read_dir(format!("/proc/{pid}/task")).unwrap().count(), 1, "a thread of its own");
    running.signal(Signal::KILL);
    running.end();
}

/// The `Rss` of all mappings of `file`.
fn resident_kib(smaps: &str, file: &str) -> u64 {
    let (mut inside, mut sum) = (false, 0);
    for line in smaps.lines() {
        if line.split_whitespace().next().is_some_and(|word| word.contains('-')) {
            inside = line.contains(file);
        } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| inside) {
            sum += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        }
    }
    sum
}

/// "No thread and no connection in a program that nobody records": it would be killed for either.
#[test]
fn a_program_that_nobody_records_starts_no_thread_and_connects_to_nobody() {
    let scene = Scene::new();
    let (guard, program) = (scene.program("forbid.c"), scene.program("idle.c"));
    let ended = scene.run(Command::new(&guard).arg(&program).arg("end").env_remove("SORDINO_SESSION"));
    assert_eq!((ended.status, ended.output.as_str()), (0, "locked\n"));
    // The guard works: with a recorder's name the program does connect.
    let ended = scene.run(Command::new(&guard).arg(&program).arg("end").env("SORDINO_SESSION", "@nobody"));
    assert_eq!(ended.status, 128 + Signal::SYS.as_raw());
}
