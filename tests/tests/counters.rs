//! Counters that overflow: sub-buffer sequence numbers of a ring (2^32), and the uses of each sub-buffer (2^16).

use sordino_ring::layout::Geometry;
use sordino_tests::exchange::ExchangingCollector;
use sordino_tests::storm::StormProgram;
use sordino_tests::verified::StormLanes;
use sordino_tests::{Scene, wait_until};
use std::process::Command;

/// Writes records that fill a sub-buffer each, from a sequence number shortly before the overflow.
fn overflow(ring: &str, geometry: Geometry, sub_buffers: u64) {
    const SEED: u64 = 3;
    let scene = Scene::new();
    let (command, shared) = StormProgram::new(&scene).storm(&scene, SEED, 60_000, &["calm", "large"]);
    let running = scene.start(Command::new(&command[0]).args(&command[1..]).env("SORDINO_RING", ring));
    wait_until("the storm is ready", || shared.pid() != 0);
    let mut lanes = StormLanes::new(SEED);
    let mut exchange = ExchangingCollector::new(shared.pid(), geometry, u32::MAX - 1000);
    shared.go();
    while exchange.taken + exchange.overwritten() < sub_buffers && !shared.is_over() {
        exchange.drain(&mut lanes);
    }
    shared.stop();
    assert_eq!(running.end().status, 0);
    assert!(exchange.taken + exchange.overwritten() >= sub_buffers, "too few sub-buffers");
    let begun = shared.begun();
    let [lost, unfinished, overwritten] = exchange.finish(&mut lanes);
    let missing = lanes.missing(&begun, &shared.done());
    assert_eq!(unfinished, 0);
    assert!(
        if overwritten == 0 { missing == lost } else { missing > lost },
        "{missing} missing, {lost} lost"
    );
}

#[test]
fn turns_count_on_through_their_overflow() {
    let small = Geometry::new(16 << 10, 2).unwrap();
    overflow("", small, 3000);
    overflow("", small.overwriting(), 3000);
    overflow("shared", small, 3000);
}

/// Writers of the shared ring compare how often a sub-buffer was used with how often it was filled.
#[test]
fn uses_count_on_through_their_overflow() {
    let small = Geometry::new(16 << 10, 2).unwrap();
    overflow("shared", small.overwriting(), 3 * 65_536 + 1000);
}
