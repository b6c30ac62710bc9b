//! Slow disks: a recorder that waits for its disk loses nothing before the programs' rings are full.

use rustix::process::Signal;
use sordino_tests::disk::SlowDisk;
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::{RunningProcess, Scene};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// The programs' records during that time are more than what idle rings have memory for, and less than whole rings
/// hold.
const STANDSTILL: Duration = Duration::from_secs(3);

#[test]
fn rings_get_memory_while_the_recorder_waits_for_its_disk() {
    let Some(scene) = Scene::new().as_root() else { return };
    let place = scene.path("of-slow");
    let Some(disk) = SlowDisk::mount(&place) else {
        return Scene::not_measured("a disk that stands still: no loop device");
    };
    let session = ScopedSession::start(&scene, "slow", &["--user", "steady"]);
    let program = scene.program("steady.c");
    // Some 300,000 records a second from each, of 24 bytes: what idle rings have takes them half a second.
    let steady = |_| {
        let mut running = ScopedSession::join(&scene, Command::new(&program).args(["3300", "ns"]));
        running.says("recorded");
        running
    };
    let programs: Vec<RunningProcess> = (0..2).map(steady).collect();
    std::thread::sleep(Duration::from_millis(500));
    disk.freeze();
    std::thread::sleep(STANDSTILL);
    disk.thaw();
    for program in programs {
        program.signal(Signal::TERM);
        program.end().succeeded();
    }
    session.stop();
    let summary = summary(&session.output.join("chunk-0001"));
    for program in summary["programs"].as_array().unwrap() {
        let streams = program["streams"].as_array().unwrap();
        let sum = |what: &str| streams.iter().map(|stream| stream[what].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("ring_full"), 0, "{program}");
        // A ring that nobody supplies has 4 MiB.
        assert!(sum("bytes") > 8 << 20, "too few records: {program}");
    }
    session.destroy();
    drop(disk);
    fs::remove_dir(&place).unwrap();
}
