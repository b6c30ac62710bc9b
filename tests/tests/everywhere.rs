//! Tracepoints work wherever code runs: before main, in plug-ins, signal handlers, threads and children of all kinds;
//! in all three ways by which a record gets into a ring.

use sordino_tests::install::installed;
use sordino_tests::{CompletedRecording, NativeCompiler, RecordedEvent, Scene};
use std::collections::{BTreeMap, BTreeSet};

/// An environment for the recorder and thus for the program.
type RecorderEnvironment = &'static [(&'static str, &'static str)];

/// Restartable sequences; the shared ring by the user's choice; the shared ring because the C library has no rseq.
const WAYS: [RecorderEnvironment; 3] =
    [&[], &[("SORDINO_RING", "shared")], &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")]];

fn record(scene: &Scene, way: RecorderEnvironment, command: &[&str]) -> CompletedRecording {
    record_in(scene, &[], way, command)
}

fn record_in(
    scene: &Scene,
    rings: &[&str],
    way: RecorderEnvironment,
    command: &[&str],
) -> CompletedRecording {
    let recording = scene.record_with(rings, command, |recorder| {
        recorder.envs(way.iter().copied());
    });
    assert_eq!(recording.lost(), 0, "{way:?} {command:?}: {}", recording.summary);
    let shared = recording.streams().filter(|stream| stream["cpu"].is_null()).count();
    let vforked = command.contains(&"vfork");
    assert!(vforked || (shared > 0) != way.is_empty(), "the wrong ring: {}", recording.summary);
    recording
}

fn numbers(events: &[RecordedEvent], name: &str) -> Vec<i64> {
    let mut mine: Vec<&RecordedEvent> = events.iter().filter(|event| event.name == name).collect();
    mine.sort_by_key(|event| event.time);
    mine.iter().map(|event| event.numbers[0]).collect()
}

/// "Before main: C constructors, C++ static initialisers", also in static programs.
#[test]
fn events_before_and_after_main_are_recorded() {
    let scene = Scene::new();
    for (compiler, flags) in [
        (NativeCompiler::Gcc, &[][..]),
        (NativeCompiler::Clangxx, &[]),
        (NativeCompiler::Gcc, &["-static"]),
        (NativeCompiler::Gxx, &["-static"]),
        (NativeCompiler::Gcc, &["-static-pie", "-fPIE"]),
    ] {
        let program = scene.compile(compiler, "early.c", flags);
        for way in WAYS {
            let recording = record(&scene, way, &[program.to_str().unwrap()]);
            let mut steps = numbers(&recording.events(), "early:step");
            // The language determines the order of the two before main, and of the two after it.
            steps.sort_unstable();
            assert_eq!(steps, [1, 2, 3, 4, 5], "{compiler:?} {flags:?}");
        }
    }
}

/// "Plug-ins that are loaded and unloaded in a loop: all events from the first, no growth of tracepoints or mappings."
#[test]
fn plug_ins_come_and_go() {
    const TIMES: usize = 200;
    let scene = Scene::new();
    let host = scene.program("host.c");
    let plugin = scene.compile(NativeCompiler::Gcc, "plugin.c", &["-shared", "-fPIC"]);
    let command = [host.to_str().unwrap(), plugin.to_str().unwrap(), "200"];
    for way in WAYS {
        let recording = record(&scene, way, &command);
        let events = recording.events();
        assert_eq!(numbers(&events, "plugin:hit"), (0..TIMES as i64).collect::<Vec<_>>());
        let counts = recording.counts();
        assert_eq!(
            (counts["plugin:loaded"], counts["host:loads"], counts["plugin:hit"]),
            (TIMES, TIMES, TIMES)
        );
        grows_not(&recording.ended.output);
        let metadata =
            recording.path.join(recording.programs()[0]["trace"].as_str().unwrap()).join("metadata");
        let metadata = std::fs::read_to_string(metadata).unwrap();
        // Each is declared for both kinds of ring.
        assert_eq!(metadata.matches("name = \"plugin:hit\"").count(), 2, "{metadata}");
    }
    let alone = scene.run(std::process::Command::new(&host).args(&command[1..]));
    grows_not(&alone.output);
}

#[test]
fn a_plug_in_waits_for_the_recorder_though_signals_interrupt_it() {
    let scene = Scene::new();
    let host = scene.program("host.c");
    let plugin = scene.compile(NativeCompiler::Gcc, "plugin.c", &["-shared", "-fPIC"]);
    let recording =
        scene.record(&[], &[host.to_str().unwrap(), plugin.to_str().unwrap(), "1", "interrupted"]);
    let counts = recording.counts();
    assert_eq!((counts.get("plugin:loaded"), counts.get("plugin:hit")), (Some(&1), Some(&1)));
}

/// The host prints the number of its mappings and descriptors twice.
fn grows_not(output: &str) {
    let lines: Vec<&str> = output.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(lines.len(), 2, "{output}");
    assert_eq!(lines[0], lines[1], "mappings or descriptors grow");
}

/// "In signal handlers": nothing is torn, doubled, or lost.
#[test]
fn a_storm_of_signals_tears_nothing() {
    let scene = Scene::new();
    let program = scene.program("alarms.c");
    for way in WAYS {
        // Some two million records at full speed: rings that hold them leave no loss to the speed of the disk.
        let rings = ["--subbuf-size", "1M", "--num-subbuf", "128"];
        let recording = record_in(&scene, &rings, way, &[program.to_str().unwrap(), "5000"]);
        let events = recording.events();
        let counts: Vec<usize> =
            recording.ended.output.lines().next().unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
        for (name, count) in [("alarms:in_main", counts[0]), ("alarms:in_handler", counts[1])] {
            assert_eq!(numbers(&events, name), (0..count as i64).collect::<Vec<_>>(), "{way:?} {name}");
        }
        assert!(events.iter().all(|event| event.numbers[0] == event.numbers[1]), "a torn record");
        assert_eq!(events.iter().map(|event| event.tid).collect::<BTreeSet<_>>().len(), 1);
    }
}

/// "In hundreds of short-lived threads", each with a tid of its own.
#[test]
fn short_lived_threads_are_recorded() {
    let scene = Scene::new();
    let program = scene.program("crowd.c");
    for way in WAYS {
        let recording = record(&scene, way, &[program.to_str().unwrap(), "300"]);
        // The last eight are not waited for: the program's end may come before theirs.
        let mut threads: BTreeMap<i64, Vec<(i64, i32)>> = BTreeMap::new();
        let mut events = recording.events();
        events.sort_by_key(|event| event.time);
        for event in &events {
            threads.entry(event.numbers[0]).or_default().push((event.numbers[1], event.tid));
        }
        for thread in 0..292 {
            let seen = &threads[&thread];
            let tid = seen[0].1;
            assert_eq!(*seen, [(0, tid), (1, tid), (2, tid)], "{way:?} thread {thread}");
        }
    }
}

/// Returns the numbers of the parent's and of the child's events, and the recording.
fn family(
    scene: &Scene,
    way: RecorderEnvironment,
    program: &str,
    kind: &str,
) -> (Vec<i64>, Vec<i64>, CompletedRecording) {
    let recording = record(scene, way, &[program, kind]);
    assert_eq!(recording.ended.status, 0, "{way:?} {kind}");
    let events = recording.events();
    (numbers(&events, "family:parent"), numbers(&events, "family:child"), recording)
}

/// "After fork: the child is a program of its own, the parent's rings are untouched; after raw clone nothing is
/// written; after vfork with the child's tid; after exec both images; daemons; programs that close all their
/// descriptors; programs that end at once."
#[test]
fn children_of_all_kinds_are_recorded() {
    let scene = Scene::new();
    let dynamic = scene.program("family.c");
    let inside = scene.compile(NativeCompiler::Clang, "family.c", &["-static"]);
    let (all, first): (Vec<i64>, Vec<i64>) = ((0..20).collect(), (0..10).collect());
    for program in [&dynamic, &inside] {
        for way in WAYS {
            for (kind, parent, child, programs) in [
                ("fork", &all, &all, 2),
                ("raw", &all, &vec![], 1),
                ("vfork", &all, &all, 1),
                ("exec", &first, &all, 2),
                ("vfork-exec", &all, &all, 2),
                // Its first child ends without an event, which leaves a trace without a stream.
                ("daemon", &all, &all, 3),
                ("closed", &all, &all, 1),
                ("reused", &all, &all, 2),
                ("at-once", &all, &vec![], 1),
            ] {
                let (parents, children, recording) = family(&scene, way, program.to_str().unwrap(), kind);
                assert_eq!((&parents, &children), (parent, child), "{way:?} {kind}: {}", recording.summary);
                assert_eq!(recording.programs().len(), programs, "{way:?} {kind}: {}", recording.summary);
                if kind == "vfork" {
                    let tid: i32 = recording.ended.output.lines().next().unwrap().parse().unwrap();
                    let events = recording.events();
                    let mut of_child = events.iter().filter(|event| event.name == "family:child");
                    assert!(of_child.all(|event| event.tid == tid), "events of another thread");
                }
            }
        }
    }
}

/// Plug-ins with their own copy of the library are programs of their own in the trace. They have to stay loaded,
/// because each load would create another area.
#[test]
fn a_plug_in_with_the_library_inside_is_recorded_too() {
    let scene = Scene::new();
    let host = scene.program("host.c");
    let library = installed().join("lib/libsordino.a");
    let inside = ["-shared", "-fPIC", "-Wl,-z,nodelete", "-Wl,--exclude-libs,ALL", library.to_str().unwrap()];
    let plugin = scene.compile(NativeCompiler::Gcc, "plugin.c", &inside);
    let recording = record(&scene, &[], &[host.to_str().unwrap(), plugin.to_str().unwrap(), "20"]);
    let counts = recording.counts();
    let seen = (counts["host:loads"], counts["plugin:loaded"], counts["plugin:hit"]);
    assert_eq!((seen, recording.programs().len()), ((20, 1, 20), 2), "{}", recording.summary);
    grows_not(&recording.ended.output);
}
