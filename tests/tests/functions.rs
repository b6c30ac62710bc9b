//! Functions of programs that are compiled with -finstrument-functions, compared with the programs' own counts.

use serde_json::Value;
use sordino_tests::active::number;
use sordino_tests::install::{compile, installed, release_program, root};
use sordino_tests::listing::{items, named};
use sordino_tests::session::ScopedSession;
use sordino_tests::{CompletedRecording, NativeCompiler, RunningProcess, Scene, wait_until};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Times that the program calls its functions.
const ROUNDS: i64 = 50;
/// Functions that a longjmp leaves, each round.
const LEFT_BY_JUMP: i64 = 3;
const RECURSE: &str = "(anonymous namespace)::recurse(int)";
const JUMP: &str = "(anonymous namespace)::jump(int)";

/// Number, total and parts of the calls of each function.
type TotalsByFunction = BTreeMap<String, (i64, i64, BTreeMap<String, i64>)>;

/// Builds the program of many kinds of calls, and its shared library beside it.
fn build(scene: &Scene, flags: &[&str]) -> PathBuf {
    let library = scene.path("libinstrumented.so");
    compile(
        NativeCompiler::Gcc,
        "instrumented_library.c",
        &library,
        &["-finstrument-functions", "-shared", "-fPIC"],
    );
    let all = ["-finstrument-functions", library.to_str().unwrap(), "-Wl,--build-id"];
    scene.compile(NativeCompiler::Gxx, "instrumented.cpp", &[&all[..], flags].concat())
}

/// Returns the counts that the program prints.
fn counted(printed: &str) -> BTreeMap<String, i64> {
    let rows = printed.lines().filter_map(|line| line.split_once('\t'));
    rows.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
}

/// Returns the rows of `query calls`, and the number of calls that are not wholly known.
fn queried(scene: &Scene, recording: &CompletedRecording) -> (TotalsByFunction, i64) {
    let printed = scene.sordino(&["query", recording.name(), "calls", "--per", "function", "--json"]);
    let document: Value = serde_json::from_str(printed.succeeded()).expect("JSON");
    let table = &document["tables"][0];
    let rows = table["rows"].as_array().expect("rows").iter().map(|row| {
        let name = row["labels"][0].as_str().expect("a label").to_owned();
        let parts = row["parts"].as_array().expect("parts").iter();
        let part = |part: &Value| (part["name"].as_str().unwrap().to_owned(), number(&part["time_ns"]));
        let summary = &row["summary"];
        (name, (number(&summary["count"]), number(&summary["total_ns"]), parts.map(part).collect()))
    });
    (rows.collect(), number(&table["apart"]["broken"]) + number(&table["apart"]["cut"]))
}

/// Returns the number of entries of each function in the listing.
fn listed(scene: &Scene, recording: &CompletedRecording) -> BTreeMap<String, i64> {
    let mut entries = BTreeMap::new();
    for event in named(&scene.listed(&recording.path), "sordino_function:entry") {
        *entries.entry(event["function_name"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
    }
    entries
}

fn check(scene: &Scene, recording: &CompletedRecording) {
    assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.notes());
    let counted = counted(&recording.ended.output);
    assert_eq!(counted.len(), 12, "{}", recording.ended.output);
    // Functions of the standard library's headers are instrumented, too, and have no counter.
    let mut entries = listed(scene, recording);
    assert!(!entries.contains_key("?"), "{entries:?}");
    entries.retain(|name, _| counted.contains_key(name));
    assert_eq!(entries, counted);
    let (rows, unknown) = queried(scene, recording);
    for (name, count) in &counted {
        let expected = if name == JUMP { 0 } else { *count };
        assert_eq!(rows.get(name).map_or(0, |row| row.0), expected, "{name}: {rows:?}");
    }
    assert_eq!(unknown, LEFT_BY_JUMP * ROUNDS);
    // Each moment of `main` is one function's own, but those between a longjmp's functions and its target's exit.
    let all: i64 = rows.values().map(|(.., parts)| parts["own"] + parts["unknown"]).sum();
    let main = &rows["main"];
    assert_eq!(all, main.1, "{rows:?}");
    assert!(rows["(anonymous namespace)::catcher()"].2["unknown"] > 0, "{rows:?}");
    assert_eq!(main.2["own"] + main.2["in calls"], main.1);
}

#[test]
fn counts_and_times_of_functions_are_those_of_the_program() {
    let scene = Scene::new();
    let rounds = ROUNDS.to_string();
    for flags in [&["-lsordino-functions"][..], &["-no-pie", "-l:libsordino-functions.a"]] {
        let program = build(&scene, flags);
        check(&scene, &scene.record(&[], &[program.to_str().unwrap(), &rounds]));
    }
    // A program that is not linked with sordino.
    let program = build(&scene, &["-Wl,--as-needed"]);
    let preload = format!("LD_PRELOAD={}", installed().join("lib/libsordino-functions.so").display());
    check(&scene, &scene.record(&[], &["env", &preload, program.to_str().unwrap(), &rounds]));
}

#[test]
fn a_rule_selects_functions_by_their_addresses() {
    let scene = Scene::new();
    let program = build(&scene, &["-no-pie", "-lsordino-functions"]);
    let program = program.to_str().unwrap();
    let all = scene.record(&[], &[program, "3"]);
    let events = scene.listed(&all.path);
    let recurse = |event: &&Value| event["function_name"] == RECURSE;
    let step = events.iter().find(recurse);
    let address = number(&step.expect("a call")["fields"]["function"]);
    let rule = format!("sordino_function if function == {address}");
    let selected = scene.record(&["--user", &rule], &[program, "3"]);
    let (rows, unknown) = queried(&scene, &selected);
    let names: Vec<&str> = rows.keys().map(String::as_str).collect();
    assert_eq!((names, unknown), (vec![RECURSE], 0));
    let none = scene.record(&["--user", "motor"], &[program, "3"]);
    assert_eq!(none.user_events(), 0, "{}", none.notes());
}

#[test]
fn recorded_events_are_chosen_by_the_names_of_their_functions() {
    let scene = Scene::new();
    let program = build(&scene, &["-lsordino-functions"]);
    let recording = scene.record(&[], &[program.to_str().unwrap(), "5"]);
    let recursions = counted(&recording.ended.output)[RECURSE];
    let chosen = ["--where", "$function == \"*::recurse(*\""];
    let run = |command: &[&str]| scene.sordino(&[command, &chosen[..]].concat());
    let events = run(&["events", recording.name(), "--json"]);
    let events = items(events.succeeded());
    let names: Vec<&str> = events.iter().filter_map(|event| event["function_name"].as_str()).collect();
    assert_eq!(names, vec![RECURSE; 2 * recursions as usize]);
    let calls = run(&["query", recording.name(), "calls", "--per", "function", "--json"]);
    let calls: Value = serde_json::from_str(calls.succeeded()).expect("JSON");
    let rows = calls["tables"][0]["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), &rows[0]["labels"][0]), (1, &Value::from(RECURSE)));
    let between = ["--begin", "sordino_function:entry", "--end", "sordino_function:exit"];
    let explained = run(&[&["explain", recording.name(), "--json"][..], &between].concat());
    let explained: Value = serde_json::from_str(explained.succeeded()).expect("JSON");
    let intervals = explained["intervals"].as_array().expect("intervals").iter();
    let ends: Vec<i64> = intervals.map(|interval| number(&interval["end_fields"]["function"])).collect();
    let entry = events.iter().find(|event| event["function_name"] == RECURSE).expect("an entry");
    assert!(
        !ends.is_empty() && ends.iter().all(|end| *end == number(&entry["fields"]["function"])),
        "{explained}"
    );
    let exported = run(&["export", recording.name(), "--to", "csv"]);
    assert_eq!(exported.succeeded().lines().count() as i64, 1 + 2 * recursions);
    // A library that is built again has other functions: their addresses have no names.
    std::fs::remove_file(&program).unwrap();
    let none = run(&["events", recording.name()]);
    none.failed(0, &["without a name, with which $function compares nothing", "none meets --where"]);
}

/// Starts a live reader of the session of this name.
fn follow(scene: &Scene, name: &str, options: &[&str]) -> RunningProcess {
    let (variable, path) = ScopedSession::environment(scene);
    let mut command = scene.command(&[&["events", "--follow", name, "--json"], options].concat());
    scene.start(command.env(variable, path))
}

/// Returns the names of the functions that a live reader has shown so far.
fn named_by(reader: &RunningProcess) -> Vec<String> {
    let output = reader.output();
    // The last line may be incomplete.
    let whole = output.rfind('\n').map(|end| items(&output[..=end])).unwrap_or_default();
    let about =
        |event: &Value| event["name"].as_str().is_some_and(|name| name.starts_with("sordino_function:"));
    let name = |event: Value| event["function_name"].as_str().unwrap_or("?").to_owned();
    whole.into_iter().filter(about).map(name).collect()
}

#[test]
fn a_live_reader_names_functions() {
    let scene = Scene::new();
    let program = build(&scene, &["-lsordino-functions"]);
    let session = ScopedSession::start(&scene, "live", &["--user", "sordino_function"]);
    let reader = follow(&scene, "live", &["--where", "$function == \"*::recurse(*\""]);
    let call = || ScopedSession::join(&scene, Command::new(&program).arg("5")).end();
    let calls = 2 * counted(call().succeeded())[RECURSE] as usize;
    // The reader may have begun after that.
    wait_until("it reads", || {
        call().succeeded();
        std::thread::sleep(Duration::from_millis(700));
        !named_by(&reader).is_empty()
    });
    let before = named_by(&reader).len();
    call().succeeded();
    wait_until("all of it is shown", || named_by(&reader).len() >= before + calls);
    let names = named_by(&reader);
    assert_eq!(names, vec![RECURSE; names.len()]);
    session.stop();
    reader.end().succeeded();
}

/// Records calls of a library that a program loads while the session `name` records it; `rules` are those at the start,
/// and others are enabled later.
fn record_late_library(name: &str, rules: &str, enabled: Option<&str>) {
    let scene = Scene::new();
    build(&scene, &[]);
    let program = scene.compile(
        NativeCompiler::Gcc,
        "loads_later.c",
        &["-finstrument-functions", "-lsordino-functions"],
    );
    let (library, end) = (scene.path("libinstrumented.so"), scene.path("end"));
    let session = ScopedSession::start(&scene, name, &["--user", rules]);
    let reader = follow(&scene, name, &[]);
    let late = ScopedSession::join(&scene, Command::new(&program).args([&library, &end]));
    wait_until("the program is recorded", || session.has(late.pid()));
    enabled.into_iter().for_each(|rules| session.does("enable", &[rules]));
    wait_until("functions of the library are shown", || named_by(&reader).len() > 20);
    std::fs::write(&end, "").unwrap();
    late.end().succeeded();
    let names = named_by(&reader);
    assert_eq!(names, vec!["library_work"; names.len()]);
    session.stop();
    reader.end().succeeded();
}

const OF_LIBRARY: &str = "sordino_function if $function == \"library_*\"";

#[test]
fn functions_of_a_library_that_is_loaded_later_are_selected_and_named() {
    record_late_library("late", OF_LIBRARY, None);
}

#[test]
fn functions_are_selected_in_a_session_that_records_already() {
    record_late_library("enabled", "motor", Some(OF_LIBRARY));
}

/// Each fiber is in `work` and `leave` when it switches: the scheduler's `run` goes on, then another fiber's `leave`.
#[test]
fn call_stacks_belong_to_fibers() {
    let scene = Scene::new();
    let source = root().join("examples/c/fibers.c");
    let flags = ["-finstrument-functions", "-lsordino-functions"];
    let program = scene.compile(NativeCompiler::Gcc, source.to_str().unwrap(), &flags);
    let (rows, unknown) = queried(&scene, &scene.record(&[], &[program.to_str().unwrap(), "5"]));
    let counts: Vec<(&str, i64)> = rows.iter().map(|(name, row)| (name.as_str(), row.0)).collect();
    assert_eq!(counts, [("leave", 15), ("main", 1), ("run", 18), ("start", 3)]);
    // The last `leave` of each fiber never returns, and neither does its `work`.
    assert_eq!(unknown, 6);
    for name in ["leave", "run"] {
        assert!(rows[name].2["other fibers"] > 0, "{rows:?}");
    }
    let (_, total, parts) = &rows["main"];
    assert_eq!(parts["own"] + parts["in calls"], *total);
}

/// A program in Rust has the paths of its functions; each guard records an exit.
#[test]
fn functions_of_rust_have_their_paths_as_names() {
    let scene = Scene::new();
    let program = release_program("guarded");
    let recording = scene.record(&[], &[program.to_str().unwrap()]);
    let (rows, unknown) = queried(&scene, &recording);
    let counts: Vec<(&str, i64)> = rows.iter().map(|(name, row)| (name.as_str(), row.0)).collect();
    assert_eq!(
        (counts, unknown),
        (vec![("guarded::early", 100), ("guarded::panics", 100), ("guarded::sum", 400)], 0)
    );
}
