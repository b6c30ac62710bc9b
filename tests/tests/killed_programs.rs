//! Programs that are killed while they record: all published records are there.

use rustix::process::{Pid, Signal, kill_process};
use sordino_tests::{CompletedRecording, RunningProcess, Scene, wait_until};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BATCHES: u64 = 10;
const BATCH: u64 = 10;
/// Index of the word that lets a victim begin.
const GO: usize = 3;

/// A word of the memory that the victim shares: its pid, the number of events that each of its threads has published,
/// then [`GO`].
fn word(file: &Path, index: usize) -> u64 {
    let bytes = fs::read(file).unwrap();
    u64::from_ne_bytes(bytes[8 * index..8 * index + 8].try_into().unwrap())
}

/// Lets the victim begin.
fn go(file: &Path) {
    let file = File::options().write(true).open(file).unwrap();
    file.write_all_at(&1u64.to_ne_bytes(), 8 * GO as u64).unwrap();
}

fn shmem_kib() -> i64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("Shmem:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Each number is in the victim's recording once, in order, up to the last that was published.
fn check(recording: &CompletedRecording, file: &Path) {
    assert_eq!(recording.ended.status, 128 + Signal::KILL.as_raw());
    assert_eq!(recording.sum("ring_full"), 0, "the rings were too small for this test");
    let events = recording.events();
    for thread in 0..2 {
        let published = word(file, 1 + thread) as i64;
        let mut mine: Vec<_> = events.iter().filter(|event| event.numbers[0] == thread as i64).collect();
        mine.sort_by_key(|event| event.time);
        let numbers: Vec<i64> = mine.iter().map(|event| event.numbers[1]).collect();
        let expected: Vec<i64> = (0..numbers.len() as i64).collect();
        assert_eq!(numbers, expected, "torn, doubled, lost or out of order");
        // The last one may be published and not yet counted.
        assert!(
            [published, published + 1].contains(&(numbers.len() as i64)),
            "{} of {published}",
            numbers.len()
        );
        for event in mine {
            let text = &"0123456789abcdef"[event.numbers[1] as usize % 16..];
            assert_eq!(event.texts, [text]);
        }
    }
    recording.assert_count(events.len());
}

/// Kills victims at moments that differ from one to the next.
fn kill_many(environment: &[(&str, &str)]) {
    let scene = Scene::new();
    let program = scene.program("victim.c");
    let before = shmem_kib();
    let mut moment = 1u64;
    for _ in 0..BATCHES {
        let mut victims: Vec<(PathBuf, PathBuf, RunningProcess)> = Vec::new();
        for _ in 0..BATCH {
            let file = scene.fresh("shared");
            fs::write(&file, [0; 4096]).unwrap();
            let (mut recorder, output) = scene.recorder(&["--subbuf-size", "256K", "--num-subbuf", "64"]);
            recorder.arg("--").arg(&program).arg(&file).envs(environment.iter().copied());
            victims.push((file, output, scene.start(&mut recorder)));
        }
        for (file, _, _) in &victims {
            wait_until("the victim is there", || word(file, 0) != 0);
            go(file);
            // A linear congruential generator (Knuth's): any moments will do.
            moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_nanos((moment >> 33) % 2_000_000));
            kill_process(Pid::from_raw(word(file, 0) as i32).unwrap(), Signal::KILL).unwrap();
        }
        for (file, output, recorder) in victims {
            check(&CompletedRecording::of(recorder.end(), output), &file);
        }
    }
    wait_until("the memory of all rings is given back", || shmem_kib() < before + (64 << 10));
}

/// "After kill -9 at any moment, everything that was published is in the trace."
#[test]
fn whatever_a_killed_program_published_is_in_the_trace() {
    kill_many(&[]);
}

/// The same in the shared ring, where writers may leave an unfinished record.
#[test]
fn whatever_a_killed_program_published_in_the_shared_ring_is_in_the_trace() {
    kill_many(&[("SORDINO_RING", "shared")]);
}
