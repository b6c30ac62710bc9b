//! `record -o -` and `record --from -`: a recording over a pipe.

use serde_json::Value;
use sordino_tests::listing::{babeltrace, named};
use sordino_tests::session::summary;
use sordino_tests::{Scene, wait_until};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Records a program for some seconds into a file.
fn sent(scene: &Scene, options: &[&str]) -> PathBuf {
    let (stream, program) = (scene.path("stream"), scene.program("steady.c"));
    let mut command = scene.command(&[&["record", "-o", "-", "--duration", "2500ms"], options].concat());
    command.arg("--").arg(program).arg("20000");
    let status = command.stdout(File::create(&stream).unwrap()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    let _ = Command::new("pkill").args(["-x", "steady-1"]).status();
    stream
}

fn chunks(output: &Path) -> Vec<PathBuf> {
    let mut chunks: Vec<PathBuf> = fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path()).collect();
    chunks.sort_unstable();
    chunks
}

#[test]
fn what_is_sent_is_received_chunk_by_chunk_and_a_cut_is_told() {
    let scene = Scene::new();
    let stream = sent(&scene, &[]);
    let (whole, cut) = (scene.path("whole"), scene.path("cut"));
    let receive = |from: &Path, output: &Path| {
        let mut command = scene.command(&["record", "--from"]);
        scene.run(command.arg(from).arg("-o").arg(output))
    };
    receive(&stream, &whole).succeeded();
    let received = chunks(&whole);
    assert!(received.len() >= 2, "{received:?}");
    let mut numbers = Vec::new();
    for chunk in &received {
        assert_eq!(summary(chunk)["state"], "finished");
        assert_eq!(babeltrace(chunk).1, "");
        let events = scene.listed(chunk);
        numbers.extend(named(&events, "steady:step").iter().map(|step| number(step)));
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..numbers.len() as i64).collect::<Vec<_>>());

    let bytes = fs::read(&stream).unwrap();
    let short = scene.path("short");
    fs::write(&short, &bytes[..bytes.len() - bytes.len() / 4]).unwrap();
    receive(&short, &cut).failed(1, &["ends in the middle", "is not complete"]);
    receive(&short, &cut).failed(2, &["is not empty"]);
    fs::write(&short, "nonsense").unwrap();
    receive(&short, &scene.path("nonsense")).failed(1, &["ends in the middle"]);
}

fn number(event: &Value) -> i64 {
    event["fields"]["number"].as_i64().unwrap()
}

#[test]
fn a_receiver_that_goes_away_ends_the_recording() {
    let scene = Scene::new();
    let program = scene.program("steady.c");
    let mut command = scene.command(&["record", "-o", "-", "--"]);
    let mut sender = command.arg(program).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(sender.stdout.take());
    let mut ended = None;
    wait_until("it ends", || {
        ended = sender.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(2));
    let _ = Command::new("pkill").args(["-x", "steady-1"]).status();
}
