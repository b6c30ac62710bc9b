//! The ways by which the collector learns of full sub-buffers: each records everything.

use sordino_tests::Scene;

/// "--wakeup, --busy and --read-timer all record everything", in all CPUs' rings and in the shared one.
#[test]
fn every_way_of_looking_records_everything() {
    const EACH: usize = 100_000;
    let scene = Scene::new();
    let program = scene.program("burst.c");
    for way in [&["--wakeup"][..], &["--busy"], &["--read-timer", "1us"], &["--read-timer", "20ms"], &[]] {
        for environment in [&[][..], &[("SORDINO_RING", "shared")]] {
            let options = [&["--fail-on-loss", "--subbuf-size", "64K", "--num-subbuf", "256"], way].concat();
            let command = [program.to_str().unwrap(), "2", "100000", "100"];
            let recording = scene.record_with(&options, &command, |recorder| {
                recorder.envs(environment.iter().copied());
            });
            assert_eq!(recording.ended.status, 0, "{way:?}: {}", recording.summary);
            assert_eq!(recording.user_events() as usize, 2 * EACH, "{way:?}");
            let mut numbers: Vec<Vec<i64>> =
                recording.events().into_iter().map(|event| event.numbers).collect();
            numbers.iter_mut().for_each(|fields| fields.truncate(2));
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 2 * EACH, "{way:?}");
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
