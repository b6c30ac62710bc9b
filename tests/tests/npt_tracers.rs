//! `sordino npt` under sordino and its peers: compared, and at the highest rate that loses nothing.

use rustix::process::Signal;
use serde_json::Value;
use sordino_sched::ThreadIdentity;
use sordino_tests::{EndedProcess, Scene, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

fn json_of(ended: &EndedProcess) -> Value {
    serde_json::from_str(ended.succeeded()).unwrap_or_else(|error| panic!("{error}: {}", ended.output))
}

/// Two CPUs, one for the loop.
fn stage() -> Option<Scene> {
    let scene = Scene::new().as_root()?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        Scene::not_measured("tracers need another CPU than the loop");
        return None;
    }
    Some(scene)
}

/// Packages of a test machine, which `scripts/setup test` installs.
const INSTALLED: [&str; 3] = ["lttng-tools", "babeltrace2", "gcc"];

/// Returns true for a measured tracer. Otherwise asserts that the reason names the remedy for a package that tests can
/// do without.
#[track_caller]
fn is_measured(of: &Value) -> bool {
    let Some(reason) = of["not_measured"].as_str() else { return true };
    assert!(reason.contains("apt install") || reason.contains("bpftrace"), "{reason}");
    assert!(!INSTALLED.iter().any(|package| reason.contains(package)), "{reason}; run scripts/setup test");
    Scene::not_measured(reason);
    false
}

#[test]
fn tracers_are_compared_in_rounds_and_what_was_hit_is_in_each_trace() {
    let Some(scene) = stage() else { return };
    let tracers = "untraced,sordino-timer,lttng-wakeup,usdt";
    let windows =
        ["--trace-window", "1ms", "--wait-window", "49ms", "-d", "200ms", "--rounds", "2", "-p", "0"];
    let compare = ["npt", "--compare", tracers, "--plot", "gaps.svg", "-o", "report", "--json"];
    let ended = scene.sordino(&[&compare[..], &windows].concat());
    let value = json_of(&ended);
    assert_eq!(value["schema"], 1);
    assert_eq!(fs::read_to_string(scene.path("report")).unwrap(), ended.output);
    let svg = fs::read_to_string(scene.path("gaps.svg")).unwrap();
    assert!(svg.contains("\n<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    let names: Vec<&str> = tracers.split(',').collect();
    let contenders = value["contenders"].as_array().unwrap();
    assert_eq!(contenders.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(), names);
    for contender in contenders {
        let name = contender["name"].as_str().unwrap();
        if !is_measured(contender) {
            assert!(!name.starts_with("sordino") && name != "untraced", "{contender}");
            continue;
        }
        let rounds = contender["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 2, "{name}");
        for round in rounds {
            let number = |name: &str| round[name].as_u64();
            assert!(number("hits") > Some(1000), "{name}: {round}");
            let all = number("read").map(|read| read + number("lost").unwrap());
            assert!(name == "untraced" || all == number("hits"), "{name}: {} {all:?}", round["hits"]);
        }
        let figures = contender["figures"].as_array().unwrap();
        assert_eq!(figures.last().unwrap()["name"], "max");
        assert!(figures.iter().all(|figure| figure["ratio_to_untraced"].is_f64()), "{name}");
        assert!(svg.contains(name), "{name} is not in the plot");
    }
}

#[test]
fn a_comparison_is_a_table_for_a_person() {
    let Some(scene) = stage() else { return };
    let compare = [
        "npt",
        "--compare",
        "untraced,sordino-wakeup,sordino-busy",
        "--rounds",
        "1",
        "-d",
        "100ms",
        "-p",
        "0",
    ];
    let ended = scene.sordino(&compare);
    let text = ended.succeeded();
    for word in ["p99.999", "max", "lost", "/ untraced", "sordino-wakeup", "sordino-busy", "tracers on CPU"] {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}

#[test]
fn the_highest_rate_loses_nothing_that_the_trace_does_not_have() {
    let Some(scene) = stage() else { return };
    let value = json_of(&scene.sordino(&["npt", "--find-max-rate", "-d", "50ms", "-p", "0", "--json"]));
    let searches = value["searches"].as_array().unwrap();
    assert_eq!(searches.len(), 6);
    for search in searches {
        let what = format!("{} {}", search["tracer"], search["kernel"]);
        if !is_measured(search) {
            assert_eq!(search["tracer"], "LTTng", "{what}");
            continue;
        }
        let points = search["points"].as_array().unwrap();
        assert!(!points.is_empty(), "{what}");
        let lossless = points.iter().filter(|point| point["lost"] == 0);
        let best = lossless.clone().filter_map(|point| point["reached"].as_f64()).fold(0.0, f64::max);
        assert!(lossless.clone().all(|point| point["read"] == point["hits"]), "{what}: {search}");
        assert_eq!(search["hits_per_second"].as_f64(), Some(best), "{what}");
    }
    assert!(searches[0]["hits_per_second"].as_f64() > Some(1e5), "{}", searches[0]);
}

/// All processes that `of` started, and those that they started.
fn descendants(of: i32) -> Vec<ThreadIdentity> {
    let parent = |pid: i32| {
        let stat = sordino_proc::file::of_process(pid, "stat").ok()?;
        sordino_proc::stat::Stat::parse(&stat)?.parent()
    };
    let pids: Vec<i32> = sordino_proc::list::pids().collect();
    let is_below = |pid: &i32| std::iter::successors(parent(*pid), |pid| parent(*pid)).any(|pid| pid == of);
    pids.into_iter().filter(is_below).filter_map(|pid| ThreadIdentity::find(pid).ok()).collect()
}

/// Returns the temporary directories that a comparison has made, whose names cannot be predicted.
fn scratch_of(pid: i32) -> Vec<PathBuf> {
    let prefix = format!("sordino-npt-{pid}-");
    let places = ["/dev/shm".into(), std::env::temp_dir()];
    let entries = places.iter().flat_map(|place| fs::read_dir(place).unwrap().flatten());
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

/// Returns true for the loop that a comparison measures. A process that the comparison has only just forked still has
/// the comparison's arguments, which begin with `npt`, too.
fn is_loop(thread: &ThreadIdentity) -> bool {
    let words = fs::read(format!("/proc/{}/cmdline", thread.tid)).unwrap_or_default();
    words.split(|byte| *byte == 0).skip(1).take(2).eq([&b"npt"[..], b"--bound"])
}

#[test]
fn a_comparison_that_is_killed_leaves_neither_processes_nor_files() {
    let Some(scene) = stage() else { return };
    // As it is for a loop whose recorder was killed before it asked to end with that.
    scene.refuses(2, &["the process that started this loop has ended"], &["npt", "--bound", "-d", "1day"]);
    for tracer in ["sordino-timer", "lttng-timer", "usdt"] {
        let mut npt = scene.start(&mut scene.command(&["npt", "--compare", tracer, "-d", "1day", "-p", "0"]));
        let pid = npt.pid();
        wait_until("the loop runs", || descendants(pid).iter().any(is_loop) || !npt.is_running());
        if !npt.is_running() {
            let ended = npt.end();
            let reason = ended.output.split_once("not measured here: ").expect(&ended.errors).1;
            assert!(tracer == "usdt", "{tracer}: {reason}");
            Scene::not_measured(reason);
            continue;
        }
        let files = scratch_of(pid);
        assert_eq!(files.len(), 2, "{files:?}");
        for file in &files {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o7777, 0o700);
        }
        let processes = descendants(pid);
        npt.signal(Signal::KILL);
        npt.end();
        wait_until("all it started is gone", || !processes.iter().any(ThreadIdentity::is_alive));
        wait_until("its files are gone", || !files.iter().any(|file| file.exists()));
    }
}

#[test]
fn comparisons_that_make_no_sense_are_refused() {
    let scene = Scene::new();
    scene.refuses(2, &["there are untraced, sordino-timer"], &["npt", "--compare", "dtrace"]);
    scene.refuses(2, &["untraced is named twice"], &["npt", "--compare", "untraced,untraced"]);
    scene.refuses(2, &["--compare"], &["npt", "--compare", "untraced", "--trigger", "1ms"]);
    scene.refuses(2, &["/nowhere/x.svg"], &["npt", "--compare", "untraced", "--plot", "/nowhere/x.svg"]);
    scene.refuses(2, &["--find-max-rate"], &["npt", "--find-max-rate", "-f", "5"]);
    scene.refuses(2, &["--find-max-rate", "--pace"], &["npt", "--find-max-rate", "--pace", "1us"]);
    scene.refuses(2, &["is an option of --compare"], &["npt", "-l", "5", "--rounds", "3"]);
    scene.refuses(2, &["the same file"], &["npt", "--compare", "untraced", "--plot", "x", "-o", "x"]);
    scene.refuses(2, &["sordino_npt", "insmod"], &["npt", "--interrupts-off", "-d", "1s", "-p", "0"]);
    scene.refuses(2, &["--interrupts-off"], &["npt", "--interrupts-off", "-i"]);
}

#[test]
fn another_tracers_tracepoint_is_hit_or_its_package_is_named() {
    let scene = Scene::new();
    for sink in ["usdt", "lttng"] {
        let ended = scene.sordino(&["npt", "-p", "0", "-l", "300", "-n", "0", "--sink", sink, "--json"]);
        if ended.status != 0 && sink == "usdt" {
            ended.failed(2, &["apt install"]);
            Scene::not_measured(&ended.errors);
            continue;
        }
        assert_eq!(json_of(&ended)["cpus"][0]["tracepoint_hits"], 300);
        assert_eq!(ended.errors.contains("the tracepoint is usdt:"), sink == "usdt", "{}", ended.errors);
    }
}
