//! Waits of fibers of real libraries: `query fiber-waits` and `explain --fiber`, compared with a replay of the listing.

use serde_json::Value;
use sordino_tests::active::number;
use sordino_tests::install::{example, root};
use sordino_tests::{NativeCompiler, Scene, listing};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Fiber, or 0 for none, behind which one waits, and the time.
type TimesBehindFibers = BTreeMap<i64, i64>;

/// A wait that has not ended: its begin, the thread that the fiber was on last, and the time until now.
struct UnendedWait {
    since: i64,
    thread: i64,
    behind: TimesBehindFibers,
}

/// The waits of fibers, by the fields of their events alone.
#[derive(Default)]
struct Replayed {
    names: BTreeMap<i64, String>,
    last_thread: HashMap<i64, i64>,
    /// Fiber that each thread runs, and the time of its last switch.
    running: HashMap<i64, (i64, i64)>,
    open: HashMap<i64, UnendedWait>,
    /// The waits of each fiber by their begins: the length, and the fiber that was ahead.
    waits: BTreeMap<i64, BTreeMap<i64, (i64, TimesBehindFibers)>>,
}

impl Replayed {
    fn take(&mut self, event: &Value) {
        let (fields, now, tid) = (&event["fields"], number(&event["time_ns"]), number(&event["tid"]));
        let fiber = || number(&fields["fiber"]);
        match event["name"].as_str() {
            Some("sordino_fiber:new") => {
                self.last_thread.insert(fiber(), tid);
                self.name(fiber(), fields);
                self.wait(fiber(), now);
            }
            Some("sordino_fiber:rename") => self.name(fiber(), fields),
            Some("sordino_fiber:wake") => self.wait(fiber(), now),
            Some("sordino_fiber:switch") => {
                let [from, to] = ["from", "to"].map(|end| number(&fields[end]));
                self.follow(tid, to, now);
                if to != 0 {
                    self.end(to, now);
                    self.last_thread.insert(to, tid);
                }
                if ["yielded", "slice over"].contains(&fields["why"]["label"].as_str().unwrap_or_default())
                    && from != 0
                {
                    self.wait(from, now);
                }
            }
            _ => {}
        }
    }

    fn name(&mut self, fiber: i64, fields: &Value) {
        let name = fields["name"].as_str().expect("a name");
        if !name.is_empty() {
            self.names.insert(fiber, name.to_owned());
        }
    }

    fn wait(&mut self, fiber: i64, now: i64) {
        let thread = self.last_thread[&fiber];
        self.open.entry(fiber).or_insert(UnendedWait {
            since: now,
            thread,
            behind: TimesBehindFibers::new(),
        });
    }

    /// Adds the time that a thread has run its fiber, from its last switch, to the waits for the thread.
    fn account(&mut self, thread: i64, now: i64) {
        let (running, since) = self.running.get(&thread).copied().unwrap_or_default();
        for open in self.open.values_mut().filter(|open| open.thread == thread) {
            let time = now - since.max(open.since);
            if time > 0 {
                *open.behind.entry(running).or_default() += time;
            }
        }
    }

    fn follow(&mut self, thread: i64, to: i64, now: i64) {
        self.account(thread, now);
        self.running.insert(thread, (to, now));
    }

    fn end(&mut self, fiber: i64, now: i64) {
        let Some(thread) = self.open.get(&fiber).map(|open| open.thread) else { return };
        let running = self.running.get(&thread).map_or(0, |(running, _)| *running);
        // On the thread to which the fiber comes, the time until now is accounted for.
        self.follow(thread, running, now);
        let open = self.open.remove(&fiber).expect("it is open");
        self.waits.entry(fiber).or_default().insert(open.since, (now - open.since, open.behind));
    }
}

/// Returns the rows of `query fiber-waits`: count, total, minimum and maximum by label.
fn queried(scene: &Scene, recording: &str) -> BTreeMap<String, [i64; 4]> {
    let printed = scene.sordino(&["query", recording, "fiber-waits", "--json"]);
    let document: Value = serde_json::from_str(printed.succeeded()).expect("JSON");
    assert_eq!(document["tables"][0]["apart"]["broken"], 0, "{document}");
    let rows = document["tables"][0]["rows"].as_array().expect("rows").iter();
    let of = |row: &Value| ["count", "total_ns", "min_ns", "max_ns"].map(|key| number(&row["summary"][key]));
    rows.map(|row| (row["labels"][0].as_str().expect("a label").to_owned(), of(row))).collect()
}

/// Returns the waits of a fiber by `explain --fiber`, by their begins: the length of each, and the fibers behind which
/// it waited.
fn explained(
    scene: &Scene,
    recording: &str,
    (name, fiber): (&str, i64),
) -> BTreeMap<i64, (i64, TimesBehindFibers)> {
    let printed = scene.sordino(&["explain", recording, "--fiber", name, "--top", "10000", "--json"]);
    let findings: Value = serde_json::from_str(printed.succeeded()).expect("JSON");
    let intervals = findings["intervals"].as_array().expect("intervals").iter();
    let wait = |interval: &Value| {
        assert_eq!(interval["fiber"]["number"], fiber, "{interval}");
        let mut behind = TimesBehindFibers::new();
        let mut unrecorded = 0;
        for part in interval["parts"].as_array().expect("parts") {
            let (time, ahead) = (number(&part["time_ns"]), part["cause"]["behind"]["number"].as_i64());
            match part["cause"]["kind"].as_str() {
                Some("fiber_wait") => assert_eq!(behind.insert(ahead.unwrap_or(0), time), None, "{interval}"),
                // Another thread was on its thread's CPU, which sleeps, or which only the kernel knows to be preempted.
                Some("unrecorded") => unrecorded += time,
                other => panic!("{other:?}: {interval}"),
            }
        }
        let length = number(&interval["length_ns"]);
        assert_eq!(behind.values().sum::<i64>() + unrecorded, length, "{interval}");
        (number(&interval["begin_ns"]), (length, behind))
    };
    intervals.map(wait).collect()
}

/// Compares both commands with the replay of a program that has six fibers, each with a name of its own. Without the
/// kernel's events, a wait is known from the fibers' alone.
fn check(scene: &Scene, program: &Path) {
    let recording = scene.record(&[], &[program.to_str().unwrap(), "240"]);
    assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.notes());
    let trace = recording.name();
    let mut replayed = Replayed::default();
    let events = listing::items(scene.sordino(&["events", "--json", trace]).succeeded());
    events.iter().for_each(|event| replayed.take(event));
    assert_eq!(replayed.names.len(), 6);

    let sums = |(fiber, waits): (&i64, &BTreeMap<i64, (i64, TimesBehindFibers)>)| {
        let lengths = || waits.values().map(|(length, _)| *length);
        let sums = [waits.len() as i64, lengths().sum(), lengths().min().unwrap(), lengths().max().unwrap()];
        (format!("{}/{fiber}", replayed.names[fiber]), sums)
    };
    assert_eq!(queried(scene, trace), replayed.waits.iter().map(sums).collect());

    let mut named = 0;
    for (fiber, waits) in &replayed.waits {
        let name = &replayed.names[fiber];
        // Each begins by waiting, and goes on 240 times.
        assert!(waits.len() > 120, "{name}: {}", waits.len());
        let explained = explained(scene, trace, (name, *fiber));
        assert!(explained.keys().eq(waits.keys()), "{name}: {explained:?} {waits:?}");
        for ((length, behind), (of_listing, of_threads)) in explained.values().zip(waits.values()) {
            assert_eq!(length, of_listing, "{name}");
            let fits = |(fiber, time): (&i64, &i64)| *time <= of_threads.get(fiber).copied().unwrap_or(0);
            assert!(behind.iter().all(fits), "{name}: {behind:?} {of_threads:?}");
            named +=
                behind.iter().filter(|(fiber, time)| **fiber != 0 && of_threads[*fiber] == **time).count();
        }
    }
    assert!(named > 20, "waits behind a fiber, each as long as its thread had the fiber: {named}");
}

#[test]
fn waits_of_boosts_fibers_are_those_of_the_listing() {
    let scene = Scene::checked();
    let source = root().join("adapters/boost-fiber/fibers.cpp");
    let libraries = ["-lboost_fiber", "-lboost_context"];
    check(&scene, &scene.compile(NativeCompiler::Gxx, source.to_str().unwrap(), &libraries));
}

#[test]
fn waits_of_tokios_tasks_are_those_of_the_listing() {
    check(&Scene::checked(), &example("fibers", ""));
}
