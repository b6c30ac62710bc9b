//! However the collector learns of full sub-buffers, everything is recorded.

mod support;

use serde_json::Value;
use support::Scene;
use support::recording::{babeltrace, named};

#[test]
fn whatever_wakes_the_collector_every_event_is_recorded() {
    let scene = Scene::new();
    // Two megabytes of records in sub-buffers of 64 KiB: each ring goes round several times.
    let script = "for turn in 1 2; do ./sordino npt --prio 0 --warm-up 0 --loops 60000 --pace 5us >npt.out & done; wait";
    let small = ["--subbuf-size", "64K", "--num-subbuf", "16", "--fail-on-loss"];
    for (number, polling) in [
        &["--wakeup"][..],
        &["--busy"],
        &["--read-timer", "1us"],
        &["--read-timer", "200us"],
        &["--read-timer", "20ms"],
        &[],
    ]
    .into_iter()
    .enumerate()
    {
        let recording =
            scene.record(&format!("trace{number}"), &[&small, polling].concat(), &["sh", "-c", script]);
        assert_eq!((recording.status, recording.lost()), (0, 0), "{polling:?}: {}", recording.errors);
        assert_eq!(recording.user_events(), 2 * 60_002, "{polling:?}");
        let (lines, complaints) = babeltrace(&recording.path.join("user"));
        assert_eq!((lines.len(), complaints.as_str()), (2 * 60_002, ""), "{polling:?}");
    }
}

#[test]
fn a_writer_that_wakes_the_collector_calls_the_kernel_and_others_do_not() {
    let Some(scene) = Scene::as_root() else { return };
    let futexes = |name: &str, options: &[&str]| {
        let number = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
        let filter = format!("sys_enter if id == {number}");
        let all = [&["--kernel", &filter, "--subbuf-size", "16K", "--num-subbuf", "64"], options].concat();
        let npt = ["./sordino", "npt", "--prio", "0", "--loops", "30000", "--pace", "5us"];
        let recording = scene.record(name, &all, &npt);
        assert_eq!((recording.status, recording.lost()), (0, 0), "{}", recording.errors);
        let events = scene.listed(name);
        let loops = named(&events, "npt:loop");
        let (first, last) = (loops[0], loops[loops.len() - 1]);
        let during = |event: &&Value| {
            let time = event["time_ns"].as_i64();
            first["time_ns"].as_i64() <= time && time <= last["time_ns"].as_i64()
        };
        let futexes = named(&events, "sys_enter").into_iter().filter(|event| event["tid"] == first["tid"]);
        futexes.filter(during).count()
    };
    assert_eq!(futexes("timer", &[]), 0);
    let each_sub_buffer = futexes("wakeup", &["--wakeup"]);
    assert!((40..=80).contains(&each_sub_buffer), "{each_sub_buffer} for some 58 sub-buffers");
}
