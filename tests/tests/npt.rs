//! `sordino npt`, as root and as nobody.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::{Ended, NOBODY, Scene, wait_until};
use std::fs;

const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// What `sordino npt --json` printed: one object whose parts agree with each other.
#[track_caller]
fn measured(ended: &Ended, loops: u64) -> Value {
    let value: Value = serde_json::from_str(ended.succeeded()).unwrap();
    assert_eq!((&value["schema"], ended.output.lines().count()), (&1.into(), 1));
    assert_eq!(value["statistics"]["loops"], loops, "{}", value["statistics"]);
    let buckets = value["histogram_cycles"].as_array().unwrap();
    let counted: u64 = buckets.iter().map(|bucket| bucket[2].as_u64().unwrap()).sum();
    assert_eq!(counted, loops);
    assert!(buckets.iter().all(|bucket| bucket[0].as_u64() <= bucket[1].as_u64()));
    value
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
        let mut npt = scene.command(&["npt", "--prio", "1", "--pace", "1ms", "--duration", "30s"]);
        let npt = scene.start(&mut npt);
        wait_until("the limit is lifted", || throttle() == "-1");
        npt.signal(signal);
        assert_eq!(npt.end().status, 128 + signal.as_raw());
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
    scene.refuses(2, &["4095"], &["disturb", "hog", "--cpu", "4095"]);
    scene.refuses(2, &["earthquake"], &["disturb", "earthquake", "--cpu", "0"]);
    scene.refuses(2, &["--timers"], &["disturb", "timers", "--cpu", "0", "--timers", "0"]);
}

#[test]
fn a_trigger_ends_it_with_the_explanation_of_the_gap() {
    let Some(scene) = Scene::new().as_root() else { return };
    let loops = ["npt", "--duration", "20s", "--faults-at", "500ms,15s", "--trigger"];
    let ended = scene.sordino(&[&loops[..], &["100us", "-o", "gap"]].concat());
    assert_eq!(ended.status, 1, "{}", ended.errors);
    assert!(ended.output.contains("The gap that ended it"), "{}", ended.output);
    assert!(scene.path("gap/recording.json").exists());
    let quiet = scene.sordino(&["npt", "--duration", "300ms", "--trigger", "10s", "-o", "none"]);
    assert!(quiet.succeeded().contains("no gap of 10s"));
    scene.refuses(2, &["--no-tracepoint"], &["npt", "--trigger", "1ms", "--no-tracepoint"]);
}
