//! `sordino check` and `sordino compare`.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::{Scene, wait_until};
use std::fs;
use std::process::Command;

const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

fn throttle() -> String {
    fs::read_to_string(THROTTLE).unwrap().trim().to_owned()
}

/// The command lines of all processes that mention this.
fn running(what: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(what))
        .collect()
}

#[test]
fn what_can_not_be_done_is_refused_before_anything_is_measured() {
    let scene = Scene::new();
    let full = scene.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("x"), "").unwrap();
    let limits = scene.path("limits.toml");
    fs::write(&limits, "[npt]\nmaximum = \"1us\"\n").unwrap();
    let (full, limits) = (full.to_str().unwrap(), limits.to_str().unwrap());
    for (words, what) in [
        (&["--cpus", "60000"][..], "CPU 60000 is not online"),
        (&["--cpus", "x"], "'x' is no CPU"),
        (&["--require", "nothing"], "there is no such step; there are system, hardware, npt"),
        (&["--only", "npt", "--require", "wake-up"], "--only leaves it out"),
        (&["--duration", "0s"], "it takes some time"),
        (&["-o", full], "is not empty"),
        (&["--thresholds", limits], "[npt] maximum: it is max"),
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
        let written: Value =
            serde_json::from_str(&fs::read_to_string(format!("{output}/report.json")).unwrap()).unwrap();
        assert_eq!(report, written);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert!(report["machine"]["kernel"].as_str().unwrap().starts_with(release.trim()));
        let lines = report["steps"][0]["lines"].as_array().unwrap();
        let line = lines.iter().find(|line| line["name"] == "throttling").unwrap();
        assert_eq!(line["verdict"] == "pass", throttle() == "-1", "{line}");
    }
    let compared = scene.sordino(&["compare", &a, &b, "--json"]);
    // Threads come and go between the two: that may be worse.
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
    let cpu = sordino_sched::affinity().unwrap().as_slice().last().unwrap().to_string();
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
    let report: Value =
        serde_json::from_str(&fs::read_to_string(output.join("report.json")).unwrap()).unwrap();
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

/// Has a browser make the page, and looks at what became of it.
#[track_caller]
fn renders(page: &std::path::Path) {
    let url = format!("file://{}", page.display());
    let browser = Command::new("chromium")
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
fn whatever_becomes_of_a_check_its_load_ends_and_the_machine_is_as_it_was() {
    let Some(scene) = Scene::new().as_root() else { return };
    let before = throttle();
    for signal in [Signal::INT, Signal::KILL] {
        // One CPU is loaded only if there is another that is measured.
        let cpu = sordino_sched::affinity().unwrap().as_slice().last().unwrap().to_string();
        if cpu == "0" {
            return Scene::not_measured("one CPU alone");
        }
        let output = scene.path(&format!("results-{}", signal.as_raw()));
        let words = [
            "check",
            "--only",
            "npt,preemption",
            "--duration",
            "60s",
            "--cpus",
            &cpu,
            "-o",
            output.to_str().unwrap(),
        ];
        let mut check = scene.command(&words);
        let check = scene.start(&mut check);
        let load = "-l 1000 -s 1000";
        wait_until("the load runs", || !running(load).is_empty());
        check.signal(signal);
        let ended = check.end();
        wait_until("the load is gone", || running(load).is_empty());
        wait_until("the limit is back", || throttle() == before);
        if signal == Signal::INT {
            assert_eq!(ended.status, 0, "{}", ended.errors);
            let report: Value =
                serde_json::from_str(&fs::read_to_string(output.join("report.json")).unwrap()).unwrap();
            assert!(
                report["interrupted"] == true && report["steps"].as_array().unwrap().len() == 1,
                "{report}"
            );
        } else {
            assert_eq!(ended.status, 128 + 9);
        }
    }
}
