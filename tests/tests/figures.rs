//! The second and the third figure of Danjean, Namyst and Wacrenier (2005), by programs with Boost's fibers on real
//! threads. `FIGURES` sets the number of runs (default 3).

use serde_json::Value;
use sordino_tests::active::{Active, number};
use sordino_tests::storm;
use sordino_tests::{CompletedRecording, NativeCompiler, Scene, listing};
use std::collections::{BTreeMap, BTreeSet};

const LIBRARIES: [&str; 2] = ["-lboost_fiber", "-lboost_context"];

/// Records a program with the kernel's switches and interrupts, until the kernel has recorded every switch: now and
/// then its tracer misses one. `None` if it misses one each time.
fn record(scene: &Scene, command: &[&str]) -> Option<(CompletedRecording, Vec<Value>)> {
    for _ in 0..20 {
        let recording = scene
            .record(&["--kernel", "sched_switch,sched_waking,sched_wakeup,sched_migrate_task,irq"], command);
        assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.notes());
        assert_eq!(recording.ended.errors, "", "the program complains");
        let events = listing::items(scene.sordino(&["events", "--json", recording.name()]).succeeded());
        assert!(events.iter().all(|event| event["type"] != "contradiction"));
        match active(scene, &recording).1 {
            0 => return Some((recording, events)),
            unknown => assert!(
                misses_a_switch(&events),
                "{unknown} stretches are unknown without a reason; events of threads that no switch put on their \
                 CPU: {:#?}",
                out_of_place(&events)
            ),
        }
    }
    Scene::not_measured("the kernel's tracer misses a switch in each of twenty recordings");
    None
}

/// Returns true if a thread leaves a CPU that another one has got.
fn misses_a_switch(events: &[Value]) -> bool {
    let mut running = BTreeMap::new();
    let mut switches = events.iter().filter(|event| event["name"] == "sched_switch");
    switches.any(|event| {
        let (prev, next) = (&event["fields"]["prev_tid"], &event["fields"]["next_tid"]);
        running.insert(event["cpu"].as_u64(), next).is_some_and(|before| before != prev)
    })
}

/// Returns events whose CPU has another thread by the switches, and the recording's last one.
fn out_of_place(events: &[Value]) -> Vec<&Value> {
    let (mut running, mut found) = (BTreeMap::<_, &Value>::new(), Vec::new());
    for event in events {
        let cpu = event["cpu"].as_u64();
        if running.get(&cpu).is_some_and(|tid| **tid != event["tid"]) {
            found.push(event);
        }
        if event["name"] == "sched_switch" {
            running.insert(cpu, &event["fields"]["next_tid"]);
        }
    }
    found.iter().take(5).chain(found.last()).copied().chain(events.last()).collect()
}

/// Returns the active time of each fiber by `sordino query`, and the number of stretches that are not wholly known.
fn active(scene: &Scene, recording: &CompletedRecording) -> (BTreeMap<String, i64>, i64) {
    let printed = scene.sordino(&["query", recording.name(), "active", "--per", "fiber", "--json"]);
    let document: Value = serde_json::from_str(printed.succeeded()).expect("JSON");
    let table = &document["tables"][0];
    let rows = table["rows"].as_array().expect("rows").iter();
    let row =
        |row: &Value| (row["labels"][0].as_str().unwrap().to_owned(), number(&row["summary"]["total_ns"]));
    (rows.map(row).collect(), number(&table["apart"]["broken"]))
}

/// An event of the second figure: its name, CPU and thread, a field and the field's value.
type FigureEvent<'a> = (&'a str, i64, i64, &'a str, i64);

fn is(event: &Value, (name, cpu, tid, field, value): FigureEvent<'_>) -> bool {
    let (of_cpu, of_thread) = (event["cpu"] == cpu, event["tid"] == tid);
    event["name"] == name && of_cpu && of_thread && event["fields"][field] == value
}

/// The fiber runs on the first thread, moves to the second, is preempted with it and goes on with it on another CPU.
#[test]
fn a_fiber_is_followed_to_another_thread_and_with_its_thread_to_another_cpu() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.compile(NativeCompiler::Gxx, "moving_fiber.cpp", &LIBRARIES);
    for _ in 0..storm::number("FIGURES").unwrap_or(3) {
        let Some((recording, events)) = record(&scene, &[program.to_str().unwrap()]) else { return };
        let numbers: Vec<i64> =
            recording.ended.output.split_whitespace().flat_map(str::parse).take(5).collect();
        let [fiber, own, first, second, hog] = numbers[..] else { panic!("{}", recording.ended.output) };
        let switch = "sordino_fiber:switch";
        let lines = [
            (switch, 1, first, "to", fiber),
            (switch, 1, first, "from", fiber),
            (switch, 0, second, "to", fiber),
            ("sched_switch", 0, second, "next_tid", hog),
            (switch, 1, second, "from", fiber),
        ];
        let mut rest = events.iter();
        let found: Vec<&Value> =
            lines.iter().filter_map(|line| rest.find(|event| is(event, *line))).collect();
        assert_eq!(found.len(), lines.len(), "{found:#?}");
        // The kernel's event has the fiber, which can continue; its thread gets another CPU.
        let preempted = found[3];
        assert_eq!((&preempted["fiber"], &preempted["fiber_name"]), (&fiber.into(), &"moving".into()));
        assert!([0, 256].contains(&number(&preempted["fields"]["prev_state"])), "{preempted}");
        let between = [preempted, found[4]].map(|event| number(&event["time_ns"]));
        let mut meanwhile = events.iter().filter(|event| {
            (between[0]..between[1]).contains(&number(&event["time_ns"])) && event["name"] == "sched_switch"
        });
        assert!(meanwhile.any(|event| event["cpu"] == 1 && event["fields"]["next_tid"] == second));
        // The listing for people has the same lines.
        let rules =
            format!("{switch} if $fiber == {fiber} || to == {fiber}, sched_switch if $fiber == {fiber}");
        let listed = scene.sordino(&["events", recording.name(), "--event", &rules]);
        let listed: Vec<&str> = listed.succeeded().lines().collect();
        let mut rest = listed.iter();
        for (name, cpu, tid, field, value) in lines {
            let has = |line: &&&str| {
                line.contains(&format!(" cpu{cpu} "))
                    && line.contains(&format!("/{tid} "))
                    && line.contains(name)
                    && line.contains(&format!("{field} = {value}"))
            };
            assert!(rest.any(|line| has(&line)), "{name} {field} = {value}: {listed:#?}");
        }

        let mut replayed = Active::default();
        events.iter().for_each(|event| replayed.take(event));
        let (active, _) = active(&scene, &recording);
        assert_eq!(active[&format!("moving/{fiber}")], replayed.time[&fiber]);
        assert_eq!(active.len(), 1 + replayed.time.len(), "three fibers, and all else: {active:?}");
        for (other, time) in replayed.time {
            let label = active.keys().find(|label| label.ends_with(&format!("/{other}"))).expect("a row");
            assert_eq!(active[label], time, "{label}");
        }
        // The program has measured the same time by its threads' clocks.
        let traced = active[&format!("moving/{fiber}")];
        assert!((traced - own).abs() < own / 5 + 3_000_000, "{traced} instead of {own} ns");
    }
}

/// Returns the fibers that threads had while a message waited.
fn fibers_between([sent, received]: [i64; 2], switches: &[&Value]) -> BTreeSet<i64> {
    let (mut at_first, mut had) = (BTreeMap::new(), BTreeSet::new());
    for event in switches {
        let (at, to) = (number(&event["time_ns"]), number(&event["fields"]["to"]));
        if at <= sent {
            at_first.insert(number(&event["tid"]), to);
        } else if at <= received {
            had.insert(to);
        }
    }
    had.extend(at_first.values());
    had
}

/// Twenty fibers work, and a daemon polls its socket and yields.
#[test]
fn a_daemons_late_message_is_explained_by_the_fibers_for_which_it_waits() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.compile(NativeCompiler::Gxx, "polling_fiber.cpp", &LIBRARIES);
    for _ in 0..storm::number("FIGURES").unwrap_or(3) {
        let Some((recording, events)) = record(&scene, &[program.to_str().unwrap(), "20"]) else { return };
        let switches = listing::named(&events, "sordino_fiber:switch");
        let rule = ["--begin", "net:sent", "--end", "net:received", "--by", "id"];
        let options = ["explain", "--json", "--top", "1000", recording.name()];
        let explained = scene.sordino(&[&options[..], &rule].concat());
        let findings: Value = serde_json::from_str(explained.succeeded()).expect("JSON");
        let intervals = findings["intervals"].as_array().unwrap();
        assert!(intervals.len() > 5, "{findings}");
        let named = intervals.iter().filter(|interval| names_the_wait(interval, &switches)).count();
        // A message may come just before the poll; the longest does not.
        assert!(named > 0 && names_the_wait(&intervals[0], &switches), "{}", intervals[0]);
        assert!(named * 10 >= intervals.len() * 8, "{named} of {}", intervals.len());
    }
}

/// Returns true if the daemon's wait for other fibers is the cause of an interval. Its parts add up, and the fibers
/// that it names have had a thread meanwhile.
fn names_the_wait(interval: &Value, switches: &[&Value]) -> bool {
    assert_eq!(interval["fiber"]["name"], "daemon", "{interval}");
    let parts = interval["parts"].as_array().unwrap();
    let sum: i64 = parts.iter().map(|part| number(&part["time_ns"])).sum();
    assert_eq!(sum, number(&interval["length_ns"]), "{interval}");
    let ends = ["begin_ns", "end_ns"].map(|end| number(&interval[end]));
    let had = fibers_between(ends, switches);
    let behind = parts.iter().filter_map(|part| part["cause"]["behind"]["number"].as_i64());
    assert!(behind.into_iter().all(|fiber| had.contains(&fiber)), "{interval}");
    let Some(main) = interval["main"]["part"].as_u64() else { return false };
    parts[main as usize]["cause"]["kind"] == "fiber_wait"
}
