//! The ways by which the collector learns of full sub-buffers: each records everything.

use serde_json::Value;
use sordino_tests::Scene;
use sordino_tests::listing::named;

const WAYS: [&[&str]; 6] = [
    &["--wakeup"],
    &["--busy"],
    &["--read-timer", "1us"],
    &["--read-timer", "200us"],
    &["--read-timer", "20ms"],
    &[],
];
/// The kind of ring, how many sub-buffers it has, what is recorded, and its events: two threads as fast as they can
/// into rings that take it all; two programs, every few microseconds, into rings that go round several times.
const LOADS: [(&str, &str, &str, usize); 3] = [
    ("", "256", "BURST 2 100000 100", 2 * 100_000),
    ("shared", "256", "BURST 2 100000 100", 2 * 100_000),
    ("", "16", "BURST 1 60000 10000 & BURST 1 60000 10000; wait", 2 * 60_000),
];

/// "--wakeup, --busy and --read-timer all record everything", in all CPUs' rings and in the shared one.
#[test]
fn every_way_of_looking_records_everything() {
    let scene = Scene::new();
    let program = scene.program("burst.c");
    for way in WAYS {
        for (ring, count, load, events) in LOADS {
            let options = ["--fail-on-loss", "--subbuf-size", "64K", "--num-subbuf", count];
            let load = load.replace("BURST", program.to_str().unwrap());
            let recording = scene.record_with(&[&options, way].concat(), &["sh", "-c", &load], |recorder| {
                recorder.env("SORDINO_RING", ring);
            });
            let (what, status) = (format!("{way:?} {count} '{ring}'"), recording.ended.status);
            assert_eq!((status, recording.lost()), (0, 0), "{what}: {}", recording.summary);
            recording.assert_count(events);
            let mut seen: Vec<(Option<i32>, Vec<i64>)> =
                recording.events().into_iter().map(|event| (event.pid, event.numbers)).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), events, "{what}");
        }
    }
}

/// A collector on a CPU and with a priority of its own records everything, too.
#[test]
fn a_collector_with_a_place_of_its_own_records_everything() {
    let scene = Scene::new();
    let program = scene.program("burst.c");
    let options = ["--fail-on-loss", "--collector-cpu", "0", "--collector-prio", "50"];
    let recording = scene.record(&options, &[program.to_str().unwrap(), "2", "50000", "100"]);
    assert_eq!(recording.ended.status, 0, "{}", recording.summary);
    recording.assert_count(100_000);
}

#[test]
fn a_writer_that_wakes_the_collector_calls_the_kernel_and_others_do_not() {
    let Some(scene) = Scene::new().as_root() else { return };
    let futexes = |options: &[&str]| {
        let number = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
        let filter = format!("sys_enter if id == {number}");
        let all = [&["--kernel", &filter, "--subbuf-size", "16K", "--num-subbuf", "64"], options].concat();
        let npt = ["./sordino", "npt", "--prio", "0", "--loops", "30000", "--pace", "5us"];
        let recording = scene.record(&all, &npt);
        assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.ended.errors);
        let events = scene.listed(&recording.path);
        let loops = named(&events, "npt:loop");
        let (first, last) = (loops[0], loops[loops.len() - 1]);
        let during = |event: &&Value| {
            let time = event["time_ns"].as_i64();
            first["time_ns"].as_i64() <= time && time <= last["time_ns"].as_i64()
        };
        let futexes = named(&events, "sys_enter").into_iter().filter(|event| event["tid"] == first["tid"]);
        futexes.filter(during).count()
    };
    assert_eq!(futexes(&[]), 0);
    let each_sub_buffer = futexes(&["--wakeup"]);
    assert!((40..=80).contains(&each_sub_buffer), "{each_sub_buffer} for some 58 sub-buffers");
}
