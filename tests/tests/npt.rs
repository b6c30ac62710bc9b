//! `sordino npt`, as root and as nobody.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::disk::SmallDisk;
use sordino_tests::{EndedProcess, NOBODY, Scene, wait_until};
use std::fs;
use std::process::Command;

const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Parses the output of `sordino npt --json`, and asserts that the parts of its one object agree with each other.
#[track_caller]
fn measured(ended: &EndedProcess, loops: u64) -> Value {
    let value: Value = serde_json::from_str(ended.succeeded()).unwrap();
    assert_eq!((&value["schema"], ended.output.lines().count()), (&2.into(), 1));
    let cpus = value["cpus"].as_array().unwrap();
    for cpu in cpus {
        assert_eq!(
            (&cpu["statistics"]["loops"], counted(cpu)),
            (&loops.into(), loops),
            "{}",
            cpu["statistics"]
        );
    }
    assert_eq!(value["all"]["loops"], loops * cpus.len() as u64);
    value
}

/// Returns the number of loops in the histogram.
#[track_caller]
fn counted(cpu: &Value) -> u64 {
    let buckets = cpu["histogram_cycles"].as_array().unwrap();
    assert!(buckets.iter().all(|bucket| bucket[0].as_u64() <= bucket[1].as_u64()));
    buckets.iter().map(|bucket| bucket[2].as_u64().unwrap()).sum()
}

fn throttle() -> String {
    fs::read_to_string(THROTTLE).unwrap().trim().to_owned()
}

#[test]
fn root_measures_a_real_time_thread_and_the_throttle_is_back_afterwards() {
    let Some(scene) = Scene::new().as_root() else { return };
    let ended = scene.sordino(&["npt", "--loops", "100000", "--json"]);
    let value = measured(&ended, 100_000);
    let plan = value["plan"].as_str().unwrap();
    assert!(plan.contains("SCHED_FIFO 90") && ended.errors.is_empty(), "{plan} {}", ended.errors);
    let text = scene.sordino(&["npt", "--loops", "1000", "--prio", "0", "--no-tracepoint"]);
    let text = text.succeeded();
    assert!(text.contains("npt: CPU") && text.contains("99.99"), "{text}");
    if throttle() == "-1" {
        return Scene::not_measured("nothing limits real-time threads");
    }
    // Lifted while it runs, and back however it ends.
    let before = throttle();
    for signal in [Signal::TERM, Signal::KILL] {
        let mut npt = scene.command(&["npt", "--prio", "1", "--pace", "1ms", "--duration", "1day"]);
        let npt = scene.start(&mut npt);
        wait_until("the limit is lifted", || throttle() == "-1");
        npt.signal(signal);
        let ended = npt.end();
        if signal == Signal::KILL {
            assert_eq!(ended.status, 128 + signal.as_raw());
        } else {
            assert!(ended.succeeded().contains("p99.99"), "{}", ended.output);
        }
        wait_until("the limit is back", || throttle() == before);
    }
}

#[test]
fn nobody_measures_an_ordinary_thread_and_is_told_so() {
    let Some(scene) = Scene::new().as_root() else { return };
    let before = throttle();
    let npt = ["npt", "--loops", "20000", "--json"];
    let ended = scene.run(&mut scene.command_of(NOBODY, &npt));
    let value = measured(&ended, 20_000);
    assert!(ended.errors.contains("no right to real-time priority"), "{}", ended.errors);
    let plan = value["plan"].as_str().unwrap();
    assert!(!plan.contains("SCHED_FIFO"), "{plan}");
    assert_eq!(throttle(), before);
}

#[test]
fn what_can_t_be_measured_is_refused() {
    let scene = Scene::new();
    scene.refuses(2, &["CPU 4095 is not online", "online are"], &["npt", "--cpu", "4095"]);
    scene.refuses(2, &["--prio"], &["npt", "--prio", "100"]);
    scene.refuses(2, &["--duration"], &["npt", "--duration", "5"]);
    scene.refuses(2, &["--loops"], &["npt", "--loops=-1"]);
    for (words, arguments) in [
        (&["CPUs 900-901 are not online"][..], &["-a", "0,900-901"][..]),
        (&["'x'"], &["-a", "x"]),
        (&["--body takes 'empty' alone"], &["--body", "empty,tracepoint"]),
        (&["--body takes 'empty' alone"], &["--body", "memory,syscall"]),
        (&["at most 1G"], &["--body", "memory=8G"]),
        (&["empty, memory, memory=SIZE, syscall or tracepoint"], &["--body", "sleep"]),
        (&["add it to --body"], &["--body", "syscall", "-f", "1000"]),
        (&["hits per second greater than 0"], &["-f", "0"]),
        (&["--wait-window"], &["--trace-window", "1ms"]),
        (&["--pace is longer than --duration"], &["--pace", "1h", "-d", "1s"]),
        (&["--loops"], &["-l", "0"]),
        (&["--trigger-output", "give both"], &["--trigger-output", "x", "-o", "y"]),
        (&["must be longer than 0s"], &["--trace-window", "0s", "--wait-window", "1ms"]),
        (&["can't write", "/nowhere/report", "No such file"], &["-o", "/nowhere/report"]),
        (&["it is a directory"], &["-o", "/"]),
        (&["can't write to /nowhere"], &["--sink", "trace_marker=/nowhere", "--prio", "0"]),
        (&["--picoseconds"], &["--nanoseconds", "--picoseconds"]),
    ] {
        scene.refuses(2, words, &[&["npt"], arguments].concat());
    }
    scene.refuses(2, &["4095"], &["disturb", "hog", "--cpu", "4095"]);
    scene.refuses(2, &["earthquake"], &["disturb", "earthquake", "--cpu", "0"]);
    scene.refuses(2, &["--timers"], &["disturb", "timers", "--cpu", "0", "--timers", "0"]);
}

#[test]
fn a_trigger_ends_it_with_the_explanation_of_the_gap() {
    let Some(scene) = Scene::new().as_root() else { return };
    let loops = ["npt", "--duration", "20s", "--faults-at", "500ms,15s", "--trigger"];
    let ended = scene.sordino(&[&loops[..], &["100us", "--trigger-output", "gap"]].concat());
    assert_eq!(ended.status, 1, "{}", ended.errors);
    assert!(ended.output.contains("The gap that ended it"), "{}", ended.output);
    assert!(scene.path("gap/recording.json").exists());
    let quiet =
        scene.sordino(&["npt", "--duration", "300ms", "--trigger", "10s", "--trigger-output", "none"]);
    assert!(quiet.succeeded().contains("no gap of 10s"));
    scene.refuses(2, &["--no-tracepoint"], &["npt", "--trigger", "1ms", "--no-tracepoint"]);
}

#[test]
fn a_gap_on_one_of_several_cpus_ends_the_loops_on_all() {
    let Some(scene) = Scene::new().as_root() else { return };
    let cpus = sordino_sched::affinity().unwrap().to_string();
    let npt = ["npt", "-a", &cpus, "-p", "0", "-d", "1h", "--faults-at", "300ms", "--pace", "1us"];
    let ended = scene.sordino(&[&npt[..], &["--trigger", "100us", "--trigger-output", "gap"]].concat());
    assert_eq!(ended.status, 1, "{}", ended.errors);
    assert!(ended.output.contains("The gap that ended it"), "{}", ended.output);
}

#[test]
fn loops_on_all_cpus_that_it_may_use_leave_it_room_to_hear_its_end() {
    let Some(scene) = Scene::new().as_root() else { return };
    let ours = sordino_sched::affinity().unwrap();
    let cpu = ours.as_slice()[0].to_string();
    let npt = scene.command(&["npt", "-a", &cpu, "-d", "40s", "--json"]);
    let mut confined = Command::new("taskset");
    confined.args(["--cpu-list", &cpu]).arg(npt.get_program()).args(npt.get_args());
    let npt = scene.start(&mut confined);
    let is_measuring = || {
        let threads = fs::read_dir(format!("/proc/{}/task", npt.pid())).into_iter().flatten().flatten();
        let names = threads.map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
        names.into_iter().any(|name| name == "npt\n")
    };
    wait_until("it measures", is_measuring);
    npt.signal(Signal::INT);
    let value: Value = serde_json::from_str(npt.end().succeeded()).unwrap();
    assert!(value["cpus"][0]["seconds"].as_f64() < Some(39.0), "{}", value["cpus"][0]["seconds"]);
}

#[test]
fn the_papers_letters_mean_what_they_meant() {
    let scene = Scene::new();
    let letters = ["npt", "-e", "-i", "-p", "0", "-l", "2000", "-n", "10", "-f", "1e9", "-v", "--json"];
    let ended = scene.sordino(&letters);
    let value = measured(&ended, 2000);
    assert!(
        ended.errors.contains("/proc/cpuinfo says") && ended.errors.contains("turbo"),
        "{}",
        ended.errors
    );
    // Two do nothing, and are not in help.
    for option in ["--eval-cpu-speed", "--allow-interrupts"] {
        assert!(ended.errors.contains(&format!("{option} has no effect")), "{}", ended.errors);
        assert!(!scene.sordino(&["npt", "--help"]).succeeded().contains(option));
    }
    let hits = value["cpus"][0]["tracepoint_hits"].as_u64().unwrap();
    assert!((1..=2010).contains(&hits), "{hits}");
    let version = scene.sordino(&["npt", "-V"]);
    assert!(version.succeeded().contains(env!("CARGO_PKG_VERSION")), "{}", version.output);
    let windows = ["--trace-window", "2ms", "--wait-window", "5ms", "-d", "50ms"];
    let ended = scene.sordino(&[&["npt", "-p", "0", "--json"][..], &windows].concat());
    let value: Value = serde_json::from_str(ended.succeeded()).unwrap();
    // Its waiting time is not measured.
    assert!(value["cpus"][0]["seconds"].as_f64() < Some(0.045), "{}", value["cpus"][0]["seconds"]);
    let ended = scene.sordino(&["npt", "-p", "0", "-l", "1000", "--picoseconds"]);
    assert!(ended.succeeded().contains(" ps\n") && !ended.output.contains(" us\n"), "{}", ended.output);
}

#[test]
fn each_cpu_of_a_list_is_measured_at_once_and_all_are_in_one_table() {
    let scene = Scene::new();
    let ours = sordino_sched::affinity().unwrap().to_string();
    let npt = ["npt", "-a", &ours, "-p", "0", "-l", "30000", "--body", "syscall"];
    let value = measured(&scene.sordino(&[&npt[..], &["--json"]].concat()), 30_000);
    let cpus = value["cpus"].as_array().unwrap();
    let names: Vec<String> = cpus.iter().map(|cpu| cpu["cpu"].to_string()).collect();
    let ours = sordino_sched::affinity().unwrap();
    assert_eq!(names, ours.as_slice().iter().map(u32::to_string).collect::<Vec<_>>());
    assert!(cpus.iter().all(|cpu| cpu["interrupters"].is_array() && cpu["stolen_ms"].is_u64()));
    let text = scene.sordino(&npt);
    let all = text.succeeded().lines().find(|line| line.trim_start().starts_with("all ")).map(str::to_owned);
    if ours.as_slice().len() > 1 {
        assert!(all.unwrap().contains(&(30_000 * ours.as_slice().len()).to_string()));
    }
}

#[test]
fn a_loop_longer_than_allowed_is_a_failure_and_is_in_the_file() {
    let scene = Scene::new();
    let npt = ["npt", "-p", "0", "-n", "0", "-d", "100ms", "--faults-at", "20ms", "-o", "report"];
    let ended = scene.sordino(&[&npt[..], &["--max-gap", "10us"]].concat());
    ended.failed(1, &["longest gap", "longer than --max-gap 10us"]);
    assert_eq!(scene.sordino(&[&npt[..], &["--max-gap", "1h"]].concat()).status, 0);
    let file = fs::read_to_string(scene.path("report")).unwrap();
    assert!(file.starts_with("# npt: CPU ") && file.contains("# CPU "), "{file}");
    let rows = file.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let rows: Vec<(f64, u64)> = rows
        .map(|row| row.split_once('\t').unwrap())
        .map(|(time, loops)| (time.parse().unwrap(), loops.parse().unwrap()))
        .collect();
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0) && rows.last().unwrap().0 > 10.0, "{rows:?}");
}

#[test]
fn a_full_disk_loses_the_file_and_not_the_report() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("disk"), "size=4k");
    fs::write(scene.path("disk/report"), "before").unwrap();
    let ended = scene.sordino(&["npt", "-p", "0", "-l", "100000", "-o", "disk/report", "--json"]);
    ended.failed(2, &["disk/report", "No space left on device", "the report is on standard output"]);
    let value: Value = serde_json::from_str(&ended.output).unwrap();
    assert_eq!(counted(&value["cpus"][0]), 100_000);
    assert_eq!(fs::read_to_string(scene.path("disk/report")).unwrap(), "before");
    assert_eq!(fs::read_dir(scene.path("disk")).unwrap().count(), 1);
    drop(disk);
}

#[test]
fn ftraces_marker_takes_the_tracepoints_place() {
    let scene = Scene::new();
    fs::write(scene.path("marker"), "").unwrap();
    let npt = ["npt", "-p", "0", "-l", "500", "-n", "0", "--sink", "trace_marker=marker", "--json"];
    let value = measured(&scene.sordino(&npt), 500);
    assert_eq!(value["cpus"][0]["tracepoint_hits"], 500);
    let text = fs::read_to_string(scene.path("marker")).unwrap();
    assert_eq!(text.matches("npt:loop number=").count(), 500);
    assert!(text.contains("npt:loop number=500 duration="));
}
