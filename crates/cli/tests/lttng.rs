//! A trace that LTTng recorded.

mod support;

use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use support::recording::babeltrace;
use support::{NOBODY, Scene, programs, wait_until};

#[test]
fn a_trace_of_lttngs_is_listed_as_babeltrace2_does() {
    let Some(scene) = Scene::as_root() else { return };
    let home = scene.directory_of_nobody("home");
    let program = scene.path("lttng");
    programs::compile_for_lttng("lttng", &program);
    let by_nobody = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).uid(NOBODY).gid(NOBODY).current_dir(&home);
        command.env("HOME", &home).env("LTTNG_HOME", &home);
        command
    };
    let lttng = |words: &[&str]| scene.run(&mut by_nobody(&[&["lttng"], words].concat()));

    let shared: BTreeSet<_> = support::all_below("/dev/shm".as_ref()).into_iter().collect();
    let daemon = scene.start(&mut by_nobody(&["lttng-sessiond", "--no-kernel"]));
    wait_until("LTTng's daemon answers", || lttng(&["list"]).status == 0);
    lttng(&["create", "session", "--output", "trace"]).succeeded();
    lttng(&["enable-event", "--userspace", "tick:*"]).succeeded();
    lttng(&["add-context", "--userspace", "--type", "vpid", "--type", "vtid"]).succeeded();
    lttng(&["start"]).succeeded();
    let mut ticking = by_nobody(&[program.to_str().unwrap()]);
    // For as long as it takes to be registered.
    scene.run(ticking.env("LTTNG_UST_REGISTER_TIMEOUT", "-1")).succeeded();
    lttng(&["destroy"]).succeeded();
    daemon.signal(Signal::TERM);
    daemon.end();
    // What LTTng leaves behind.
    let left = support::all_below("/dev/shm".as_ref());
    let is_of_lttng = |file: &&PathBuf| file.to_string_lossy().contains("/lttng-ust-");
    let left = left.iter().filter(is_of_lttng).filter(|file| !shared.contains(*file));
    left.for_each(|file| fs::remove_file(file).unwrap());

    let trace = home.join("trace");
    let (lines, complaints) = babeltrace(&trace);
    assert_eq!((lines.len(), complaints.as_str()), (10_000, ""));
    let events = scene.listed(trace.to_str().unwrap());
    assert_eq!(events.len(), lines.len());
    for (number, (event, line)) in events.iter().zip(&lines).enumerate() {
        assert_eq!(event["name"], "tick:tock");
        let text = if number % 2 == 1 { "odd" } else { "even" };
        let fields = &event["fields"];
        assert_eq!(fields["number"], number as i64 - 5000, "{event}");
        assert_eq!((&fields["text"], fields["ratio"].as_f64()), (&text.into(), Some(number as f64 / 4.0)));
        assert!(line.contains(&format!("vtid = {}", event["tid"])), "{event} {line}");
        assert!(line.contains(&format!("number = {}, text = \"{text}\"", fields["number"])), "{line}");
    }
    assert!(events.is_sorted_by_key(|event| event["time_ns"].as_i64()));
}
