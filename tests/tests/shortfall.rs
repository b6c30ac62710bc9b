//! Missing recordings are reported with the reason: rules that select nothing, and recordings without an event.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::{CompletedRecording, NOBODY, NativeCompiler, Scene, wait_until};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program with an invalid area.
const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of characters")
}

/// Returns the state of a recording's rules in its summary, and the reason why there is no event.
fn shortfall(recording: &CompletedRecording) -> (&[Value], &Value) {
    let shortfall = &recording.summary["shortfall"];
    (shortfall["rules"].as_array().expect("a list of rules"), &shortfall["no_events"])
}

/// Returns the names and states of the processes of a recording that has no event for this reason.
#[track_caller]
fn processes(recording: &CompletedRecording, reason: &str) -> Vec<(String, String)> {
    let (_, no_events) = shortfall(recording);
    assert_eq!(no_events["reason"], reason, "{}", recording.summary);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let processes = no_events["processes"].as_array().expect("processes").iter();
    processes.map(|process| (text(&process["name"]), text(&process["state"]))).collect()
}

/// Returns the text that `sordino record` prints at its end.
fn lines_of(scene: &Scene, options: &[&str], command: &[&str]) -> String {
    let output = scene.fresh("recording");
    let arguments = [&["record", "-o", text(&output)], options, &["--"], command].concat();
    scene.sordino(&arguments).errors
}

/// A program that is not linked with sordino.
fn sleeper(scene: &Scene, flags: &[&str]) -> PathBuf {
    scene.compile(NativeCompiler::Gcc, "sleeper.c", &[&["-Wl,--as-needed"], flags].concat())
}

#[test]
fn a_rule_that_matches_nothing_is_said_at_the_end() {
    let scene = Scene::new();
    let program = scene.program("ends.c");
    let command = [text(&program), "exit", "0"];
    let record = |rules: &str| scene.record(&["--user", rules], &command);

    let name = record("ends:son");
    let (rules, no_events) = shortfall(&name);
    assert_eq!(
        (rules.len(), &rules[0]["rule"], &rules[0]["trigger"]),
        (1, &json!("ends:son"), &json!(false))
    );
    assert_eq!((&rules[0]["cause"], &rules[0]["similar"]), (&json!("no_tracepoint"), &json!(["ends:soon"])));
    assert_eq!(
        (&no_events["reason"], &no_events["processes"][0]["enabled"]),
        (&json!("no_rule_matched"), &json!(0))
    );
    let lines = lines_of(&scene, &["--user", "ends:son"], &command);
    assert!(lines.contains("no tracepoint matched 'ends:son'; did you mean ends:soon?"), "{lines}");
    assert!(lines.contains("is linked with sordino, and no rule chose any of its tracepoints"), "{lines}");

    let field = record("ends:soon if numbr > 5");
    let (rules, _) = shortfall(&field);
    let tracepoint = json!([{ "name": "ends:soon", "fields": ["number"] }]);
    assert_eq!((&rules[0]["cause"], &rules[0]["tracepoints"]), (&json!("no_field"), &tracepoint));
    assert_eq!((&rules[0]["field"], &rules[0]["similar"]), (&json!("numbr"), &json!(["number"])));
    let lines = lines_of(&scene, &["--user", "ends:soon if numbr > 5"], &command);
    assert!(lines.contains("'numbr' is no field of ends:soon (number); did you mean number?"), "{lines}");

    // Too much is recorded.
    let exclusion = record("*, !ends:son");
    let (rules, no_events) = shortfall(&exclusion);
    assert_eq!((rules.len(), &rules[0]["cause"], no_events), (1, &json!("no_tracepoint"), &Value::Null));
    exclusion.assert_count(1);
    let order = record("!ends:soon, ends");
    assert_eq!(shortfall(&order).0[0]["cause"], "nothing_to_exclude");

    // Rules of which each chooses something, also those that options stand for.
    for rules in ["*", "ends", "ends:soon if number == 0", "* if number == 0", "ends:*, !ends:soon, ends:s*"]
    {
        let fine = scene.record(&["--user", rules, "--context", "all"], &command);
        assert_eq!(
            fine.summary["shortfall"],
            json!({ "rules": [], "tracepoints_cut": false, "no_events": null })
        );
        fine.assert_count(1);
    }
}

#[test]
fn tracepoints_that_are_enabled_and_not_hit_are_told_from_those_that_no_rule_chose() {
    let scene = Scene::new();
    let (ends, crowd) = (scene.program("ends.c"), scene.program("crowd.c"));
    let unmet = scene.record(&["--user", "ends:soon if number > 5"], &[text(&ends), "exit", "0"]);
    assert_eq!(processes(&unmet, "not_hit").len(), 1);
    let none = scene.record(&[], &[text(&crowd), "0"]);
    let name = crowd.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(processes(&none, "not_hit"), [(name, "recorded".to_owned())]);
    let lines = lines_of(&scene, &[], &[text(&crowd), "0"]);
    assert!(lines.contains("hit none of its enabled tracepoints"), "{lines}");
    // All of its tracepoints are taken away again: each rule has done something, and nothing is enabled.
    let excluded = scene.record(&["--user", "crowd:*, !crowd:step"], &[text(&crowd), "1"]);
    assert_eq!((processes(&excluded, "no_rule_matched").len(), shortfall(&excluded).0.len()), (1, 0));
}

#[test]
fn a_command_that_is_not_linked_is_named_with_what_it_started() {
    let scene = Scene::new();
    for (sleeper, name) in [(sleeper(&scene, &[]), "sleeper-1"), (sleeper(&scene, &["-static"]), "sleeper-2")]
    {
        let plain = scene.record(&[], &[text(&sleeper), "3000"]);
        assert_eq!(processes(&plain, "not_linked"), [(name.to_owned(), "not_linked".to_owned())]);
    }
    let sleeper = sleeper(&scene, &[]);
    let script = scene.path("script");
    fs::write(&script, format!("#!/bin/sh\n{} 3000\ntrue\n", sleeper.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let both = processes(&scene.record(&[], &[text(&script)]), "not_linked");
    let unlinked = |name: &str| (name.to_owned(), "not_linked".to_owned());
    let name = sleeper.file_name().unwrap().to_str().unwrap();
    assert_eq!(both, [unlinked("script"), unlinked(name)]);
    let lines = lines_of(&scene, &[], &[text(&sleeper), "3000"]);
    let words = format!("not linked with sordino, nor is what it loaded: {name} (process ");
    assert!(lines.contains(&words), "{lines}");
    assert!(lines.contains("pkg-config --cflags --libs sordino"), "{lines}");
}

/// More programs end than the recorder remembers.
#[test]
fn a_program_is_not_forgotten_for_what_a_script_starts_before_it() {
    let scene = Scene::new();
    let ends = scene.program("ends.c");
    let script = format!("for i in $(seq 24); do sleep 2 & done; sleep 0.8; {} exit 0", ends.display());
    let recording = scene.record(&["--user", "ends:son"], &["sh", "-c", &script]);
    let listed = processes(&recording, "no_rule_matched");
    let name = ends.file_name().unwrap().to_str().unwrap();
    assert!(listed.contains(&(name.to_owned(), "recorded".to_owned())), "{listed:?}");
    assert_eq!(listed[0].0, "sh");
    let lines = lines_of(&scene, &["--user", "ends:son"], &["sh", "-c", &script]);
    assert!(lines.contains("is linked with sordino, and no rule chose any of its tracepoints"), "{lines}");
    assert!(!lines.contains("not linked with sordino"), "{lines}");
}

#[test]
fn a_tracepoint_of_the_library_that_is_named_and_not_hit_is_told_so() {
    let scene = Scene::new();
    let ends = scene.program("ends.c");
    let unmarked = scene.record(&["--user", "sordino:mark"], &[text(&ends), "exit", "0"]);
    assert_eq!(processes(&unmarked, "not_hit").len(), 1);
    assert_eq!(shortfall(&unmarked).1["processes"][0]["enabled"], 1);
}

/// A program that ends at once is not reported as unlinked, because that is unknown.
#[test]
fn what_ended_too_soon_is_not_called_unlinked() {
    let scene = Scene::new();
    let short = scene.record(&[], &["true"]);
    assert_eq!(processes(&short, "not_registered"), [("true".to_owned(), "not_registered".to_owned())]);
    let lines = lines_of(&scene, &[], &["true"]);
    assert!(
        lines.contains(
            "there too briefly to be looked into, and not registered as linked programs are: true (process "
        ),
        "{lines}"
    );
    // It is linked, but its environment was taken away, as sudo does.
    let ends = scene.program("ends.c");
    let without = scene.record(&[], &["env", "-i", text(&ends), "exit", "0"]);
    let (_, no_events) = shortfall(&without);
    assert!(no_events.is_null() || no_events["reason"] == "not_registered", "{no_events}");
}

#[test]
fn programs_that_are_recorded_are_never_called_unlinked() {
    let scene = Scene::new();
    let (ends, fixed) = (scene.program("ends.c"), scene.compile(NativeCompiler::Gcc, "ends.c", &["-static"]));
    let plugin = scene.compile(NativeCompiler::Gcc, "plugin.c", &["-shared", "-fPIC"]);
    let host = scene.compile(NativeCompiler::Gcc, "plain_host.c", &["-Wl,--as-needed"]);
    let script = format!("sleep 0.5; {} exit 0", ends.display());
    let commands: [(&[&str], usize); 5] = [
        (&["sh", "-c", &script], 1),
        (&["setsid", "-w", text(&ends), "exit", "0"], 1),
        (&["sh", "-c", &format!("exec {}", ends.display())], 1),
        (&[text(&fixed), "exit", "0"], 1),
        (&[text(&host), text(&plugin)], 2),
    ];
    for (command, events) in commands {
        let recording = scene.record(&[], command);
        recording.assert_count(events);
        assert_eq!(recording.summary["shortfall"]["no_events"], Value::Null, "{command:?}");
    }
}

#[test]
fn a_command_with_more_rights_than_its_user_needs_root() {
    let Some(scene) = Scene::new().as_root() else { return };
    let home = scene.directory_of(NOBODY, "home");
    let sleeper = sleeper(&scene, &[]);
    chown(&sleeper, Some(0), Some(0)).unwrap();
    fs::set_permissions(&sleeper, fs::Permissions::from_mode(0o4755)).unwrap();
    let mut recorder =
        scene.command_of(NOBODY, &["record", "--json", "-o", "out", "--", text(&sleeper), "3000"]);
    let recording = CompletedRecording::of(scene.run(recorder.current_dir(&home)), home.join("out"));
    assert_eq!(processes(&recording, "not_reached").len(), 1);
    let reason = recording.summary["shortfall"]["no_events"]["processes"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("run as root"), "{reason}");
}

#[test]
fn a_program_that_was_seen_and_can_not_be_recorded_is_said_with_the_reason() {
    let scene = Scene::new();
    let mut hostile = scene.start(Command::new(HOSTILE).args(["sizes", "60"]));
    hostile.says("ready");
    let session = ScopedSession::start(&scene, "seen", &["--subbuf-size", "16K", "--num-subbuf", "4"]);
    session.stop();
    let again = session.ask(&["start", "seen"]);
    again.succeeded();
    for words in ["skipped hostile", "makes no sense"] {
        assert!(again.errors.contains(words), "{}", again.errors);
    }
    session.destroy();
    let recording = scene.record(&[], &[HOSTILE, "sizes", "3"]);
    assert_eq!(processes(&recording, "not_reached"), [("hostile".to_owned(), "not_reached".to_owned())]);
    let reason = &recording.summary["shortfall"]["no_events"]["processes"][0]["reason"];
    assert!(reason.as_str().unwrap().contains("makes no sense"), "{reason}");
}

/// A recording of the kernel's events alone needs no program.
#[test]
fn a_recording_of_the_kernel_needs_no_reason() {
    let Some(scene) = Scene::new().as_root() else { return };
    let recording = scene.record(&["--kernel", "sched_switch"], &["sleep", "0.3"]);
    assert!(recording.kernel_events() > 0);
    assert_eq!(recording.summary["shortfall"]["no_events"], Value::Null);
}

/// Returns the state of a session's rules from `status`.
fn rules(session: &ScopedSession<'_>) -> Vec<Value> {
    session.status()["status"]["shortfall"]["rules"].as_array().expect("rules").clone()
}

#[test]
fn a_session_says_what_its_rules_do_not_match_and_remembers_it() {
    let scene = Scene::new();
    let mut running = ScopedSession::join(&scene, &mut Command::new(scene.program("steady.c")));
    running.says("ready");
    let pid = running.pid().to_string();
    let small = ["--subbuf-size", "16K", "--num-subbuf", "4"];
    let trigger = ["--overwrite", "--trigger", "steady:step if late > 50us", "--user", "steady:stp"];
    let session = ScopedSession::start(&scene, "typo", &[&trigger[..], &small, &["--pid", &pid]].concat());
    let problems = rules(&session);
    assert_eq!((problems.len(), &problems[0]["rule"]), (2, &json!("steady:stp")), "{problems:?}");
    assert_eq!((&problems[1]["trigger"], &problems[1]["cause"]), (&json!(true), &json!("no_field")));
    let text = session.ask(&["status", "typo"]);
    assert!(
        text.succeeded().contains("no tracepoint matched 'steady:stp'; did you mean steady:step?"),
        "{}",
        text.output
    );
    assert!(
        text.output.contains("asks for no snapshot: 'late' is no field of steady:step (number)"),
        "{}",
        text.output
    );

    session.stop();
    let again = session.ask(&["start", "typo"]);
    again.succeeded();
    for words in ["so far, no tracepoint matched 'steady:stp'", "programs that start later"] {
        assert!(again.errors.contains(words), "{}", again.errors);
    }
    let enabled = session.ask(&["enable", "typo", "stedy:step, steady:step if numbr > 5"]);
    enabled.succeeded();
    assert!(enabled.errors.contains("'stedy:step'; did you mean steady:step?"), "{}", enabled.errors);
    assert!(
        enabled.errors.contains("'numbr' is no field of steady:step (number); did you mean number?"),
        "{}",
        enabled.errors
    );
    assert!(!enabled.errors.contains("steady:stp'"), "{}", enabled.errors);
    // The same again is as wrong as before.
    let again = session.ask(&["enable", "typo", "stedy:step"]);
    assert!(again.errors.contains("'stedy:step'; did you mean steady:step?"), "{}", again.errors);
    let disabled = session.ask(&["disable", "typo", "steady:other"]);
    disabled.succeeded();
    assert!(disabled.errors.contains("'!steady:other': it excludes nothing"), "{}", disabled.errors);

    // It is still known when the program has ended, also to rules that come then.
    running.signal(Signal::KILL);
    running.end();
    wait_until("the program is gone", || {
        !session.has(pid.parse().unwrap()) || session.status()["state"] == "stopped"
    });
}

#[test]
fn what_was_seen_is_remembered_when_its_program_has_ended() {
    let scene = Scene::new();
    let small = ["--subbuf-size", "16K", "--num-subbuf", "4"];
    let session = ScopedSession::start(&scene, "memory", &[&["--user", "ends:son"], &small[..]].concat());
    let ends = scene.program("ends.c");
    ScopedSession::join(&scene, Command::new(&ends).args(["exit", "0"])).end().succeeded();
    let similar = || rules(&session).first().map(|rule| rule["similar"].clone());
    wait_until("its tracepoint is known", || similar() == Some(json!(["ends:soon"])));
    let enabled = session.ask(&["enable", "memory", "ends:soone"]);
    assert!(enabled.errors.contains("did you mean ends:soon?"), "{}", enabled.errors);
    session.does("enable", &["ends:soon"]);
    assert_eq!(rules(&session).len(), 2, "{:?}", rules(&session));
    let no_events = session.status()["status"]["shortfall"]["no_events"]["reason"].clone();
    assert_eq!(no_events, "no_rule_matched");

    let stopped = session.ask(&["stop", "memory"]);
    assert!(
        stopped.succeeded().contains("no tracepoint matched 'ends:son'; did you mean ends:soon?"),
        "{}",
        stopped.output
    );
    assert!(stopped.output.contains("no rule chose any of its tracepoints"), "{}", stopped.output);
    let last = summary(&session.output.join("chunk-0001"));
    assert_eq!(last["shortfall"]["rules"][0]["rule"], "ends:son", "{last}");
    session.destroy();
}

#[test]
fn a_session_without_an_event_says_why() {
    let scene = Scene::new();
    let session = ScopedSession::start(&scene, "plain", &["--", "sleep", "30"]);
    let no_events = || session.status()["status"]["shortfall"]["no_events"].clone();
    wait_until("its command was looked into", || no_events()["reason"] == "not_linked");
    let command = no_events()["processes"][0].clone();
    assert_eq!(command["name"], "sleep");
    let stopped = session.ask(&["stop", "plain", "--json"]);
    let stopped: Value = serde_json::from_str(stopped.succeeded()).unwrap();
    assert_eq!(stopped["shortfall"]["no_events"]["reason"], "not_linked", "{stopped}");
    // It outlives its session.
    let pid = Pid::from_raw(command["pid"].as_i64().unwrap() as i32).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    session.destroy();

    // One with events needs no reason, while it runs and when it is stopped.
    let mut running = ScopedSession::join(&scene, Command::new(scene.program("steady.c")).arg("20000"));
    running.says("ready");
    let pid = running.pid().to_string();
    let small = ["--subbuf-size", "16K", "--num-subbuf", "4"];
    let session = ScopedSession::start(&scene, "fine", &[&["--pid", &pid], &small[..]].concat());
    running.says("recorded");
    wait_until("there are events", || session.status()["status"]["shortfall"]["no_events"].is_null());
    let stopped = session.ask(&["stop", "fine", "--json"]);
    let stopped: Value = serde_json::from_str(stopped.succeeded()).unwrap();
    assert_eq!(stopped["shortfall"]["no_events"], Value::Null, "{stopped}");
    running.signal(Signal::TERM);
    running.end().succeeded();
    session.destroy();
}
