//! Loss: every record that is not in the trace is counted.

use sordino_tests::{CompletedRecording, Scene};
use std::fs;
use std::path::{Path, PathBuf};

const THREADS: usize = 4;
const EACH: usize = 300_000;
/// The smallest rings there are.
const TINY: &[&str] = &["--subbuf-size", "16K", "--num-subbuf", "2", "--read-timer", "10ms"];

fn overrun(scene: &Scene, options: &[&str], environment: &[(&str, &str)]) -> CompletedRecording {
    let program = scene.program("burst.c");
    let (threads, each) = (THREADS.to_string(), EACH.to_string());
    let options = [TINY, options].concat();
    scene.record_with(&options, &[program.to_str().unwrap(), &threads, &each], |recorder| {
        recorder.envs(environment.iter().copied());
    })
}

/// "Written is recorded and lost, exactly", by four counts; the recorded events are complete and in order.
fn adds_up(recording: &CompletedRecording) {
    let events = recording.events();
    let lost = recording.lost() as usize;
    assert!(lost > 0, "nothing was lost: this test needs smaller rings");
    assert_eq!(events.len() + lost, THREADS * EACH);
    assert_eq!(recording.user_events() as usize, events.len());
    assert_eq!((recording.sum("ring_full") as usize, recording.sum("too_large")), (lost, 0));
    let (lines, _) = recording.babeltrace_and_warnings();
    assert_eq!(lines.len(), events.len());
    assert_eq!((recording.babeltrace_discarded() as usize, recording.losses() as usize), (lost, lost));
    for thread in 0..THREADS as i64 {
        let mut mine: Vec<_> = events.iter().filter(|event| event.numbers[0] == thread).collect();
        mine.sort_by_key(|event| event.time);
        assert!(mine.windows(2).all(|pair| pair[0].numbers[1] < pair[1].numbers[1]), "out of order");
        assert!(mine.iter().all(|event| (0..EACH as i64).contains(&event.numbers[1])));
    }
}

#[test]
fn what_is_written_is_recorded_or_counted_as_lost() {
    let scene = Scene::new();
    adds_up(&overrun(&scene, &[], &[]));
}

#[test]
fn what_is_written_to_the_shared_ring_is_recorded_or_counted_as_lost() {
    let scene = Scene::new();
    adds_up(&overrun(&scene, &[], &[("SORDINO_RING", "shared")]));
}

/// "--fail-on-loss exits with 1", and without it the command's own status counts.
#[test]
fn loss_is_a_failure_where_the_user_says_so() {
    let scene = Scene::new();
    assert_eq!(overrun(&scene, &["--fail-on-loss"], &[]).ended.status, 1);
    assert_eq!(overrun(&scene, &[], &[]).ended.status, 0);
    let program = scene.program("burst.c");
    let complete = scene.record(&["--fail-on-loss"], &[program.to_str().unwrap(), "1", "1000"]);
    assert_eq!((complete.ended.status, complete.lost()), (0, 0));
}

/// A listing is never shorter in silence: each file that the recorder wrote is there, or it is named.
#[test]
fn files_that_are_missing_are_told() {
    let scene = Scene::new();
    let program = scene.program("burst.c");
    let recording = scene.record(&[], &[program.to_str().unwrap(), "1", "1000"]);
    let listing = || scene.sordino(&["events", recording.name()]);
    listing().succeeded();
    let (metadata, stream) = {
        let files = files_of(&scene.path(recording.name()));
        let named = |name: &str| files.iter().find(|file| file.ends_with(name)).cloned();
        let stream = files.iter().find(|file| file.to_string_lossy().contains("/cpu")).cloned();
        (named("metadata").expect("metadata"), stream.expect("a stream"))
    };
    let size = fs::metadata(&stream).unwrap().len();
    fs::File::options().write(true).open(&stream).unwrap().set_len(size - 4096).unwrap();
    listing().failed(2, &["lacks what its recorder wrote", &format!("has {} of {size} bytes", size - 4096)]);
    fs::remove_file(&stream).unwrap();
    listing().failed(2, &["lacks what its recorder wrote", "/cpu", "is missing"]);
    fs::remove_file(&metadata).unwrap();
    listing().failed(2, &["/metadata is missing"]);
}

/// Returns the files of a recording's programs.
fn files_of(recording: &Path) -> Vec<PathBuf> {
    let programs = fs::read_dir(recording.join("user")).unwrap();
    let files = programs.flat_map(|program| fs::read_dir(program.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}
