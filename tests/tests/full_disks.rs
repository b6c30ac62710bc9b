//! Full disks: unwritten data is reported first, counted by program and CPU, and is a gap in the trace.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::disk::SmallDisk;
use sordino_tests::listing::babeltrace;
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::{CompletedRecording, RunningProcess, Scene, last_cpu, wait_until};
use std::fs;
use std::path::Path;
use std::process::Command;

const SMALL: [&str; 6] = ["--user", "steady", "--subbuf-size", "16K", "--num-subbuf", "4"];

fn steady(scene: &Scene) -> RunningProcess {
    ready(scene, Command::new(scene.program("steady.c")).arg("20000"))
}

/// Records on one CPU, so that events after a gap are in the stream that has the gap.
fn steady_on_one_cpu(scene: &Scene) -> RunningProcess {
    let mut command = Command::new("taskset");
    ready(scene, command.args(["-c", &last_cpu()]).arg(scene.program("steady.c")).arg("20000"))
}

fn ready(scene: &Scene, command: &mut Command) -> RunningProcess {
    let mut running = ScopedSession::join(scene, command);
    running.says("recorded");
    running
}

fn end(program: RunningProcess) {
    program.signal(Signal::TERM);
    program.end().succeeded();
}

fn missing(session: &ScopedSession<'_>, what: &str) -> u64 {
    session.status()["status"]["missing"][what].as_u64().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// Each ring and each of the kernel's buffers that lacks something has a gap that babeltrace2 warns of.
#[track_caller]
fn gaps_are_in_the_trace(chunk: &Path) {
    let (of, warnings) = (summary(chunk), babeltrace(chunk).1);
    let warned = |path: &str, what: &str| {
        warnings.lines().any(|line| line.contains(what) && line.contains(&format!("{path}\"")))
    };
    let mut gaps = 0;
    for program in list(&of["programs"]) {
        for stream in list(&program["streams"]).iter().filter(|stream| number(stream, "unwritten") > 0) {
            let path = format!("/{}/cpu{}", program["trace"].as_str().unwrap(), stream["cpu"]);
            let has_bytes = number(stream, "unwritten_bytes") > 0;
            assert!(has_bytes && warned(&path, " packet"), "{path}: {stream}\n{warnings}");
            gaps += 1;
        }
    }
    for stream in list(&of["kernel"]) {
        let count = number(stream, "lost") + number(stream, "unwritten");
        let path = format!("/kernel/cpu{}", stream["cpu"]);
        assert!(count == 0 || warned(&path, " event"), "{path}: {stream}\n{warnings}");
        gaps += u64::from(count > 0);
    }
    assert!(gaps > 0, "{of}");
}

#[test]
fn a_session_says_first_what_it_could_not_write_and_goes_on_when_there_is_room() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("of-tight"), "size=24m");
    let looks = "syscalls:sys_enter_access,syscalls:sys_enter_statx,syscalls:sys_enter_newfstatat";
    let kernel = ["--kernel", looks, "--kernel-buffer", "64K"];
    let session = ScopedSession::start(&scene, "tight", &[&SMALL[..], &kernel].concat());
    let running = steady(&scene);
    let there = scene.path("there");
    let fill_the_kernels_buffer = || (0..50_000).for_each(|_| assert!(!there.exists()));
    disk.fill_but(0);
    wait_until("sub-buffers are missing", || missing(&session, "sub_buffers") > 0);
    wait_until("the kernel's events are missing", || {
        fill_the_kernels_buffer();
        missing(&session, "kernel_events") > 0
    });
    let text = session.ask(&["status", "tight"]).succeeded().to_owned();
    assert!(text.starts_with("INCOMPLETE: could not be written: "), "{text}");
    for words in [
        "sub-buffers of programs",
        "kernel events",
        "No space left on device",
        "of events could not be written",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("lost 0"), "{text}");
    assert!(!session.ask(&["status"]).succeeded().contains("lost 0"));

    disk.empty();
    let written = || {
        let rings = session.records(running.pid())["rings"].as_array().unwrap().clone();
        rings.iter().map(|ring| number(ring, "bytes")).sum::<u64>()
    };
    let before = written();
    wait_until("it goes on where there is room", || written() > before + (256 << 10));
    disk.fill_but(0);
    let before = missing(&session, "sub_buffers");
    wait_until("more is missing", || missing(&session, "sub_buffers") > before);
    // The note names a program that has ended, too.
    end(running);
    fill_the_kernels_buffer();
    wait_until("the program has gone", || {
        let status = session.status();
        let programs = list(&status["status"]["programs"]).to_vec();
        programs
            .iter()
            .any(|program| program["notes"][0] == "it has ended" && program["rings"][0]["unwritten"] != 0)
    });
    let stopped = session.ask(&["stop", "tight"]);
    assert_eq!(stopped.status, 1, "{}", stopped.errors);
    assert!(stopped.output.starts_with("INCOMPLETE: could not be written: "), "{}", stopped.output);
    let chunk = session.output.join("chunk-0001");
    assert_eq!(summary(&chunk)["state"], "finished");
    assert!(list(&summary(&chunk)["kernel"]).iter().any(|cpu| number(cpu, "unwritten") > 0));
    gaps_are_in_the_trace(&chunk);
    session.destroy();
    drop(disk);
    fs::remove_dir(scene.path("of-tight")).unwrap();
}

#[test]
fn a_stream_of_which_nothing_could_be_written_is_a_gap() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("of-none"), "size=24m");
    let session = ScopedSession::start(&scene, "none", &SMALL);
    // Room for metadata, and for no sub-buffer.
    disk.fill_but(4 << 10);
    let running = steady(&scene);
    wait_until("sub-buffers are missing", || missing(&session, "sub_buffers") > 2);
    end(running);
    assert_eq!(session.ask(&["stop", "none"]).status, 1);
    let chunk = session.output.join("chunk-0001");
    let of = summary(&chunk);
    let streams = list(&of["programs"][0]["streams"]);
    assert!(
        streams.iter().all(|stream| number(stream, "bytes") == 0 && number(stream, "events") == 0),
        "{of}"
    );
    gaps_are_in_the_trace(&chunk);
    session.destroy();
    drop(disk);
    fs::remove_dir(scene.path("of-none")).unwrap();
}

#[test]
fn a_snapshot_that_does_not_fit_says_what_it_lacks() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("of-box"), "size=48m");
    let session = ScopedSession::start(
        &scene,
        "box",
        &["--overwrite", "--user", "steady", "--subbuf-size", "256K", "--num-subbuf", "32"],
    );
    let running = steady(&scene);
    wait_until("there is more than there will be room for", || {
        list(&session.records(running.pid())["rings"]).iter().any(|ring| number(ring, "filled") > 4 << 20)
    });
    disk.fill_but(0);
    session.ask(&["snapshot", "box"]).failed(2, &["can't write to ", "of-box", "No space left on device"]);
    disk.empty();
    disk.fill_but(3 << 20);
    let snapshot = session.ask(&["snapshot", "box", "--json"]);
    assert_eq!(snapshot.status, 1, "{}", snapshot.errors);
    let reply: Value = serde_json::from_str(&snapshot.output).unwrap();
    assert!(number(&reply["missing"], "sub_buffers") > 1, "{reply}");
    let path = reply["directory"].as_str().unwrap();
    let summary = summary(Path::new(path));
    // A command of another test, which the recorder finds without a registration, may be there for a moment.
    let has_events =
        |program: &&Value| list(&program["streams"]).iter().any(|stream| number(stream, "events") > 0);
    assert_eq!(list(&summary["programs"]).iter().filter(has_events).count(), 1, "{summary}");
    gaps_are_in_the_trace(Path::new(path));
    let status = session.ask(&["status", "box"]).succeeded().to_owned();
    assert!(
        status.starts_with("INCOMPLETE: could not be written: ") && status.contains("1 recording"),
        "{status}"
    );
    end(running);
    disk.empty();
    assert_eq!(session.ask(&["stop", "box"]).status, 1);
    session.destroy();
    drop(disk);
    fs::remove_dir(scene.path("of-box")).unwrap();
}

/// The command fills the disk when the kernel's pages take much of it: they can't become a trace there.
#[test]
fn pages_without_room_to_be_converted_are_kept_for_later() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("disk"), "size=40m");
    let output = scene.path("disk/recording");
    let mut recorder = scene.command(&["record", "--json", "--kernel", "raw_syscalls", "-o"]);
    let script = format!(
        "dd if=/dev/zero of=/dev/null bs=1 count=60000 2>/dev/null; sleep 0.5; cat /dev/zero >{} 2>/dev/null; true",
        scene.path("disk/ballast").display()
    );
    let ended = scene.run(recorder.arg(&output).args(["--", "sh", "-c", &script]));
    ended.failed(1, &["INCOMPLETE: could not be written: ", "of the kernel's pages, which are kept"]);
    let recording = CompletedRecording::of(ended, output.clone());
    assert_eq!(recording.summary["state"], "incomplete");
    let unconverted =
        || list(&recording.summary["kernel"]).iter().filter(|cpu| number(cpu, "unconverted") > 0);
    assert!(unconverted().count() > 0, "{}", recording.summary);
    let warnings = babeltrace(&output).1;
    for stream in unconverted() {
        assert!(warnings.contains(&format!("/kernel/cpu{}\"", stream["cpu"])), "{warnings}");
    }
    let listed = scene.run(scene.command(&["events", "--json"]).arg(&output));
    assert!(listed.errors.contains("sordino recover"), "{}", listed.errors);
    disk.empty();
    let recovered = scene.run(scene.command(&["recover", "--json"]).arg(&output));
    recovered.succeeded();
    let recovered = CompletedRecording::of(recovered, output);
    assert_eq!(recovered.summary["state"], "recovered");
    assert!(recovered.kernel_events() > 200_000, "{}", recovered.summary);
    recovered.babeltrace_reads_all();
    drop(disk);
    fs::remove_dir(scene.path("disk")).unwrap();
}

/// SIGXFSZ would end the recorder.
#[test]
fn a_limit_of_the_files_size_is_as_a_full_disk() {
    let scene = Scene::new();
    let program = scene.program("burst.c");
    let output = scene.path("recording");
    // The program waits where the recorder does not get to run: more is read than the file takes.
    let small = ["record", "--json", "--subbuf-size", "64K", "--num-subbuf", "2", "--on-full", "block", "-o"];
    let arguments: Vec<_> = small.iter().map(|word| (*word).to_owned()).collect();
    let words =
        [arguments, vec![output.display().to_string(), "--".into(), program.display().to_string()]].concat();
    // In units of 512 bytes: rings are files, too.
    let script =
        format!("ulimit -f 4096; exec {} {} 2 300000 20", scene.path("sordino").display(), words.join(" "));
    let mut limited = Command::new("sh");
    limited.args(["-c", &script]).current_dir(scene.path("")).env("SORDINO_ALLOW_BLOCKING", "1");
    let ended = scene.run(&mut limited);
    ended.failed(1, &["INCOMPLETE: could not be written: ", "File too large"]);
    let recording = CompletedRecording::of(ended, output);
    assert!(recording.user_events() > 0 && recording.sum("unwritten") > 0, "{}", recording.summary);
    recording.babeltrace_reads_all();
}

/// The area of a linked program is a file, too, and the limit does not end the program.
#[test]
fn a_limit_of_the_files_size_does_not_end_a_program_that_is_linked() {
    let scene = Scene::new();
    let script = format!("ulimit -f 8; exec {} exit 0", scene.program("ends.c").display());
    scene.run(Command::new("sh").args(["-c", &script])).succeeded();
}

/// The command is linked: that it was not recorded has another reason.
#[test]
fn a_program_that_there_is_no_room_for_is_said_to_have_none() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("disk"), "size=24m");
    let ends = scene.program("ends.c");
    let ballast = scene.path("disk/ballast");
    let script = format!("cat /dev/zero >{} 2>/dev/null; {} exit 0", ballast.display(), ends.display());
    let output = scene.path("disk/recording");
    let ended =
        scene.run(scene.command(&["record", "--json", "-o"]).arg(&output).args(["--", "sh", "-c", &script]));
    let recording = CompletedRecording::of(ended, output);
    let no_events = &recording.summary["shortfall"]["no_events"];
    assert_eq!(no_events["reason"], "not_reached", "{}", recording.summary);
    let name = ends.file_name().unwrap().to_str().unwrap();
    let found = list(&no_events["processes"]).iter().find(|process| process["name"] == name);
    let reason = found.and_then(|found| found["reason"].as_str()).unwrap_or_default();
    assert!(reason.contains("No space left on device"), "{no_events}");
    drop(disk);
    fs::remove_dir(scene.path("disk")).unwrap();
}

#[test]
fn a_disk_that_was_full_for_a_moment_and_cost_nothing_leaves_a_recording_that_is_whole() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("of-moment"), "size=24m");
    let kernel = ["--no-user", "--kernel", "syscalls:sys_enter_access", "--kernel-buffer", "8M"];
    let session = ScopedSession::start(&scene, "moment", &kernel);
    let there = scene.path("there");
    disk.fill_but(0);
    wait_until("the kernel's pages can't be written", || {
        (0..500).for_each(|_| assert!(!there.exists()));
        session.status()["status"]["missing"]["reason"].is_string()
    });
    let text = session.ask(&["status", "moment"]).succeeded().to_owned();
    assert!(!text.contains("oldest of them lost"), "{text}");
    disk.empty();
    wait_until("all is written", || session.status()["status"]["missing"]["reason"].is_null());
    let stopped = session.ask(&["stop", "moment"]);
    assert!(!stopped.succeeded().contains("INCOMPLETE"), "{}", stopped.output);
    session.destroy();
    drop(disk);
    fs::remove_dir(scene.path("of-moment")).unwrap();
}

/// Each CPU's pages become a trace when there is room for it; a later call goes on.
#[test]
fn what_is_recovered_step_by_step_is_all_counted() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("disk"), "size=48m");
    let output = scene.path("disk/recording");
    // A loop on each CPU, so that each has pages.
    let script = format!(
        "for cpu in 0 1; do taskset -c $cpu dd if=/dev/zero of=/dev/null bs=1 count=50000 2>/dev/null; done; sleep 0.5; \
         cat /dev/zero >{} 2>/dev/null; true",
        scene.path("disk/ballast").display()
    );
    let mut recorder = scene.command(&["record", "--json", "--kernel", "raw_syscalls", "-o"]);
    let ended = scene.run(recorder.arg(&output).args(["--", "sh", "-c", &script]));
    let recording = CompletedRecording::of(ended, output.clone());
    assert_eq!(recording.summary["state"], "incomplete", "{}", recording.summary);
    let (mut tries, mut free) = (0, 0);
    let recovered = loop {
        disk.empty();
        disk.fill_but(free);
        let recovered = scene.run(scene.command(&["recover", "--json"]).arg(&output));
        if recovered.status == 0 {
            break recovered;
        }
        recovered.failed(2, &["No space left on device"]);
        assert_eq!(summary(&output)["state"], "incomplete");
        (tries, free) = (tries + 1, free + (1 << 20));
    };
    let recovered = CompletedRecording::of(recovered, output.clone());
    assert!(tries > 1 && recovered.kernel_events() > 200_000, "{tries}: {}", recovered.summary);
    assert_eq!(recovered.kernel_events(), listed(&output));
    recovered.babeltrace_reads_all();
    assert!(!list(&recovered.summary["kernel"]).iter().any(|cpu| number(cpu, "unconverted") > 0));

    // A recorder that is killed after its last page and before its summary leaves a trace without a summary.
    let mut killed = summary(&output);
    killed["state"] = "recording".into();
    killed["recorder"] = (1 << 22).into();
    killed["kernel"] = Value::Array(Vec::new());
    fs::write(output.join("recording.json"), killed.to_string()).unwrap();
    let again = scene.run(scene.command(&["recover", "--json"]).arg(&output));
    again.succeeded();
    let again = CompletedRecording::of(again, output);
    assert_eq!(again.kernel_events(), recovered.kernel_events(), "{}", again.summary);
    drop(disk);
    fs::remove_dir(scene.path("disk")).unwrap();
}

/// The kernel's events in a recording.
fn listed(output: &Path) -> u64 {
    let recording =
        sordino_ctf::read::Trace::open(output.join("kernel"), &mut sordino_event::Classes::default());
    let recording = recording.unwrap();
    let mut count = 0;
    for stream in recording.streams().iter().filter(|stream| {
        stream
            .files()
            .any(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cpu")))
    }) {
        let (mut events, mut event) = (stream.events(), sordino_event::Event::default());
        loop {
            match events.next(&mut event).unwrap() {
                sordino_event::Step::Event => count += 1,
                sordino_event::Step::Loss(_) => {}
                sordino_event::Step::End => break,
            }
        }
    }
    count
}

#[test]
fn what_a_killed_recorder_could_not_write_is_not_called_complete() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("of-killed"), "size=24m");
    let session = ScopedSession::start(&scene, "killed", &SMALL);
    let running = steady_on_one_cpu(&scene);
    disk.fill_but(0);
    wait_until("sub-buffers are missing", || missing(&session, "sub_buffers") > 2);
    disk.empty();
    let written = || {
        list(&session.records(running.pid())["rings"]).iter().map(|ring| number(ring, "bytes")).sum::<u64>()
    };
    let before = written();
    wait_until("it goes on where there is room", || written() > before + (256 << 10));
    let recorder = rustix::process::Pid::from_raw(session.recorder()).unwrap();
    rustix::process::kill_process(recorder, Signal::KILL).unwrap();
    wait_until("it is killed", || session.status()["state"] == "died");
    let recovered = session.ask(&["recover", session.output.to_str().unwrap()]);
    let text = recovered.succeeded();
    assert!(text.starts_with("INCOMPLETE: could not be written: "), "{text}");
    // While nothing could be written, the ring may have become full, too: such losses are counted.
    let lost_more = text.contains(", lost some, not counted\n") || text.contains(" and more\n");
    assert!(lost_more && !text.contains(" 0.0 KiB"), "{text}");
    gaps_are_numbered(&session.output.join("chunk-0001"));
    end(running);
    session.destroy();
    drop(disk);
    fs::remove_dir(scene.path("of-killed")).unwrap();
}

/// Asserts that the losses in the summary are those that babeltrace2 warns of.
#[track_caller]
fn gaps_are_numbered(chunk: &Path) {
    let (of, warnings) = (summary(chunk), babeltrace(chunk).1);
    let streams = list(&of["programs"]).iter().flat_map(|program| list(&program["streams"]));
    let unwritten: u64 = streams.map(|stream| number(stream, "unwritten")).sum();
    assert!(unwritten > 0 && warnings.contains(" packets between "), "{of}\n{warnings}");
}

/// The unfinished recording of an earlier recorder is no fault of the session that finds it.
#[test]
fn a_session_is_not_called_incomplete_for_what_was_there_before() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "later", &SMALL);
    let kill = || {
        let recorder = rustix::process::Pid::from_raw(session.recorder()).unwrap();
        rustix::process::kill_process(recorder, Signal::KILL).unwrap();
        wait_until("it is killed", || session.status()["state"] == "died");
    };
    kill();
    fs::remove_file(session.output.join("chunk-0001/kernel/metadata")).unwrap();
    session.does("start", &[]);
    let notes = || session.status()["status"]["notes"].to_string();
    wait_until("it says so", || notes().contains("an earlier recording is not finished"));
    assert_eq!(missing(&session, "recordings"), 0);
    kill();
    // The recording that cannot be finished does not prevent finishing the other.
    let recovered = session.ask(&["recover", session.output.to_str().unwrap()]);
    recovered.failed(2, &["chunk-0001"]);
    assert!(recovered.output.contains("chunk-0002"), "{}", recovered.output);
    assert_eq!(summary(&session.output.join("chunk-0002"))["state"], "recovered");
    session.does("start", &[]);
    let stopped = session.ask(&["stop", "later"]);
    assert!(!stopped.succeeded().contains("INCOMPLETE"), "{}", stopped.output);
    session.destroy();
}

/// The kernel's pages that find no room as a trace where they are recorded become one where they arrive.
#[test]
fn pages_without_room_are_sent() {
    let Some(scene) = Scene::new().as_root() else { return };
    let disk = SmallDisk::mount(&scene.path("disk"), "size=40m");
    let (stream, output) = (scene.path("stream"), scene.path("received"));
    let script = format!(
        "dd if=/dev/zero of=/dev/null bs=1 count=60000 2>/dev/null; sleep 0.3; cat /dev/zero >{} 2>/dev/null; sleep 2",
        scene.path("disk/ballast").display()
    );
    let mut sender = scene.command(&[
        "record",
        "-o",
        "-",
        "--no-user",
        "--kernel",
        "raw_syscalls",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    sender.env("TMPDIR", scene.path("disk")).stdout(fs::File::create(&stream).unwrap());
    let status = sender.stderr(std::process::Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(1));
    // The receiver's disk may be full, too: that is no fault of the stream's.
    disk.empty();
    disk.fill_but(256 << 10);
    let receive =
        |output: &Path| scene.run(scene.command(&["record", "--from"]).arg(&stream).arg("-o").arg(output));
    let refused = receive(&scene.path("disk/received"));
    refused.failed(1, &["No space left on device", "make room there", "is not complete"]);
    assert!(!refused.errors.contains("ends in the middle"), "{}", refused.errors);
    receive(&output).succeeded();
    let before = chunks(&output);
    let unconverted = |chunks: &[Value]| -> u64 {
        chunks.iter().flat_map(|chunk| list(&chunk["kernel"])).map(|cpu| number(cpu, "unconverted")).sum()
    };
    assert!(unconverted(&before) > 0, "{before:?}");
    scene.run(scene.command(&["recover"]).arg(&output)).succeeded();
    let after = chunks(&output);
    let events: u64 =
        after.iter().flat_map(|chunk| list(&chunk["kernel"])).map(|cpu| number(cpu, "events")).sum();
    assert!(unconverted(&after) == 0 && events > 200_000, "{events}: {after:?}");
    drop(disk);
    fs::remove_dir(scene.path("disk")).unwrap();
}

fn chunks(output: &Path) -> Vec<Value> {
    fs::read_dir(output).unwrap().map(|chunk| summary(&chunk.unwrap().path())).collect()
}
