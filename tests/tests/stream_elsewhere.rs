//! `record -o -` on a machine of the other byte order, `record --from -` on this one.
#![cfg(target_endian = "little")]

use serde_json::Value;
use sordino_ctf::read::find;
use sordino_tests::listing::{babeltrace, named};
use sordino_tests::order::to_big_endian;
use sordino_tests::session::summary;
use sordino_tests::{EndedProcess, Scene};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Records a program with every kind of field, and the kernel if we may, into a stream; unpacks that as any tar
/// archive.
fn unpacked(scene: &Scene) -> PathBuf {
    let (stream, directory) = (scene.path("stream"), scene.path("sent"));
    let mut command = scene.command(&["record", "-o", "-", "--duration", "1500ms"]);
    if rustix::process::geteuid().is_root() {
        command.args(["--kernel", "sched,irq,syscalls:sys_enter_openat"]);
    }
    // The list goes to standard error.
    let script = format!("{}; ls /; sleep 1.2; {0}", scene.program("fields.c").display());
    let sender = command.args(["--", "sh", "-c", &script]).stdout(File::create(&stream).unwrap());
    assert!(sender.stderr(Stdio::null()).status().unwrap().success());
    fs::create_dir(&directory).unwrap();
    tar(&directory, &["--extract", "--file"], &stream, &[]);
    directory
}

fn tar(directory: &Path, what: &[&str], archive: &Path, names: &[String]) {
    let mut command = Command::new("tar");
    command.args(what).arg(archive).arg("-C").arg(directory).args(names);
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// The chunks in a directory, by their names.
fn chunks(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Sends chunks as `sordino record -o -` does, each one's summary last, and receives them.
fn received(scene: &Scene, sent: &Path, name: &str) -> PathBuf {
    let (stream, output) = (scene.path(&format!("{name}.tar")), scene.path(name));
    let parts = |chunk: &String| ["kernel", "user", "recording.json"].map(|part| format!("{chunk}/{part}"));
    let names: Vec<String> = chunks(sent).iter().flat_map(parts).collect();
    tar(sent, &["--create", "--file"], &stream, &names);
    let mut command = scene.command(&["record", "--from", "-", "-o"]);
    let receiver = command.arg(&output).stdin(File::open(&stream).unwrap());
    assert!(receiver.status().unwrap().success());
    output
}

fn swap(directory: &Path) -> usize {
    find(directory).unwrap().iter().map(|trace| to_big_endian(trace)).sum()
}

fn fields<'a>(events: &'a [Value], name: &str) -> &'a Value {
    &named(events, name).first().unwrap_or_else(|| panic!("no {name}"))["fields"]
}

/// Every file below a directory.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => files.extend(contents(&path)),
            false => drop(files.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    files
}

#[test]
fn a_stream_from_a_machine_of_the_other_byte_order_has_the_same_events() {
    let scene = Scene::new();
    let sent = unpacked(&scene);
    let here = received(&scene, &sent, "here");
    assert!(swap(&sent) > 1000, "nothing was swapped");
    let elsewhere = received(&scene, &sent, "elsewhere");
    assert!(chunks(&here).len() >= 2 && chunks(&here) == chunks(&elsewhere));
    let mut all = Vec::new();
    for chunk in chunks(&here) {
        let (ours, theirs) = (here.join(&chunk), elsewhere.join(&chunk));
        let (expected, events) = (scene.listed(&ours), scene.listed(&theirs));
        assert!(events == expected, "{chunk}: {} events and {}", events.len(), expected.len());
        assert_eq!(babeltrace(&theirs), babeltrace(&ours), "{chunk}");
        all.extend(events);
    }
    // The values are the program's, not only the same as some others.
    assert_eq!(fields(&all, "fields:most")["d"], u64::MAX);
    assert_eq!(fields(&all, "fields:most")["g"], i32::MAX);
    assert_eq!(fields(&all, "fields:network")["c"], 0x0102_0304);
    assert_eq!(fields(&all, "fields:real")["twice"], -1e100);
    assert_eq!(fields(&all, "fields:arrays")["numbers"], serde_json::json!([1, 2, u32::MAX]));
    assert_eq!(fields(&all, "fields:sequences")["numbers"], serde_json::json!([i64::MIN, i64::MAX]));
    assert_eq!(fields(&all, "fields:text")["some"], "with \"quotes\" and \\");
    if rustix::process::geteuid().is_root() {
        assert!(named(&all, "sched_switch").len() > 10);
    }
}

#[test]
fn what_a_killed_recorder_left_elsewhere_is_not_cut_here() {
    let scene = Scene::new();
    let chunk = unpacked(&scene).join("chunk-0001");
    swap(&chunk);
    let mut left = summary(&chunk);
    left["state"] = "recording".into();
    fs::write(chunk.join("recording.json"), left.to_string()).unwrap();
    let before = contents(&chunk);
    let ended: EndedProcess = scene.run(scene.command(&["recover"]).arg(&chunk));
    ended.failed(2, &["byte order", "recover it on the machine that recorded it"]);
    assert!(contents(&chunk) == before, "files are others than before");
}
