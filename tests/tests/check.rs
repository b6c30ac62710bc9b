//! Reports of `sordino check` and comparisons of `sordino compare`.

use rustix::process::Signal;
use serde_json::Value;
use sordino_check::peers::cyclictest;
use sordino_tests::disk::SmallDisk;
use sordino_tests::{Scene, last_cpu, wait_until};
use std::fs;
use std::path::Path;
use std::process::Command;

const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

fn throttle() -> String {
    fs::read_to_string(THROTTLE).unwrap().trim().to_owned()
}

/// Reads the report that a check wrote.
#[track_caller]
fn report(directory: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(directory.join("report.json")).unwrap()).unwrap()
}

/// Mark in the environment of a check, and so of all processes that it starts.
const MARK: &str = "SORDINO_TEST_MARK";

/// Returns the command lines of all processes with this mark.
fn marked(mark: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let read =
        |path: std::path::PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let has_mark = |path: &std::path::PathBuf| {
        read(path.join("environ")).split('\0').any(|variable| variable == format!("{MARK}={mark}"))
    };
    entries.filter(has_mark).map(|path| read(path.join("cmdline")).replace('\0', " ")).collect()
}

#[test]
fn what_can_not_be_done_is_refused_before_anything_is_measured() {
    let scene = Scene::new();
    let full = scene.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("x"), "").unwrap();
    let limits = scene.path("limits.toml");
    fs::write(&limits, "[npt]\nmaximum = \"1us\"\n").unwrap();
    let timeless = scene.path("timeless.toml");
    fs::write(&timeless, "[system]\nmax = \"1us\"\n").unwrap();
    let [full, limits, timeless] = [&full, &limits, &timeless].map(|path| path.to_str().unwrap());
    for (words, what) in [
        (&["--cpus", "60000"][..], "CPU 60000 is not online"),
        (&["--cpus", "x"], "'x' is no CPU"),
        (&["--cpus", ""], "--cpus"),
        (&["--require", "nothing"], "no such step; expected one of system, hardware, npt"),
        (&["--only", "npt", "--require", "wake-up"], "--only leaves it out"),
        (&["--duration", "0s"], "must be longer than 0s"),
        (&["-o", full], "is not empty"),
        (&["--thresholds", limits], "[npt] maximum: it is max"),
        (&["--thresholds", timeless], "[system]: that step measures no times"),
        (&["--max-wakeup", "1us", "--only", "npt"], "--max-wakeup is for wake-up"),
        (&["--source", "/usr/src"], "--source is for --load compile"),
        (&["--load", "compile", "--source", "/proc"], "/proc: neither a directory with the kernel's sources"),
        (&["--thresholds", "/nowhere"], "/nowhere: No such file"),
    ] {
        let ended = scene.sordino(&[&["check"], words].concat());
        assert!(
            ended.status == 2 && ended.errors.contains(what),
            "{words:?}: {} {}",
            ended.status,
            ended.errors
        );
    }
}

#[test]
fn the_table_is_the_machine_s_and_its_report_can_be_compared() {
    let scene = Scene::new();
    let [a, b] = ["a", "b"].map(|name| scene.path(name).to_str().unwrap().to_owned());
    for output in [&a, &b] {
        let ended = scene.sordino(&["check", "--only", "system", "--json", "-o", output]);
        let report: Value = serde_json::from_str(ended.succeeded()).unwrap();
        assert_eq!(report, self::report(Path::new(output)));
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert!(report["machine"]["kernel"].as_str().unwrap().starts_with(release.trim()));
        let lines = report["steps"][0]["lines"].as_array().unwrap();
        let line = lines.iter().find(|line| line["name"] == "throttling").unwrap();
        assert_eq!(line["verdict"] == "pass", throttle() == "-1", "{line}");
    }
    let compared = scene.sordino(&["compare", &a, &b, "--json"]);
    // Threads come and go between the two, so the second may be worse.
    assert!(compared.status < 2, "{}", compared.errors);
    let compared: Value = serde_json::from_str(&compared.output).unwrap();
    assert_eq!(compared["names"].as_array().unwrap().len(), 2);
    let refused = scene.sordino(&["compare", &a, "/nowhere"]);
    assert!(refused.status == 2 && refused.errors.contains("/nowhere"), "{}", refused.errors);
}

#[test]
fn a_limit_that_nothing_keeps_fails_and_the_page_shows_it() {
    let Some(scene) = Scene::new().as_root() else { return };
    let before = throttle();
    let output = scene.path("results");
    let cpu = last_cpu();
    let words = [
        "check",
        "--only",
        "npt,preemption",
        "--load",
        "none",
        "--duration",
        "1s",
        "--max-gap",
        "1ns",
        "--cpus",
        &cpu,
        "-o",
    ];
    let ended = scene.sordino(&[&words[..], &[output.to_str().unwrap()]].concat());
    assert_eq!((ended.status, throttle()), (1, before), "{}", ended.errors);
    let report = report(&output);
    let [npt, preemption] = [0, 1].map(|index| &report["steps"][index]);
    assert!(
        npt["verdict"] == "fail" && npt["reason"].as_str().unwrap().contains("over the limit of 1ns"),
        "{npt}"
    );
    assert_eq!(preemption["verdict"], "info", "{preemption}");
    let times = &npt["measurements"][0]["times"];
    let counted: u64 =
        times["histogram"].as_array().unwrap().iter().map(|bin| bin["count"].as_u64().unwrap()).sum();
    assert!(counted > 10_000 && times["count"] == counted);
    let junit = fs::read_to_string(output.join("junit.xml")).unwrap();
    assert!(junit.contains("tests=\"2\" failures=\"1\""), "{junit}");
    let held = &report["settings"]["held"];
    assert!(held.as_array().unwrap().iter().any(|held| held["place"] == "/dev/cpu_dma_latency"), "{held}");
    renders(&output.join("report.html"));
}

/// Has a browser render the page, and checks the result.
#[track_caller]
fn renders(page: &Path) {
    let url = format!("file://{}", page.display());
    let browser = Command::new("chromium")
        .arg(format!("--user-data-dir={}", page.with_file_name("browser").display()))
        .env("TMPDIR", page.with_file_name(""))
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom", &url])
        .output();
    let Ok(browser) = browser else {
        return Scene::not_measured("chromium is not installed: the page was not opened");
    };
    let (dom, log) = (String::from_utf8_lossy(&browser.stdout), String::from_utf8_lossy(&browser.stderr));
    assert!(browser.status.success(), "{log}");
    assert!(dom.contains("<svg") && dom.contains("Is this machine fit") && dom.contains("</html>"), "{dom}");
    assert!(!log.contains("CONSOLE"), "{log}");
}

#[test]
fn a_thread_that_takes_the_cpu_is_named_with_the_gap_it_made() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (cpu, output) = (last_cpu(), scene.path("results"));
    // The check reaches that point at an unknown time, so the attempt is repeated.
    let times = (1..60).map(|second| format!("{second}s")).collect::<Vec<_>>().join(",");
    let mut hog = scene.command(&["disturb", "hog", "--cpu", &cpu, "--for", "20ms", "--at", &times]);
    let _hog = scene.start(&mut hog);
    let words = ["check", "--only", "npt", "--load", "none", "--duration", "4s", "--cpus", &cpu, "-o"];
    let ended = scene.sordino(&[&words[..], &[output.to_str().unwrap()]].concat());
    ended.succeeded();
    let npt = &report(&output)["steps"][0]["measurements"][0];
    let who = npt["interrupters"].as_array().unwrap();
    let hog = who.iter().find(|who| who["name"] == "thread hog").expect("the hog");
    assert!(hog["count"].as_u64().unwrap() >= 1, "{hog}");
    assert!(npt["times"]["maximum_ns"].as_f64().unwrap() >= 20e6, "{npt}");
    assert!(npt["stolen_ms"].is_u64(), "{npt}");
}

#[test]
fn what_made_a_wake_up_late_is_explained_and_its_trace_kept() {
    let Some(scene) = Scene::new().as_root() else { return };
    let cpu = last_cpu();
    // Its CPU is never idle: Linux 6.18 in a virtual machine has been seen to tell none of an idle task's events any
    // more, so neither who comes after it.
    let mut spin = Command::new("taskset");
    let _spin = scene.start(spin.args(["-c", &cpu, "sh", "-c", "while :; do :; done"]));
    let times = (1..60).map(|second| format!("{second}s")).collect::<Vec<_>>().join(",");
    let mut hog =
        scene.command(&["disturb", "hog", "--cpu", &cpu, "--prio", "98", "--for", "20ms", "--at", &times]);
    let _hog = scene.start(&mut hog);
    let check = |more: &[&str], output: &str| {
        let words = ["check", "--only", "wake-up-traced", "--load", "none", "--cpus", &cpu, "-o", output];
        let ended = scene.sordino(&[&words[..], more].concat());
        let step = report(&scene.path(output))["steps"][0].clone();
        (ended, step)
    };
    let (ended, step) = check(&["--duration", "4s"], "results");
    if step["verdict"] == "not-measured" {
        return Scene::not_measured(step["reason"].as_str().unwrap());
    }
    let explained = &step["explained"];
    let headline = explained["headline"].as_str().unwrap();
    assert!(headline.contains(" behind hog/"), "{step}");
    assert!(ended.succeeded().contains(headline), "{}", ended.output);
    assert!(explained["details"].as_str().unwrap().contains("woken, waited behind hog/"), "{explained}");
    let page = fs::read_to_string(scene.path("results/report.html")).unwrap();
    assert!(page.contains("behind hog/") && page.contains("what took the time"), "{page}");
    let trace = format!("results/{}", explained["trace"].as_str().unwrap());
    let events = scene.sordino(&["events", &trace]);
    assert!(events.succeeded().contains("sched_waking"));

    // No machine keeps this limit, so the check ends at once, and the verdict has the explanations.
    let (ended, step) = check(&["--duration", "30s", "--max-wakeup", "1us"], "over");
    assert_eq!((ended.status, &step["verdict"]), (1, &"fail".into()), "{}", ended.errors);
    assert!(step["measurements"][0]["times"]["count"].as_u64().unwrap() < 1000, "{step}");
    let (reason, headline) =
        (step["reason"].as_str().unwrap(), step["explained"]["headline"].as_str().unwrap());
    assert!(reason.contains("over the limit of 1us; ") && reason.ends_with(headline), "{reason}");
}

#[test]
fn what_we_read_of_cyclictest_is_what_it_says_itself() {
    let scene = Scene::new();
    let json = scene.path("cyclictest.json");
    let cpu = last_cpu();
    // The histogram covers 30 us: on any machine some loops take longer.
    let mut command = Command::new("cyclictest");
    command.args(["-q", "-t1", "-i1000", "-l500", "-h30", "--default-system", "-a", &cpu]);
    let Ok(text) = command.arg(format!("--json={}", json.display())).output() else {
        return Scene::not_measured("rt-tests is not installed");
    };
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let value_of = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {name}:")));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let [read] = cyclictest::read(&fs::read_to_string(&json).unwrap(), 30).unwrap().try_into().unwrap();
    let (times, us) = (&read.times, |ns: f64| (ns / 1e3) as u64);
    assert_eq!(
        (us(times.minimum_ns), us(times.mean_ns), us(times.maximum_ns)),
        (value_of("Min Latencies"), value_of("Avg Latencies"), value_of("Max Latencies"))
    );
    let counted = |is_over: bool| -> u64 {
        let bins = times.histogram.iter().filter(|bin| (bin.high_ns > 30e3) == is_over);
        bins.map(|bin| bin.count).sum()
    };
    assert_eq!(
        (counted(false), counted(true)),
        (value_of("Total"), value_of("Histogram Overflows")),
        "{text}"
    );
    assert_eq!(times.count, 500);
}

#[test]
fn a_disk_that_is_full_is_said_and_what_was_measured_is_printed() {
    let Some(scene) = Scene::new().as_root() else { return };
    let place = scene.path("disk");
    let _disk = SmallDisk::mount(&place, "size=4k");
    let ended = scene.sordino(&["check", "--only", "system", "--json", "-o", "disk/results"]);
    assert_eq!(ended.status, 2, "{}", ended.errors);
    assert!(ended.errors.contains("disk/results/report.json: No space left on device"), "{}", ended.errors);
    let printed: Value = serde_json::from_str(&ended.output).unwrap();
    assert_eq!(printed["steps"][0]["name"], "system");
    // No partial result is left.
    assert_eq!(fs::read_dir(place.join("results")).unwrap().count(), 0);
}

#[test]
fn whatever_becomes_of_a_check_its_load_ends_and_the_machine_is_as_it_was() {
    let Some(scene) = Scene::new().as_root() else { return };
    let before = throttle();
    let cpu = last_cpu();
    if cpu == "0" {
        return Scene::not_measured("one CPU alone");
    }
    for signal in [Signal::INT, Signal::KILL] {
        let name = format!("results-{}", signal.as_raw());
        let (output, temporary) = (scene.path(&name), scene.path(&format!("tmp-{}", signal.as_raw())));
        fs::create_dir(&temporary).unwrap();
        let words = ["check", "--only", "npt,preemption", "--duration", "60s", "--cpus", &cpu, "-o", &name];
        let mut check = scene.command(&words);
        let mark = output.display().to_string();
        check.env(MARK, &mark).env("TMPDIR", &temporary);
        let check = scene.start(&mut check);
        let is_load = |line: &String| line.starts_with("hackbench ");
        wait_until("the load runs", || marked(&mark).iter().any(is_load));
        check.signal(signal);
        let ended = check.end();
        wait_until("the load is gone", || marked(&mark).is_empty());
        wait_until("the limit is back", || throttle() == before);
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "its files are gone");
        if signal == Signal::INT {
            assert_eq!(ended.status, 0, "{}", ended.errors);
            let report = report(&output);
            let steps = report["steps"].as_array().unwrap();
            assert!(report["interrupted"] == true && steps.len() == 1, "{report}");
        } else {
            assert_eq!(ended.status, 128 + 9);
        }
    }
}
