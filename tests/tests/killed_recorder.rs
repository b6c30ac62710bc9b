//! A recorder that is killed: the program runs on, the machine is as before, and the recording can be finished.

use rustix::process::Signal;
use serde_json::Value;
use sordino_tests::machine::area_kib;
use sordino_tests::recording::packet_files;
use sordino_tests::{Scene, wait_until};
use sordino_tracefs::Tracefs;
use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

fn instances() -> Vec<String> {
    Tracefs::open().unwrap().instances().unwrap()
}

/// "The recorder is killed: the program runs on unharmed, the kernel's instance goes, `sordino recover` finishes the
/// directory, a packet that was being written is cut off."
#[test]
fn a_recording_is_finished_after_its_recorder_was_killed() {
    let scene = Scene::new();
    let program = scene.program("steady.c");
    let mut running = scene.start(Command::new(program).arg("100"));
    running.says("ready");
    let attached = scene
        .attach(running.pid(), &["--kernel", "raw_syscalls", "--subbuf-size", "64K", "--num-subbuf", "64"]);
    let instance = format!("sordino-{}", attached.running.pid());
    assert!(instances().contains(&instance));
    wait_until("some packets are on disk", || {
        packet_files(&attached.output.join("user"))
            .iter()
            .any(|file| fs::metadata(file).unwrap().len() > 1 << 20)
            && (0..)
                .map(|cpu| attached.output.join(format!(".raw/cpu{cpu}")))
                .take_while(|file| file.exists())
                .any(|file| fs::metadata(file).unwrap().len() > 0)
    });

    // A recording that is going on can't be recovered.
    let directory = attached.output.to_str().unwrap().to_owned();
    let refused = scene.sordino(&["recover", &directory]);
    assert_eq!(refused.status, 2);
    assert!(refused.errors.contains("is being recorded by process"), "{}", refused.errors);

    attached.running.signal(Signal::KILL);
    let ended = attached.running.end();
    assert_eq!(ended.status, 128 + Signal::KILL.as_raw());
    wait_until("the guardian has removed the instance", || !instances().contains(&instance));
    assert!(running.is_running(), "the program does not survive its recorder");

    // As if it had been killed in the middle of a packet.
    let torn = packet_files(&attached.output.join("user")).remove(0);
    let whole = fs::read(&torn).unwrap();
    File::options().append(true).open(&torn).unwrap().write_all(&whole[..60_000]).unwrap();
    let recovered = scene.sordino(&["recover", "--json", &directory]);
    assert_eq!(recovered.status, 0, "{}", recovered.errors);
    let summary: Value = serde_json::from_str(&recovered.output).unwrap();
    assert_eq!(summary["state"], "recovered");
    assert_eq!(fs::metadata(&torn).unwrap().len(), whole.len() as u64, "the torn packet is cut off");
    assert!(!attached.output.join(".raw").exists());
    let kernel: u64 =
        summary["kernel"].as_array().unwrap().iter().map(|cpu| cpu["events"].as_u64().unwrap()).sum();
    assert!(kernel > 0, "the kernel's events were recovered");

    let recording = sordino_tests::CompletedRecording::of(recovered, attached.output);
    assert_eq!(recording.babeltrace_and_warnings().0.len() as u64, recording.user_events());
    let mut numbers: Vec<i64> = recording.events().iter().map(|event| event.numbers[0]).collect();
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "an event is there twice");
    recording.babeltrace_reads_all();

    // A finished recording is not changed.
    let again = scene.sordino(&["recover", &directory]);
    assert_eq!(again.status, 0);
    assert!(again.errors.contains("is already finished"), "{}", again.errors);

    // The slot that the dead recorder held is free again, and so is its memory.
    let (blocks, smaller) = (area_kib(running.pid()), ["--subbuf-size", "16K", "--num-subbuf", "2"]);
    assert!(blocks > 8 << 10, "{blocks}");
    let attached = scene.attach(running.pid(), &smaller);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let recording = attached.stop();
    assert!(recording.user_events() + recording.lost() > 0);
    assert!(area_kib(running.pid()) < 1024, "{} KiB of rings that nobody uses", area_kib(running.pid()));
    running.signal(Signal::TERM);
    assert_eq!(running.end().output, "ready\nrecorded\ndone 0\n");
}

/// "What is no recording is refused."
#[test]
fn what_is_no_recording_is_not_recovered() {
    let scene = Scene::new();
    fs::create_dir(scene.path("empty")).unwrap();
    for name in ["empty", "nowhere"] {
        let refused = scene.sordino(&["recover", name]);
        assert_eq!(refused.status, 2);
        assert!(refused.errors.contains("is no recording"), "{}", refused.errors);
    }
    fs::write(scene.path("empty/recording.json"), "{").unwrap();
    let refused = scene.sordino(&["recover", "empty"]);
    assert_eq!(refused.status, 2);
    assert!(refused.errors.contains("recording.json"), "{}", refused.errors);
}
