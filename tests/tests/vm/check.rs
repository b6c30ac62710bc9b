//! The machine is checked with the kernel's tracers, which PREEMPT_RT kernels of Debian's have.

use crate::{results_of, text};
use serde_json::Value;
use std::path::Path;

fn report(directory: &Path) -> Value {
    serde_json::from_str(&text(&directory.join("report.json"))).unwrap()
}

/// Returns the step called `name`, which has to have been measured.
#[track_caller]
fn measured<'a>(report: &'a Value, name: &str) -> &'a Value {
    let step = report["steps"].as_array().unwrap().iter().find(|step| step["name"] == name);
    let step = step.unwrap_or_else(|| panic!("no step {name}"));
    let measurements = step["measurements"].as_array().unwrap();
    assert!(step["verdict"] != "not-measured" && !measurements.is_empty(), "{step}");
    for measurement in measurements {
        let times = &measurement["times"];
        let bins = times["histogram"].as_array().unwrap();
        let counted: u64 = bins.iter().map(|bin| bin["count"].as_u64().unwrap()).sum();
        assert!(counted > 0 && times["count"] == counted, "{measurement}");
    }
    step
}

/// Returns a figure of the measurement `what`.
#[track_caller]
fn figure(step: &Value, what: &str, name: &str) -> f64 {
    let found = step["measurements"].as_array().unwrap().iter().find(|each| each["what"] == what);
    found.unwrap_or_else(|| panic!("no {what}: {step}"))["times"][name].as_f64().unwrap()
}

/// Returns a step's notes on its figures.
fn notes(step: &Value) -> String {
    step["notes"].to_string()
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn each_step_is_measured_on_a_kernel_that_has_all_tracers() {
    let results = results_of("check");
    assert_eq!(text(&results.join("whole.status")), "0\n", "{}", text(&results.join("whole.errors")));
    let report = report(&results.join("whole"));
    for name in ["npt", "wake-up", "preemption"] {
        measured(&report, name);
    }
    let hardware = measured(&report, "hardware");
    assert!(notes(hardware).contains("hwlat tracer: interrupts off for 500ms of each 1s"), "{hardware}");
    // Shorter ones it was not to look for.
    assert!(figure(hardware, "CPU 1", "minimum_ns") > 9_990.0);
    let osnoise = measured(&report, "osnoise");
    // Two seconds have twenty periods, the last of which may not be over.
    let periods = figure(osnoise, "CPU 1", "count");
    assert!((5.0..=20.0).contains(&periods), "{periods}");
    let who = osnoise["measurements"][0]["interrupters"].as_array().unwrap();
    assert!(who.iter().any(|who| who["name"] == "IRQ" && who["count"].as_u64().unwrap() > 0), "{osnoise}");
    assert!(notes(osnoise).contains("% of its time was noise"), "{osnoise}");
    let timerlat = measured(&report, "timerlat");
    let [interrupts, threads] = ["interrupt", "thread"].map(|of| format!("CPU 1, {of}"));
    assert!(figure(timerlat, &threads, "count") > 100.0);
    // The interrupt comes before the thread that it wakes.
    for of in ["minimum_ns", "mean_ns", "maximum_ns"] {
        assert!(figure(timerlat, &interrupts, of) <= figure(timerlat, &threads, of), "{of}: {timerlat}");
    }
    // Nothing could not be read, or was lost.
    for step in [hardware, osnoise, timerlat] {
        assert!(!notes(step).contains("could not be read") && !notes(step).contains("given back"), "{step}");
    }
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn limits_reports_and_comparison_know_the_tracers_steps() {
    let results = results_of("check");
    let report = report(&results.join("whole"));
    for name in ["hardware", "npt", "osnoise"] {
        let step = measured(&report, name);
        assert!(step["verdict"] == "pass" && step["reason"].as_str().unwrap().contains("within the limit"));
    }
    for (file, what) in [("report.html", "hardware, "), ("report.html", "osnoise"), ("junit.xml", "osnoise")]
    {
        assert!(text(&results.join("whole").join(file)).contains(what), "{file} has no {what}");
    }
    let compared: Value = serde_json::from_str(&text(&results.join("compared"))).unwrap();
    let rows: Vec<&str> =
        compared["times"].as_array().unwrap().iter().map(|row| row["what"].as_str().unwrap()).collect();
    for row in ["hardware, CPU 1, max", "osnoise, CPU 1, max", "timerlat, CPU 1, thread, p99"] {
        assert!(rows.contains(&row), "no {row}: {rows:?}");
    }
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn whatever_becomes_of_a_check_the_tracers_are_as_they_were() {
    let results = results_of("check");
    let snapshot = |name: &str| text(&results.join(name));
    let before = snapshot("before");
    assert!(before.contains("/current_tracer:nop") && before.contains("/tracing_on:1"), "{before}");
    assert!(!before.contains("/instances/") && !before.contains("/run/sordino"), "{before}");
    assert!(
        before.contains("osnoise/cpus:0\n") && before.contains("hwlat_detector/width:2000000"),
        "{before}"
    );
    assert_eq!(snapshot("whole.after"), before);
    for (name, status, changed) in [
        ("INT-hwlat", "0\n", ["hwlat_detector/window:1000000", "tracing_thresh:10"]),
        ("KILL-hwlat", "137\n", ["hwlat_detector/width:500000", "sched_rt_runtime_us:-1"]),
        ("KILL-osnoise", "137\n", ["osnoise/runtime_us:100000", "tracing_thresh:5"]),
        ("KILL-timerlat", "137\n", ["osnoise/timerlat_period_us:1000", "osnoise/cpus:1"]),
    ] {
        let during = snapshot(&format!("{name}.during"));
        let tracer = name.split_once('-').unwrap().1;
        assert!(during.contains(&format!("/current_tracer:{tracer}\n")), "{name}: {during}");
        for changed in changed {
            assert!(during.contains(&format!("{changed}\n")), "{name}, {changed}: {during}");
        }
        assert_eq!(snapshot(&format!("{name}.status")), status, "{name}");
        assert_eq!(snapshot(&format!("{name}.after")), before, "{name}");
    }
    // Earlier measurements are kept.
    let interrupted = report(&results.join("INT-hwlat"));
    assert_eq!(interrupted["interrupted"], true);
    assert!(
        notes(&interrupted["steps"][0]).contains("interrupted after")
            || interrupted["steps"][0]["verdict"] == "not-measured"
    );
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn a_tracer_of_somebody_elses_is_left_alone() {
    let refused = text(&results_of("check").join("refused"));
    let (report, tracer) = refused.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(tracer, "function");
    let report: Value = serde_json::from_str(report).unwrap();
    let step = &report["steps"][0];
    assert_eq!(step["verdict"], "not-measured");
    assert!(step["reason"].as_str().unwrap().contains("tracer function runs already"), "{step}");
}
