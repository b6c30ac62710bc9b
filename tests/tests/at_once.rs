//! Concurrent events: forks while threads write, plug-ins in several threads, signals while rings overflow, attaching
//! while plug-ins come and go. Every hit is recorded once, or counted as lost.

use rustix::process::Signal;
use sordino_tests::{CompletedRecording, NativeCompiler, RecordedEvent, Scene};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// An environment for the recorder and thus for the program.
type RecorderEnvironment = &'static [(&'static str, &'static str)];

/// Restartable sequences; the shared ring by the user's choice; the shared ring because the C library has no rseq.
const WAYS: [RecorderEnvironment; 3] =
    [&[], &[("SORDINO_RING", "shared")], &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")]];

fn record(scene: &Scene, options: &[&str], way: RecorderEnvironment, command: &[&str]) -> CompletedRecording {
    let recording = scene.record_with(options, command, |recorder| {
        recorder.envs(way.iter().copied());
    });
    assert_eq!(recording.ended.status, 0, "{way:?} {command:?}: {}", recording.ended.errors);
    recording
}

/// Returns the numbers on the first line that the program printed.
fn hit_counts(recording: &CompletedRecording) -> Vec<i64> {
    let line = recording.ended.output.lines().next().unwrap();
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

/// Returns the events of that name in order of time.
fn of<'a>(events: &'a [RecordedEvent], name: &str) -> Vec<&'a RecordedEvent> {
    let mut mine: Vec<&RecordedEvent> = events.iter().filter(|event| event.name == name).collect();
    mine.sort_by_key(|event| event.time);
    mine
}

/// "After fork the child is a program of its own; the parent's rings are untouched", while the parent's threads write.
#[test]
fn forks_while_threads_write_lose_and_double_nothing() {
    const CHILDREN: i64 = 40;
    const EVENTS: i64 = 25;
    let scene = Scene::new();
    let program = scene.program("forks.c");
    let command = [program.to_str().unwrap(), &CHILDREN.to_string(), &EVENTS.to_string()];
    for way in WAYS {
        let recording = record(&scene, &["--subbuf-size", "256K"], way, &command);
        assert_eq!(recording.lost(), 0, "{way:?}: {}", recording.summary);
        assert_eq!(recording.programs().len() as i64, 1 + CHILDREN, "{way:?}");
        let events = recording.events();
        for (thread, written) in (0..).zip(hit_counts(&recording)) {
            let of_thread =
                of(&events, "forks:parent").into_iter().filter(|event| event.numbers[0] == thread);
            let numbers: Vec<i64> = of_thread.map(|event| event.numbers[1]).collect();
            assert_eq!(numbers, (0..written).collect::<Vec<_>>(), "{way:?} thread {thread}");
        }
        let mut pids = BTreeSet::new();
        for child in 0..CHILDREN {
            let of_child = of(&events, "forks:child").into_iter().filter(|event| event.numbers[0] == child);
            let of_child: Vec<&RecordedEvent> = of_child.collect();
            let numbers: Vec<i64> = of_child.iter().map(|event| event.numbers[1]).collect();
            assert_eq!(numbers, (0..EVENTS).collect::<Vec<_>>(), "{way:?} child {child}");
            let pid = of_child[0].pid;
            assert!(
                of_child.iter().all(|event| event.pid == pid && Some(event.tid) == pid),
                "{way:?} child {child}"
            );
            pids.insert(pid);
        }
        assert_eq!(pids.len() as i64, CHILDREN);
    }
}

/// Creates this many copies of the plug-in.
fn plugins(scene: &Scene, count: usize) -> Vec<PathBuf> {
    let compile = |_| scene.compile(NativeCompiler::Gcc, "plugin.c", &["-shared", "-fPIC"]);
    (0..count).map(compile).collect()
}

/// "Plug-ins that are dlopen'ed and dlclose'd in a loop", in several threads at once: all events from the first.
#[test]
fn threads_that_load_plug_ins_at_once_are_recorded_whole() {
    const TIMES: i64 = 100;
    let scene = Scene::new();
    let (host, plugins) = (scene.program("hosts.c"), plugins(&scene, 4));
    let times = TIMES.to_string();
    let mut command = vec![host.to_str().unwrap(), &times];
    command.extend(plugins.iter().map(|plugin| plugin.to_str().unwrap()));
    for way in WAYS {
        let recording = record(&scene, &[], way, &command);
        assert_eq!(recording.lost(), 0, "{way:?}: {}", recording.summary);
        let events = recording.events();
        let mut threads: BTreeMap<i32, Vec<(&str, i64)>> = BTreeMap::new();
        let mut in_order: Vec<&RecordedEvent> = events.iter().collect();
        in_order.sort_by_key(|event| event.time);
        for event in in_order {
            let number = event.numbers.first().copied().unwrap_or(-1);
            threads.entry(event.tid).or_default().push((&event.name, number));
        }
        let expected: Vec<(&str, i64)> = (0..TIMES)
            .flat_map(|number| {
                let loaded = ("plugin:loaded", -1);
                [("hosts:before", number), loaded, ("plugin:hit", number), ("hosts:after", number)]
            })
            .collect();
        assert_eq!(threads.len(), plugins.len(), "{way:?}");
        for events in threads.values() {
            assert_eq!(*events, expected, "{way:?}");
        }
    }
}

/// "Also while being recorded": a recorder that attaches while plug-ins come and go has all events from its first on.
#[test]
fn a_recorder_may_come_while_plug_ins_come_and_go() {
    let scene = Scene::new();
    let (host, plugins) = (scene.program("hosts.c"), plugins(&scene, 2));
    let mut program = scene.start(Command::new(host).arg("0").args(&plugins));
    program.says("ready");
    let mut recorded = BTreeSet::new();
    for round in 0..20 {
        let attached = scene.attach(program.pid(), &[]);
        std::thread::sleep(std::time::Duration::from_millis(5 * (round % 5) + 5));
        let recording = attached.stop();
        assert_eq!((recording.ended.status, recording.lost(), recording.notes()), (0, 0, String::new()));
        let mut threads: BTreeMap<i32, Vec<RecordedEvent>> = BTreeMap::new();
        let mut events = recording.events();
        events.sort_by_key(|event| event.time);
        for event in events {
            threads.entry(event.tid).or_default().push(event);
        }
        for (tid, events) in threads {
            if follow_each_other(&events) {
                recorded.insert(tid);
            }
        }
    }
    assert_eq!(recorded.len(), plugins.len());
    program.signal(Signal::TERM);
    assert_eq!(program.end().status, 0);
}

/// Asserts that each event follows the one before in the round. Tracepoints are enabled and disabled one after the
/// other, and the recorder may lose its CPU in between: the order holds from the last tracepoint's first event to the
/// first tracepoint's last event. Returns true if that is more than one round.
fn follow_each_other(events: &[RecordedEvent]) -> bool {
    const ROUND: [&str; 4] = ["hosts:before", "plugin:loaded", "plugin:hit", "hosts:after"];
    let rounds = |name: &str| {
        let mine = events.iter().filter(move |event| event.name == name);
        mine.map(|event| event.numbers[0]).collect::<Vec<_>>()
    };
    for name in ["hosts:before", "plugin:hit", "hosts:after"] {
        let numbers = rounds(name);
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{name}: {numbers:?}");
    }
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    let first = ROUND.map(|name| names.iter().position(|known| *known == name).unwrap_or(names.len()));
    let last = ROUND.map(|name| names.iter().rposition(|known| *known == name).unwrap_or(0));
    let inner = names.get(*first.iter().max().unwrap()..=*last.iter().min().unwrap()).unwrap_or_default();
    let after =
        |name: &str| ROUND[(ROUND.iter().position(|known| *known == name).unwrap() + 1) % ROUND.len()];
    assert!(inner.windows(2).all(|pair| pair[1] == after(pair[0])), "{names:?}");
    inner.len() > ROUND.len()
}

/// "In signal handlers", while the ring overflows: missing records are counted, and no other is torn or doubled.
#[test]
fn a_storm_of_signals_in_tiny_rings_is_recorded_or_counted() {
    let scene = Scene::new();
    let program = scene.program("alarms.c");
    let tiny = ["--subbuf-size", "16K", "--num-subbuf", "2", "--read-timer", "20ms"];
    for way in WAYS {
        let recording = record(&scene, &tiny, way, &[program.to_str().unwrap(), "5000"]);
        let (events, hits) = (recording.events(), hit_counts(&recording));
        assert!(recording.lost() > 0, "{way:?}: nothing was lost: this test needs smaller rings");
        assert_eq!(events.len() as u64 + recording.lost(), hits.iter().sum::<i64>() as u64, "{way:?}");
        assert_eq!(recording.babeltrace_and_warnings().0.len(), events.len());
        assert_eq!(recording.babeltrace_discarded(), recording.lost(), "{way:?}");
        for name in ["alarms:in_main", "alarms:in_handler"] {
            let mine = of(&events, name);
            assert!(mine.windows(2).all(|pair| pair[0].numbers[0] < pair[1].numbers[0]), "{way:?} {name}");
            assert!(mine.iter().all(|event| event.numbers[0] == event.numbers[1]), "{way:?} {name}: torn");
        }
    }
}

/// "In signal handlers, in any thread": also where there is hardly any stack.
#[test]
fn the_smallest_stacks_are_enough() {
    let scene = Scene::new();
    for compiler in [NativeCompiler::Gcc, NativeCompiler::Clang] {
        for optimised in ["-O2", "-O0"] {
            let program = scene.compile(compiler, "depth.c", &[optimised]);
            for way in WAYS {
                let recording = record(&scene, &[], way, &[program.to_str().unwrap(), "1000"]);
                assert_eq!(recording.lost(), 0);
                let counts = recording.counts();
                assert_eq!(
                    (counts["depth:thread"], counts["depth:handler"]),
                    (1000, 1000),
                    "{compiler:?} {way:?}"
                );
            }
        }
    }
}

/// A handler that jumps out of a tracepoint takes at most the record that was being written with it.
#[test]
fn handlers_that_jump_out_of_tracepoints_harm_no_other_record() {
    const JUMPS: i64 = 300;
    let scene = Scene::new();
    let program = scene.program("jump.c");
    for way in WAYS {
        let recording = record(&scene, &[], way, &[program.to_str().unwrap(), &JUMPS.to_string()]);
        let (events, begun) = (recording.events(), hit_counts(&recording)[0]);
        let numbers: Vec<i64> = of(&events, "jump:step").iter().map(|event| event.numbers[0]).collect();
        assert!(events.iter().all(|event| event.numbers[0] == event.numbers[1]), "{way:?}: a torn record");
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{way:?}: doubled or out of order");
        let missing = begun - numbers.len() as i64 - recording.lost() as i64;
        assert!((0..=JUMPS).contains(&missing), "{way:?}: {missing} of {begun} are neither there nor lost");
    }
}
