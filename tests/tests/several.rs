//! Several recordings that are read as one: of one boot, of several hosts, of LTTng.

use serde_json::Value;
use sordino_tests::active::number;
use sordino_tests::install::compile_for_lttng;
use sordino_tests::listing::{babeltrace, items};
use sordino_tests::lttng::LttngDaemon;
use sordino_tests::{CompletedRecording, RunningProcess, Scene, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A recorder of the kernel that runs beside others.
struct RunningRecorder(RunningProcess, PathBuf);

impl RunningRecorder {
    fn start(scene: &Scene, events: &str) -> Self {
        let (mut recorder, output) = scene.recorder(&["--kernel", events, "--no-user"]);
        let running = scene.start(&mut recorder);
        // Pages of each CPU come as soon as events do.
        let has_pages = |file: fs::DirEntry| {
            let is_of_cpu = file.file_name().to_string_lossy().starts_with("cpu");
            is_of_cpu && file.metadata().is_ok_and(|file| file.len() > 0)
        };
        let is_recording = || fs::read_dir(output.join(".raw")).is_ok_and(|raw| raw.flatten().any(has_pages));
        wait_until("the kernel is recorded", is_recording);
        Self(running, output)
    }

    fn stop(self) -> CompletedRecording {
        CompletedRecording::of(self.0.interrupt(), self.1)
    }
}

/// Returns the items of the merged recordings, and the messages about them.
fn merged(scene: &Scene, arguments: &[&str]) -> (Vec<Value>, String) {
    let ended = scene.sordino(&[&["events", "--json"], arguments].concat());
    (items(ended.succeeded()), ended.errors)
}

/// Asserts that the threads of events with this name had a CPU by the kernel's switches, unless one is as near as
/// `uncertainty`. Returns the number of events that this was known of.
fn had_a_cpu(events: &[Value], name: &str, uncertainty: i64) -> usize {
    let mut switches: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["name"] == "sched_switch") {
        let next = number(&event["fields"]["next_tid"]);
        switches.entry(number(&event["cpu"])).or_default().push((number(&event["time_ns"]), next));
    }
    let (mut known, mut wrong) = (0, Vec::new());
    for event in events.iter().filter(|event| event["name"] == name) {
        let (time, tid) = (number(&event["time_ns"]), number(&event["tid"]));
        let on_cpus = switches.values().filter_map(|switches| {
            let behind = switches.partition_point(|(at, _)| *at <= time);
            let (before, after) = (switches.get(behind.checked_sub(1)?)?, switches.get(behind)?);
            let is_near = time - before.0 <= uncertainty || after.0 - time <= uncertainty;
            // Some kernels do not record that a CPU's idle thread leaves it.
            Some((before.1 == tid || before.1 == 0, is_near))
        });
        let on_cpus: Vec<_> = on_cpus.collect();
        if on_cpus.len() == switches.len() && on_cpus.iter().all(|(_, is_near)| !is_near) {
            known += 1;
            if on_cpus.iter().all(|(is_running, _)| !is_running) {
                wrong.push(event);
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {known}, as {:?}", wrong.len(), wrong[0]);
    known
}

#[test]
fn a_program_and_the_kernel_that_were_recorded_apart_are_one_super_trace() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("pairs.c");
    let kernel = RunningRecorder::start(&scene, "sched");
    let own = scene.record(&[], &[program.to_str().unwrap()]);
    let kernel = kernel.stop();
    assert_eq!((own.lost(), kernel.lost()), (0, 0));

    let (events, messages) = merged(&scene, &[own.name(), kernel.name()]);
    assert!(messages.contains("were recorded on one boot: they have one clock"), "{messages}");
    assert!(events.is_sorted_by_key(|event| event["time_ns"].as_i64().or(event["from_ns"].as_i64())));
    let alone = [own.name(), kernel.name()].map(|path| merged(&scene, &[path]).0.len());
    assert_eq!(events.iter().filter(|event| event["type"] == "event").count(), alone.iter().sum::<usize>());
    // Both have the one host, and an order that nothing disputes.
    assert!(events.iter().all(|event| event.get("host").is_none() && event.get("order_known").is_none()));
    assert!(["net:request", "work:begin"].iter().all(|name| had_a_cpu(&events, name, 0) >= 20));

    // The cause of the program's longest interval is in the other recording.
    let rule = ["--begin", "net:request", "--end", "net:answer", "--by", "id", "--top", "1", "--json"];
    let explained = scene.sordino(&[&["explain", own.name(), kernel.name()], &rule[..]].concat());
    let findings: Value = serde_json::from_str(explained.succeeded()).unwrap();
    let parts = findings["intervals"][0]["parts"].as_array().unwrap();
    assert!(
        parts.iter().any(|part| part["cause"]["kind"] == "sleep" || part["cause"]["kind"] == "blocked"),
        "{findings}"
    );
}

#[test]
fn nothing_is_known_between_two_recordings_of_one_kernel() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let [first, second] = [(); 2].map(|()| scene.record(&["--kernel", "sched"], &["sleep", "0.2"]));
    let (events, _) = merged(&scene, &[first.name(), second.name()]);
    let losses: Vec<&Value> = events.iter().filter(|item| item["type"] == "loss").collect();
    assert!(losses.iter().any(|loss| loss["cause"] == "no recording has this time"), "{losses:?}");
    // No thread has a CPU from one recording to the next.
    let active = |arguments: &[&str]| {
        let tables = scene.sordino(&[&["query"], arguments, &["active", "--json"]].concat());
        let tables: Value = serde_json::from_str(tables.succeeded()).unwrap();
        number(&tables["tables"][0]["all"]["total_ns"])
    };
    let alone = active(&[first.name()]) + active(&[second.name()]);
    assert!(active(&[first.name(), second.name()]) <= alone, "more than {alone} ns");

    let copy = scene.path("copy");
    copied(&first.path, &copy);
    let again = scene.sordino(&["events", first.name(), copy.to_str().unwrap(), "--last", "1"]);
    again.succeeded();
    assert!(again.errors.contains("counted twice"), "{}", again.errors);
}

#[test]
fn a_trace_of_lttngs_is_merged_by_the_clocks_of_the_boot() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.path("ticks");
    compile_for_lttng("ticks_lttng.c", &program);
    let lttng = LttngDaemon::start(&scene);
    lttng.record_ticks(&["vpid", "vtid"]);
    let kernel = RunningRecorder::start(&scene, "sched");
    scene.run(&mut lttng.command(&program, &[])).succeeded();
    let kernel = kernel.stop();
    lttng.tell(&["destroy"]);
    let trace = lttng.trace();
    lttng.stop();

    let (lines, complaints) = babeltrace(&trace);
    assert_eq!((lines.len(), complaints.as_str()), (10_000, ""));
    for order in [[trace.to_str().unwrap(), kernel.name()], [kernel.name(), trace.to_str().unwrap()]] {
        let (events, messages) = merged(&scene, &order);
        assert!(messages.contains("recorded on one boot by two clocks"), "{messages}");
        let ticks = events.iter().filter(|event| event["name"] == "tick:tock");
        assert_eq!(
            ticks.map(|event| number(&event["fields"]["number"])).collect::<Vec<_>>(),
            (-5000..5000).collect::<Vec<_>>()
        );
        let unproven = events.iter().filter_map(|event| event["uncertainty_ns"].as_i64());
        let uncertainty = unproven.max().expect("events that are near each other");
        assert!(uncertainty > 0 && events.iter().any(|event| event["order_known"] == true));
        assert!(had_a_cpu(&events, "tick:tock", uncertainty) > 0, "uncertain by {uncertainty} ns");
        assert!(events.iter().all(|event| event.get("host").is_none()));
    }
}

/// Copies a directory and everything in it.
fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, copy) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if path.is_dir() { copied(&path, &copy) } else { _ = fs::copy(&path, &copy).unwrap() }
    }
}

/// Copies a recording as one of another host, whose clock is ahead by `seconds`. Times of day are right to a
/// millisecond.
fn as_of_host(recording: &Path, copy: &Path, host: &str, seconds: i64) {
    copied(recording, copy);
    for metadata in sordino_tests::recording::all_below(copy) {
        if metadata.file_name().unwrap() != "metadata" {
            continue;
        }
        let text = fs::read_to_string(&metadata).unwrap();
        let changed = text.lines().map(|line| match line.trim().split_once(" = ") {
            Some(("hostname", _)) => format!("hostname = \"{host}\";\ntime_of_day_error_ns = 1000000;"),
            Some(("boot_id", _)) => format!("boot_id = \"boot of {host}\";"),
            Some(("time_of_day_error_ns", _)) => String::new(),
            Some(("offset_s", second)) => {
                let second: i64 = second.trim_end_matches(';').parse().unwrap();
                format!("offset_s = {};", second + seconds)
            }
            _ => line.to_owned(),
        });
        fs::write(&metadata, changed.collect::<Vec<_>>().join("\n")).unwrap();
    }
}

/// Records a program and the kernel, and returns the recording as one of the host robot, and as one of the host arm,
/// whose clock is 5 s ahead.
fn two_hosts(scene: &Scene) -> [String; 2] {
    let program = scene.program("pairs.c");
    let recording = scene.record(&["--kernel", "sched"], &[program.to_str().unwrap()]);
    assert_eq!(recording.lost(), 0);
    [("robot", 0), ("arm", 5)].map(|(host, seconds)| {
        as_of_host(&recording.path, &scene.path(host), host, seconds);
        host.to_owned()
    })
}

/// Returns the rows of a measure.
fn rows(scene: &Scene, arguments: &[&str]) -> Vec<Value> {
    let ended = scene.sordino(&[&["query", "--json"], arguments].concat());
    let tables: Value = serde_json::from_str(ended.succeeded()).unwrap();
    tables["tables"][0]["rows"].as_array().unwrap().clone()
}

#[test]
fn threads_and_cpus_of_two_hosts_are_never_mixed() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let [robot, arm] = two_hosts(&scene);
    let alone = merged(&scene, &[&robot]).0;
    let (both, messages) = merged(&scene, &[&robot, &arm]);
    // Both clocks are right to 1 ms, and drift for as long as they were recorded, and 5 s.
    assert!(messages.contains("related by their times of day, uncertain by 2."), "{messages}");
    for (host, seconds) in [(&robot, 0), (&arm, 5)] {
        let of_host: Vec<Value> = both.iter().filter(|event| event["host"] == **host).cloned().collect();
        assert_eq!(of_host.len(), alone.len());
        for (event, alone) in of_host.iter().zip(&alone) {
            let mut event = event.clone();
            let members = event.as_object_mut().unwrap();
            ["host", "order_known", "uncertainty_ns"].iter().for_each(|name| _ = members.remove(*name));
            let shifted = number(&event["time_ns"]) - seconds * 1_000_000_000;
            assert!((shifted - number(&alone["time_ns"])).abs() <= 1, "{event}");
            event["time_ns"] = alone["time_ns"].clone();
            assert_eq!(event, *alone);
        }
        // A condition can choose the host; the events' ids are those of its threads.
        let condition = format!("$host == \"{host}\"");
        let listed = merged(&scene, &[&robot, &arm, "--event", "net:*", "--where", &condition]).0;
        assert_eq!(listed.len(), 40);
    }

    for measure in ["active", "latency", "count"] {
        let per = ["--per", "thread"];
        let of = |row: &Value| {
            (row["labels"].clone(), row["summary"]["count"].clone(), row["summary"]["total_ns"].clone())
        };
        let mut expected: Vec<_> = Vec::new();
        for host in [&robot, &arm] {
            expected.extend(rows(&scene, &[&[host.as_str(), measure], &per[..]].concat()).into_iter().map(
                |row| {
                    let (labels, count, total) = of(&row);
                    let labels = [&[Value::from(host.as_str())], &labels.as_array().unwrap()[..]].concat();
                    (Value::from(labels), count, total)
                },
            ));
        }
        let rows = rows(&scene, &[&[&*robot, &arm, measure], &per[..]].concat());
        let mut found: Vec<_> = rows.iter().map(of).collect();
        let key = |row: &(Value, Value, Value)| row.0.to_string();
        found.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(found.len(), expected.len(), "{measure}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((&found.0, &found.1), (&expected.0, &expected.1), "{measure}");
            // The clocks' offsets are rounded to a tick.
            let difference = found.2.as_i64().unwrap_or(0) - expected.2.as_i64().unwrap_or(0);
            assert!(difference.abs() <= number(&found.1), "{measure}: {found:?} {expected:?}");
        }
    }

    let lines = scene.sordino(&["events", &robot, &arm, "--event", "net:*"]);
    assert!(
        lines.succeeded().lines().all(|line| line.contains(" robot cpu") || line.contains(" arm   cpu")),
        "{}",
        lines.output
    );
    let exported = scene.sordino(&["export", &robot, &arm, "--to", "json"]);
    assert_eq!(items(exported.succeeded()).len(), both.len());
    let several = ["several (robot, arm)", "'sordino events'"];
    scene.refuses(2, &several, &["explain", &robot, &arm]);
    scene.refuses(2, &several, &["report", &robot, &arm]);
    scene.refuses(2, &several, &["peak", &robot, &arm]);
    scene.refuses(2, &several, &["export", &robot, &arm, "--to", "csv"]);
    scene.refuses(2, &several, &["query", &robot, &arm, "latency", "--explain", "1"]);
    scene.refuses(2, &several, &["query", &robot, &arm, "jitter", "--event", "net:request"]);
}

#[test]
fn pairs_of_events_align_the_clocks_of_two_hosts() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let [robot, arm] = two_hosts(&scene);
    let same = |id: u32| format!("work:begin if id == {id}=work:begin if id == {id}");
    let aligned = |pairs: &[&str]| {
        let pairs: Vec<&str> = pairs.iter().flat_map(|pair| ["--align", pair]).collect();
        merged(&scene, &[&[&*robot, &arm, "--event", "work:*"], &pairs[..]].concat())
    };
    let (events, messages) = aligned(&[&same(2), &same(19)]);
    for message in [
        "arm disagree by 5.00 s, and are said to be right to 2.00 ms: the pairs count",
        "arm is moved by -5.00 s by --align",
    ] {
        assert!(messages.contains(message), "{messages}");
    }
    assert_eq!(events.len(), 80);
    for pair in events.chunks(2) {
        let hosts: BTreeSet<&str> = pair.iter().map(|event| event["host"].as_str().unwrap()).collect();
        assert_eq!(hosts, ["arm", "robot"].into());
        assert!((number(&pair[0]["time_ns"]) - number(&pair[1]["time_ns"])).abs() <= 1, "{pair:?}");
        assert_eq!(pair[0]["fields"], pair[1]["fields"]);
        // Nothing proves which of both was first.
        assert_eq!(pair[1]["order_known"], false);
        assert!(number(&pair[1]["uncertainty_ns"]) < 10_000_000, "{pair:?}");
    }
    // The rests of 50 and 30 ms are longer than the clocks are uncertain.
    let proven = events.iter().filter(|event| event["order_known"] == true).count();
    assert!((1..=41).contains(&proven), "{proven}");
    let text = scene.sordino(&["events", &robot, &arm, "--event", "work:*", "--align", &same(2)]);
    assert!(text.succeeded().lines().filter(|line| line.contains("~ ")).count() >= 40, "{}", text.output);

    // An interval from one host to the other has the length that the aligned clocks give it.
    let pair = same(2);
    let between =
        ["duration", "--begin", "net:request", "--end", "net:answer", "--by", "id", "--align", &pair];
    assert!(!rows(&scene, &[&[&*robot, &arm], &between[..]].concat()).is_empty());

    let (_, messages) = aligned(&["work:begin=work:begin"]);
    assert_eq!(messages.matches("several such events; the first is taken").count(), 2, "{messages}");
    let contradicting = "work:begin if id == 3=work:end if id == 3";
    scene.refuses(
        2,
        &["contradict each other in arm", "30."],
        &["events", &robot, &arm, "--align", &same(2), "--align", contradicting],
    );
    for (pair, words) in [
        (
            "work:begin=work:begun",
            ["arm: --align 'work:begun': the recording has no event of that name", "work:begin"],
        ),
        ("work:begin if id == 99=work:begin", ["robot has no such event", "id == 99"]),
        ("work:begin", ["expected EVENT=EVENT", "work:begin"]),
        ("=work:begin", ["an event is missing", "="]),
    ] {
        scene.refuses(2, &words, &["events", &robot, &arm, "--align", pair]);
    }
    scene.refuses(2, &["several recordings: name two or more"], &["events", &robot, "--align", "a=b"]);
    scene.refuses(2, &["are one directory: name it once"], &["events", &robot, &arm, "./robot"]);
    scene.refuses(2, &["robot/kernel lies inside robot"], &["events", &robot, "robot/kernel"]);
    scene.refuses(
        2,
        &["'latncy' is neither a directory nor a measure; did you mean latency?"],
        &["query", &robot, &arm, "latncy"],
    );
}
