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
    receive(&short, &cut).failed(1, &["ends in the middle", "is not complete", "sordino recover"]);
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

/// The programs' and the kernel's events of a summary, and those that did not arrive.
fn counts(summary: &Value) -> (u64, u64) {
    let programs = summary["programs"].as_array().unwrap().iter();
    let streams = programs.flat_map(|program| program["streams"].as_array().unwrap());
    let streams: Vec<&Value> = streams.chain(summary["kernel"].as_array().unwrap()).collect();
    let sum = |field: &str| streams.iter().map(|stream| stream[field].as_u64().unwrap_or(0)).sum();
    (sum("events"), sum("unreceived"))
}

/// A receiver is killed, or its connection breaks, anywhere in a stream: the received part is readable, and the rest is
/// counted.
#[test]
fn what_came_of_a_stream_is_recovered_and_the_rest_is_counted() {
    let scene = Scene::new();
    let is_root = rustix::process::geteuid().is_root();
    let stream = sent(&scene, if is_root { &["--kernel", "sched"] } else { &[] });
    let whole = scene.path("whole");
    let receiver = |output: &Path| {
        let mut command = scene.command(&["record", "--from", "-", "-o"]);
        command.arg(output).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let receive = |from: &Path, output: &Path| {
        let mut command = scene.command(&["record", "--from"]);
        scene.run(command.arg(from).arg("-o").arg(output))
    };
    receive(&stream, &whole).succeeded();
    let bytes = fs::read(&stream).unwrap();
    let mut unreceived = 0;
    for part in 1..8 {
        let output = scene.path(&format!("part-{part}"));
        let here = &bytes[..bytes.len() * part / 8 + 100];
        if part % 2 == 0 {
            let short = scene.path("short");
            fs::write(&short, here).unwrap();
            receive(&short, &output).failed(1, &["ends in the middle"]);
        } else {
            let mut receiver = receiver(&output);
            std::io::Write::write_all(receiver.stdin.as_mut().unwrap(), here).unwrap();
            let pid = receiver.id().to_string();
            // It has taken all, and waits for more.
            wait_until("it waits", || {
                fs::read_to_string(format!("/proc/{pid}/wchan"))
                    .is_ok_and(|place| place.contains("pipe_read"))
            });
            receiver.kill().unwrap();
            receiver.wait().unwrap();
        }
        let recovered = scene.run(scene.command(&["recover", "--json"]).arg(&output));
        let text = recovered.succeeded();
        let last = chunks(&output).pop().unwrap();
        if text.is_empty() {
            // Between two chunks.
            continue;
        }
        let summary: Value = serde_json::from_str(text).unwrap();
        assert_eq!(summary["state"], "recovered");
        let complete = sordino_tests::session::summary(&whole.join(last.file_name().unwrap()));
        let (events, missing) = counts(&summary);
        assert_eq!(events + missing, counts(&complete).0, "{summary}");
        assert_eq!(summary["lost"], missing);
        unreceived += missing;
        let programs = fs::read_dir(last.join("user")).into_iter().flatten().flatten();
        let mut traces = programs.map(|program| program.path()).chain([last.join("kernel")]);
        // The part may end before the chunk's first trace.
        if events > 0 || traces.any(|trace| trace.join("metadata").exists()) {
            let (_, warnings) = babeltrace(&last);
            assert!(!warnings.contains("ERROR"), "{warnings}");
            let listed = scene.listed(&last);
            assert!(events == 0 || !listed.is_empty());
        }
        // The same again finds nothing to do.
        scene.run(scene.command(&["recover"]).arg(&output)).succeeded();
    }
    assert!(unreceived > 0, "nothing was missing in any part");
}
