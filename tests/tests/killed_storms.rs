//! Programs that are killed at any moment of a storm. `STORM_KILLS` sets their number (default 50), `STORM_SEED` begins
//! with the one that failed. The trace is valid, all published records are there, and no memory remains.

use rustix::process::{Pid, Signal, kill_process};
use sordino_tests::exchange::area;
use sordino_tests::storm::{StormProgram, number};
use sordino_tests::verified::{StormLanes, mixed};
use sordino_tests::{CompletedRecording, Scene, wait_until};
use std::fs;
use std::os::fd::AsFd;
use std::time::Duration;

/// Rings that lose nothing of a calm program; rings that lose or overwrite most of a storm; rings whose pages come and
/// go.
const WAYS: [(&[&str], &[&str]); 4] = [
    (&["--max-memory", "4M"], &["signals", "migration", "fifo", "vfork"]),
    (&["--subbuf-size", "1M", "--num-subbuf", "8"], &["calm", "signals", "migration", "plugin"]),
    (&["--subbuf-size", "16K", "--num-subbuf", "2"], &["signals", "migration", "fifo", "vfork"]),
    (
        &["--subbuf-size", "16K", "--num-subbuf", "2", "--overwrite"],
        &["signals", "migration", "fifo", "vfork"],
    ),
];

/// The lanes of a vfork's children.
const VFORKED: [u32; 1] = [80];

/// The files in memory that any process holds, open or mapped, with this inode number.
fn holders(inode: u64) -> Vec<String> {
    let mut holders = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()) {
        let is_it = |line: &str| line.contains("memfd:sordino") && line.contains(&format!(" {inode} "));
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let open = files.filter(|file| {
            fs::read_link(file.path()).is_ok_and(|link| link.to_string_lossy().contains("memfd:sordino"))
        });
        let mut inodes = open.filter_map(|file| Some(rustix::fs::stat(file.path()).ok()?.st_ino));
        if maps.lines().any(is_it) || inodes.any(|other| other == inode) {
            holders.push(process.display().to_string());
        }
    }
    holders
}

/// Records a storm, kills it, and checks the trace and the memory.
fn kill_one(
    scene: &Scene,
    program: &StormProgram,
    seed: u64,
    ring: &str,
    (options, loads): (&[&str], &[&str]),
) {
    let (command, shared) = program.storm(scene, seed, 60_000, loads);
    let (mut recorder, output) = scene.recorder(options);
    let running = scene.start(recorder.arg("--").args(command).env("SORDINO_RING", ring));
    wait_until("the storm is ready", || shared.pid() != 0);
    let inode = rustix::fs::fstat(area(shared.pid()).as_fd()).unwrap().st_ino;
    shared.go();
    std::thread::sleep(Duration::from_micros(mixed(seed) % 100_000));
    let before = shared.done();
    kill_process(Pid::from_raw(shared.pid()).unwrap(), Signal::KILL).unwrap();
    let recording = CompletedRecording::of(running.end(), output);
    assert_eq!(recording.ended.status, 128 + Signal::KILL.as_raw(), "{}", recording.ended.errors);
    assert!(recording.notes().lines().all(|note| note.contains("--max-memory")), "{}", recording.notes());
    // Its children, and one of a vfork that shares its memory, end by themselves when the machine lets them.
    wait_until("its memory is given back", || holders(inode).is_empty());

    let overwrites = options.contains(&"--overwrite");
    let (begun, mut done, mut lanes) = (shared.begun(), shared.done(), StormLanes::new(seed));
    // The child of a vfork outlives its parent, and may hit after its recorder has ended.
    done.extend(VFORKED.map(|lane| (lane, before.get(&lane).copied().unwrap_or(0))));
    lanes.read(&recording.path.join("user"), overwrites);
    assert_eq!(recording.user_events(), lanes.count());
    let (read, lost) = (lanes.count(), recording.lost());
    let missing = lanes.missing(&begun, &done);
    let at_work = begun.values().sum::<u64>() - done.values().sum::<u64>();
    // A killed writer may have counted its record as lost, or left it unfinished, without returning from the hit. A
    // writer that was switching the sub-buffer is found unfinished in both.
    let most = missing + at_work + recording.sum("unfinished") / 2;
    assert!(
        overwrites || (missing..=most).contains(&lost),
        "{lost} lost, {missing} missing, {at_work} at work, {} unfinished",
        recording.sum("unfinished")
    );
    assert!(
        !loads.contains(&"calm") || recording.sum("ring_full") == 0,
        "the rings were too small for this test"
    );
    if seed.is_multiple_of(8) {
        assert_eq!(recording.babeltrace_and_warnings().0.len() as u64, read);
    }
    fs::remove_dir_all(&recording.path).unwrap();
}

#[test]
#[allow(clippy::print_stderr, reason = "the seed is wanted when a kill fails")]
fn whatever_a_killed_storm_published_is_in_its_trace() {
    let scene = Scene::new();
    let program = StormProgram::new(&scene);
    let mut seed = number("STORM_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    for kill in 0..number("STORM_KILLS").unwrap_or(50) {
        eprintln!("kill {kill}: STORM_SEED={seed}");
        let ring = if seed >> 20 & 1 == 0 { "" } else { "shared" };
        kill_one(&scene, &program, seed, ring, WAYS[(seed >> 8) as usize % WAYS.len()]);
        seed = mixed(seed);
    }
}
