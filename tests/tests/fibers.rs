//! Fibers of programs: their events, and the fiber that each thread runs by them, compared with the programs' own logs.

use sordino_tests::install::{example, installed, root};
use sordino_tests::{CompletedRecording, NativeCompiler, RecordedEvent, Scene};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Numbers of the reasons for a switch.
const YIELDED: i64 = 1;
const BLOCKED: i64 = 3;
const ENDED: i64 = 4;
const RESUMED: i64 = 5;

/// History of the fibers of one program, replayed from its events.
#[derive(Debug, Default)]
struct Replayed {
    /// Scheduler of each thread that has entered one.
    entered: BTreeMap<i32, String>,
    left: BTreeSet<i32>,
    /// Last name of each fiber.
    names: BTreeMap<i64, String>,
    ended: BTreeSet<i64>,
    /// Fiber that each thread runs; 0: none.
    running: BTreeMap<i32, i64>,
    /// Number of switches for each reason, and the texts of those that name an object.
    switches: BTreeMap<i64, usize>,
    objects: BTreeSet<String>,
    /// Fiber, step and thread of each `work:step`.
    steps: BTreeSet<(i64, i64, i32)>,
    wakes: usize,
}

impl Replayed {
    /// Replays a recording. Each event has to fit those before it: a switch leaves the fiber that its thread runs, and
    /// a step is one of that fiber.
    fn of(recording: &CompletedRecording) -> Self {
        assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.notes());
        let mut events = recording.events();
        events.sort_by_key(|event| event.time);
        let mut replayed = Self::default();
        events.iter().for_each(|event| replayed.replay(event));
        assert!(replayed.left.iter().all(|thread| replayed.entered.contains_key(thread)));
        assert!(replayed.running.values().all(|fiber| *fiber == 0), "{replayed:?}");
        assert_eq!(replayed.ended, replayed.names.keys().copied().collect());
        replayed
    }

    fn replay(&mut self, event: &RecordedEvent) {
        let fiber = event.numbers.first().copied().unwrap_or_default();
        let text = event.texts.first().cloned().unwrap_or_default();
        match event.name.as_str() {
            "sordino_fiber:thread_enter" => assert_eq!(self.entered.insert(event.tid, text), None),
            "sordino_fiber:thread_leave" => assert!(self.left.insert(event.tid)),
            "sordino_fiber:new" => assert_eq!(self.names.insert(fiber, text), None, "{event:?}"),
            "sordino_fiber:rename" => assert!(self.names.insert(fiber, text).is_some(), "{event:?}"),
            "sordino_fiber:end" => assert!(self.ended.insert(fiber), "{event:?}"),
            "sordino_fiber:wake" => {
                assert!(!self.running.values().any(|running| *running == fiber), "{event:?}: it runs");
                self.wakes += 1;
            }
            "sordino_fiber:switch" => self.switch(event),
            "work:begin" => assert_eq!(self.running.get(&event.tid), Some(&fiber), "{event:?}"),
            "work:step" => {
                assert_eq!(self.running[&event.tid], fiber, "{event:?}");
                assert!(self.steps.insert((fiber, event.numbers[1], event.tid)));
            }
            other => panic!("an event {other}"),
        }
    }

    fn switch(&mut self, event: &RecordedEvent) {
        let (from, to, why) = (event.numbers[0], event.numbers[1], event.numbers[2]);
        assert!(self.entered.contains_key(&event.tid), "{event:?}: its thread schedules no fibers");
        let running = self.running.entry(event.tid).or_default();
        assert_eq!(std::mem::replace(running, to), from, "{event:?}");
        assert!(to == 0 || self.names.contains_key(&to), "{event:?}: nobody made it");
        assert!(!self.ended.contains(&to), "{event:?}: it has ended");
        assert_eq!(why == RESUMED, from == 0, "{event:?}");
        *self.switches.entry(why).or_default() += 1;
        self.objects.extend(event.texts.iter().filter(|text| !text.is_empty()).cloned());
    }

    fn count(&self, why: i64) -> usize {
        self.switches.get(&why).copied().unwrap_or_default()
    }
}

/// Asserts the events of the generic calls' examples: three fibers that take five steps each, on one thread.
fn check_generic(recording: &CompletedRecording) {
    let replayed = Replayed::of(recording);
    assert_eq!(replayed.entered.values().collect::<Vec<_>>(), ["round robin"]);
    assert_eq!(replayed.left.len(), 1);
    assert_eq!(
        replayed.names.into_iter().collect::<Vec<_>>(),
        [(1, "reader".into()), (2, "filter".into()), (3, "writer".into())]
    );
    assert_eq!(replayed.steps.len(), 3 * 5);
    let count = |why| replayed.switches.get(&why).copied();
    assert_eq!([YIELDED, BLOCKED, ENDED, RESUMED].map(count), [Some(9), Some(6), Some(3), Some(18)]);
    assert_eq!((replayed.wakes, replayed.objects), (6, BTreeSet::from(["queue".to_owned()])));
    let lines = recording.babeltrace();
    let has =
        |text: &str| lines.iter().any(|line| line.contains("sordino_fiber:switch:") && line.contains(text));
    assert!(has(r#"from = 2, to = 0, why = ( "blocked" : container = 3 ), on = "queue""#), "{lines:#?}");
    assert!(has(r#"from = 2, to = 0, why = ( "ended" : container = 4 ), on = "" }"#), "{lines:#?}");
    assert!(has(r#"from = 0, to = 2, why = ( "resumed" : container = 5 ), on = "" }"#), "{lines:#?}");
}

#[test]
fn a_scheduler_in_c_records_which_fiber_its_thread_runs() {
    let scene = Scene::new();
    let source = root().join("examples/c/fibers.c");
    for compiler in [NativeCompiler::Gcc, NativeCompiler::Clang] {
        let program = scene.compile(compiler, source.to_str().unwrap(), &[]);
        check_generic(&scene.record(&[], &[program.to_str().unwrap(), "5"]));
    }
}

#[test]
fn a_scheduler_in_rust_records_which_fiber_its_thread_runs() {
    let scene = Scene::new();
    let program = installed().join("bin/fibers");
    check_generic(&scene.record(&[], &[program.to_str().unwrap(), "5"]));
}

/// The names of fibers, and the steps that they made: fiber, step and thread.
type Log = (BTreeMap<i64, String>, BTreeSet<(i64, i64, i32)>);

/// Parses a program's log: lines of a fiber's number, its name, a step and the thread.
fn log(output: &str) -> Log {
    let (mut names, mut steps) = (BTreeMap::new(), BTreeSet::new());
    for line in output.lines().filter(|line| line.contains('\t')) {
        let cells: Vec<&str> = line.split('\t').collect();
        let fiber = cells[0].parse().unwrap();
        names.insert(fiber, cells[1].to_owned());
        steps.insert((fiber, cells[2].parse().unwrap(), cells[3].parse().unwrap()));
    }
    (names, steps)
}

/// Records a program that writes such a log, and compares it with the events.
fn check_logged(scene: &Scene, program: &Path, scheduler: &str) -> Replayed {
    let output = scene.fresh("log");
    let shell = format!("exec {} 60 > {}", program.display(), output.display());
    let recording = scene.record(&[], &["sh", "-c", &shell]);
    let replayed = Replayed::of(&recording);
    let (names, steps) = log(&std::fs::read_to_string(output).unwrap());
    assert_eq!((&replayed.names, &replayed.steps), (&names, &steps));
    assert_eq!((names.len(), steps.len()), (6, 360));
    assert!(replayed.entered.values().all(|name| name == scheduler));
    assert_eq!(replayed.count(ENDED), 6);
    // may's threads schedule until the program ends, and its timer's thread does, too.
    let (entered, left) = (replayed.entered.len(), replayed.left.len());
    assert!(if scheduler == "may" { entered <= 3 && left == 0 } else { (entered, left) == (2, 2) });
    let threads: BTreeSet<i32> = steps.iter().map(|(_, _, thread)| *thread).collect();
    if threads.len() < 2 {
        Scene::not_measured("fibers that move: the second thread ran none");
    }
    recording.babeltrace();
    replayed
}

/// Boost's fibers go from thread to thread; the wrapped algorithm is one that shares them.
#[test]
fn fibers_of_boost_are_followed_from_thread_to_thread() {
    let scene = Scene::new();
    let source = root().join("adapters/boost-fiber/fibers.cpp");
    for compiler in [NativeCompiler::Gxx, NativeCompiler::Clangxx] {
        let program =
            scene.compile(compiler, source.to_str().unwrap(), &["-lboost_fiber", "-lboost_context"]);
        let replayed = check_logged(&scene, &program, "Boost.Fiber");
        // Each fiber sleeps twenty times and yields forty times.
        assert!(replayed.count(BLOCKED) >= 120 && replayed.count(YIELDED) == 240, "{:?}", replayed.switches);
        assert_eq!(replayed.wakes, replayed.count(BLOCKED));
        assert_eq!(replayed.objects, BTreeSet::from(["sleep".to_owned()]));
    }
}

/// An algorithm that another one replaces is asked for all its fibers, and none of them runs then.
#[test]
fn an_algorithm_of_boost_that_is_replaced_runs_no_fiber() {
    let scene = Scene::new();
    let program =
        scene.compile(NativeCompiler::Gxx, "replaced_algorithm.cpp", &["-lboost_fiber", "-lboost_context"]);
    let replayed = Replayed::of(&scene.record(&[], &[program.to_str().unwrap()]));
    let switches = [YIELDED, BLOCKED, ENDED].map(|why| replayed.count(why));
    assert_eq!((replayed.ended.len(), replayed.left.len(), switches), (2, 1, [2, 0, 2]), "{replayed:?}");
}

/// Tasks of tokio: wrapped futures, by its stable interface.
#[test]
fn futures_of_tokio_are_followed_from_thread_to_thread() {
    let scene = Scene::new();
    let replayed = check_logged(&scene, &example("fibers", ""), "tokio");
    // tokio wakes a task that yields when its poll has ended.
    assert!(replayed.count(BLOCKED) + replayed.count(YIELDED) >= 240, "{:?}", replayed.switches);
    assert_eq!(replayed.wakes, replayed.count(BLOCKED));
}

/// Tasks of tokio by its unstable hooks, which do not know why a task stops.
#[test]
fn tasks_of_tokio_are_followed_from_thread_to_thread() {
    let scene = Scene::new();
    let replayed = check_logged(&scene, &example("fibers", "--cfg tokio_unstable"), "tokio");
    assert_eq!((replayed.count(BLOCKED), replayed.count(YIELDED), replayed.wakes), (0, 0, 0));
}

/// Coroutines of may, which has no hook: the calls that switch are wrapped.
#[test]
fn coroutines_of_may_are_followed_from_thread_to_thread() {
    let scene = Scene::new();
    let replayed = check_logged(&scene, &example("coroutines", ""), "may");
    // Each yields, sleeps and waits for a message twenty times; nothing shows who wakes it.
    assert_eq!((replayed.count(YIELDED), replayed.count(BLOCKED), replayed.wakes), (120, 240, 0));
    assert_eq!(replayed.objects, BTreeSet::from(["queue".to_owned(), "sleep".to_owned()]));
}
