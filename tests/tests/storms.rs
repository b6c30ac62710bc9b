//! Every load at once on the smallest rings: no record is torn, doubled or out of order, and missing ones are counted
//! and reported in their place. `STORM_SECONDS` sets the length, `STORM_SEED` begins with the round that failed.

use rustix::process::{Pid, Signal, kill_process};
use sordino_ring::layout::Geometry;
use sordino_ring::offset::max_payload;
use sordino_tests::exchange::ExchangingCollector;
use sordino_tests::storm::{LOADS, StormMemory, StormProgram, StormRounds};
use sordino_tests::verified::{PLUGIN, StormLanes, mixed, too_large};
use sordino_tests::{CompletedRecording, Scene, wait_until};
use std::process::Command;
use std::time::Duration;

/// Number of tests that share the seconds.
const TESTS: u32 = 8;
/// The smallest rings, and a sub-buffer of theirs in bytes.
const SMALL: (&[&str], u64) = (&["--subbuf-size", "16K", "--num-subbuf", "2"], 16 << 10);
/// Rings of the default size with too little memory for them: pages come and go while they are written to.
const SPARSE: (&[&str], u64) = (&["--max-memory", "4M"], 128 << 10);

/// Stops and continues the storm until it ends.
fn stop_and_continue(shared: &StormMemory, mut random: u64, mut runs: impl FnMut() -> bool) {
    let Some(pid) = Pid::from_raw(shared.pid()) else { return };
    while runs() {
        random = mixed(random);
        std::thread::sleep(Duration::from_micros(random % 60_000));
        // It may have ended by now.
        let _ = kill_process(pid, Signal::STOP);
        std::thread::sleep(Duration::from_micros(random >> 32 & 4095));
        let _ = kill_process(pid, Signal::CONT);
    }
}

/// Records a storm with all loads. The recorder notes only that rings got no more memory.
fn record(
    scene: &Scene,
    program: &StormProgram,
    seed: u64,
    milliseconds: u64,
    options: &[&str],
    ring: &str,
) -> (CompletedRecording, StormMemory) {
    let (command, shared) = program.storm(scene, seed, milliseconds, &LOADS);
    let (mut recorder, output) = scene.recorder(options);
    let mut running = scene.start(recorder.arg("--").args(command).env("SORDINO_RING", ring));
    wait_until("the storm is ready", || shared.pid() != 0);
    if rustix::process::geteuid().is_root() {
        // Above the storm's threads: what a plug-in hits before the recorder knows its tracepoints is missing, and not
        // counted in its streams.
        let pid = running.pid().to_string();
        scene.run(Command::new("chrt").args(["--fifo", "--reset-on-fork", "--pid", "60", &pid])).succeeded();
    }
    shared.go();
    stop_and_continue(&shared, seed, || running.is_running());
    let recording = CompletedRecording::of(running.end(), output);
    assert_eq!(recording.ended.status, 0, "{}", recording.ended.errors);
    assert!(recording.notes().lines().all(|note| note.contains("--max-memory")), "{}", recording.notes());
    (recording, shared)
}

/// Checks rounds of storms in rings that lose records or overwrite.
fn storm((rings, size): (&[&str], u64), options: &[&str], ring: &str) {
    let overwrites = options.contains(&"--overwrite");
    let options = &[rings, options].concat();
    let scene = Scene::new();
    let (program, mut rounds) = (StormProgram::new(&scene), StormRounds::one_of(TESTS));
    while let Some((seed, milliseconds)) = rounds.next_round() {
        let (recording, shared) = record(&scene, &program, seed, milliseconds, options, ring);
        let (begun, mut lanes) = (shared.begun(), StormLanes::new(seed));
        assert_eq!(begun, shared.done(), "a hit that has not returned");
        lanes.read(&recording.path.join("user"), overwrites);
        let (read, lost) = (lanes.count(), recording.lost());
        let missing = lanes.missing(&begun, &shared.done());
        eprintln!("{ring} {options:?} seed {seed}: {read} read, {lost} lost, {missing} missing");
        assert_eq!(recording.user_events(), read);
        let most = max_payload(Geometry::new(size, 2).unwrap());
        let large = recording.sum("too_large");
        assert!(
            (too_large(seed, &begun, most)..=too_large(seed, &begun, most - 8)).contains(&large),
            "{large} too large"
        );
        if overwrites {
            assert!(missing >= lost && recording.sum("overwritten") > 100, "the rings were not overwritten");
        } else {
            assert_eq!((missing, lanes.lost), (lost, lost));
        }
        std::fs::remove_dir_all(&recording.path).unwrap();
    }
}

/// The children of a fork have areas of their own, which this collector does not look at.
const CHILDREN: u32 = 512;

/// Checks rounds of storms whose sub-buffers are taken as fast as they can be, by rings whose counters are next to
/// their overflow.
fn exchanged(geometry: Geometry, ring: &str) {
    let scene = Scene::new();
    let (program, mut rounds) = (StormProgram::new(&scene), StormRounds::one_of(TESTS));
    while let Some((seed, milliseconds)) = rounds.next_round() {
        let (command, shared) = program.storm(&scene, seed, milliseconds, &LOADS);
        let running = scene.start(Command::new(&command[0]).args(&command[1..]).env("SORDINO_RING", ring));
        wait_until("the storm is ready", || shared.pid() != 0);
        let mut lanes = StormLanes::new(seed);
        let mut exchange = ExchangingCollector::new(shared.pid(), geometry, u32::MAX - seed as u32 % 64);
        shared.go();
        std::thread::scope(|scope| {
            let stopping = scope.spawn(|| stop_and_continue(&shared, seed, || !shared.is_over()));
            while !shared.is_over() {
                exchange.drain(&mut lanes);
            }
            stopping.join().unwrap();
        });
        let ended = running.end();
        assert_eq!(ended.status, 0, "{}", ended.errors);
        let (mut begun, taken) = (shared.begun(), exchange.taken);
        assert_eq!(begun, shared.done(), "a hit that has not returned");
        begun.retain(|&lane, _| lane < CHILDREN && lane != PLUGIN);
        let [lost, unfinished, overwritten] = exchange.finish(&mut lanes);
        let read = lanes.count();
        let missing = lanes.missing(&begun, &shared.done());
        eprintln!(
            "{ring} {geometry:?} seed {seed}: {read} read, {lost} lost, {missing} missing, {taken} taken, {overwritten} overwritten"
        );
        assert!(taken > 64, "the counters did not overflow");
        assert_eq!(unfinished, 0);
        assert!(if overwritten == 0 { missing == lost } else { missing > lost }, "{missing} missing");
    }
}

#[test]
fn sub_buffers_that_are_exchanged_in_a_storm_are_whole() {
    exchanged(Geometry::new(16 << 10, 2).unwrap().overwriting(), "");
}

#[test]
fn so_are_those_of_a_shared_ring() {
    exchanged(Geometry::new(16 << 10, 2).unwrap().overwriting(), "shared");
}

#[test]
fn a_storm_is_recorded_or_counted() {
    storm(SMALL, &["--read-timer", "1ms"], "");
}

#[test]
fn a_storm_is_recorded_or_counted_in_the_shared_ring() {
    storm(SMALL, &["--read-timer", "1ms"], "shared");
}

#[test]
fn the_end_of_a_storm_is_recorded_by_rings_that_overwrite() {
    storm(SMALL, &["--overwrite"], "");
}

#[test]
fn the_end_of_a_storm_is_recorded_by_a_shared_ring_that_overwrites() {
    storm(SMALL, &["--overwrite"], "shared");
}

#[test]
fn a_storm_is_recorded_or_counted_where_pages_come_and_go() {
    storm(SPARSE, &["--read-timer", "1ms"], "");
}

#[test]
fn so_it_is_where_those_of_the_shared_ring_do() {
    storm(SPARSE, &["--read-timer", "1ms"], "shared");
}
