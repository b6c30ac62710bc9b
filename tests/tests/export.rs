//! `sordino export`: each format, read back by a reader of its own, has the same events and durations as the listing.

use serde_json::{Value, json};
use sordino_tests::disk::SmallDisk;
use sordino_tests::install::root;
use sordino_tests::listing::{babeltrace, counts};
use sordino_tests::recording::{all_below, packet_files};
use sordino_tests::{CompletedRecording, NativeCompiler, Scene, perfetto};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A recording of a program and the kernel, as root.
fn recorded(scene: &Scene) -> CompletedRecording {
    let command = ["./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "20000"];
    let recording = scene.record(&["--kernel", "sched,irq,raw_syscalls"], &command);
    assert_eq!((recording.lost(), recording.notes().as_str()), (0, ""));
    recording
}

/// A recording of a program with hostile names.
fn hostile(scene: &Scene) -> CompletedRecording {
    let program = scene.program("hostile.c");
    scene.record(&[], &[program.to_str().unwrap()])
}

fn export(scene: &Scene, recording: &CompletedRecording, format: &str) -> PathBuf {
    let file = scene.fresh(format);
    let ended = scene.run(scene.command(&["export", recording.name(), "--to", format, "-o"]).arg(&file));
    let summary = ended.succeeded();
    assert!(summary.starts_with("exported ") && summary.contains(", nothing lost: "), "{summary}");
    file
}

/// The items of a listing without the state dump, which an export does not have either.
fn listed(scene: &Scene, recording: &CompletedRecording) -> Vec<Value> {
    let ended = scene.sordino(&["events", "--json", recording.name()]);
    sordino_tests::listing::items(ended.succeeded())
}

fn of_domain<'a>(events: &'a [Value], domain: &str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["domain"] == domain)
}

fn count_by_name<'a>(events: impl Iterator<Item = &'a Value>) -> BTreeMap<String, usize> {
    counts(events.map(|event| event["name"].as_str().unwrap()))
}

/// The number of runs between two switches, and the sum of their times, of each thread. A run whose begin does not
/// belong to its end is none: records are missing between them.
fn runs(events: &[Value]) -> BTreeMap<i64, (i64, i64)> {
    runs_between(events, |begun, ended| begun == ended)
}

/// The same for the runs whose begin and end have threads that fit.
fn runs_between(events: &[Value], fits: fn(i64, i64) -> bool) -> BTreeMap<i64, (i64, i64)> {
    runs_until(events, i64::MAX, fits)
}

fn last_time(events: &[Value]) -> i64 {
    events.iter().filter_map(|event| event["time_ns"].as_i64()).max().unwrap()
}

/// The same, of runs that end before a time.
fn runs_until(events: &[Value], until: i64, fits: fn(i64, i64) -> bool) -> BTreeMap<i64, (i64, i64)> {
    let mut running = BTreeMap::new();
    let mut runs: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for event in events.iter().filter(|event| event["name"] == "sched_switch") {
        let number = |value: &Value| value.as_i64().unwrap();
        let (prev, next) = (number(&event["fields"]["prev_tid"]), number(&event["fields"]["next_tid"]));
        let time = number(&event["time_ns"]);
        let before = running.insert(number(&event["cpu"]), (next, time));
        if let Some((tid, begin)) = before.filter(|(tid, _)| time < until && fits(*tid, prev)) {
            let (count, sum) = runs.entry(tid).or_default();
            (*count, *sum) = (*count + 1, *sum + time - begin);
        }
    }
    runs
}

fn pairs<T: From<i64> + Ord>(rows: &[Value]) -> BTreeMap<String, T> {
    let name = |row: &Value| row["name"].as_str().unwrap().to_owned();
    rows.iter().map(|row| (name(row), row["n"].as_i64().unwrap().into())).collect()
}

/// The number of times that each softirq was handled, and the sum of the times from its first raise on.
fn raised(events: &[Value]) -> BTreeMap<i64, (i64, i64)> {
    let (mut raised, mut handled) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        let number = |value: &Value| value.as_i64().unwrap();
        let name = event["name"].as_str().unwrap_or_default().trim_start_matches("irq_");
        if !["softirq_raise", "softirq_entry"].contains(&name) {
            continue;
        }
        let (softirq, time) = (number(&event["fields"]["vec"]), number(&event["time_ns"]));
        let key = (number(&event["cpu"]), softirq);
        if name == "softirq_raise" {
            raised.entry(key).or_insert(time);
        } else if let Some(begin) = raised.remove(&key) {
            let (count, sum) = handled.entry(softirq).or_insert((0, 0));
            (*count, *sum) = (*count + 1, *sum + time - begin);
        }
    }
    handled
}

/// The number of wake-ups that led to a run, and the sum of the times until it.
fn wake_ups(events: &[Value]) -> (i64, i64) {
    let number = |value: &Value| value.as_i64().unwrap();
    let (mut running, mut woken, mut found) = (BTreeMap::new(), BTreeMap::new(), (0, 0));
    for event in events {
        let (fields, time) = (&event["fields"], number(&event["time_ns"]));
        match event["name"].as_str().unwrap_or_default() {
            "sched_waking" if !running.values().any(|tid| *tid == fields["tid"]) => {
                woken.insert(number(&fields["tid"]), time);
            }
            "sched_wakeup" | "sched_wakeup_new" if !running.values().any(|tid| *tid == fields["tid"]) => {
                woken.entry(number(&fields["tid"])).or_insert(time);
            }
            "sched_switch" => {
                running.insert(number(&event["cpu"]), fields["next_tid"].clone());
                woken.remove(&number(&fields["prev_tid"]));
                if let Some(begin) = woken.remove(&number(&fields["next_tid"])) {
                    found = (found.0 + 1, found.1 + time - begin);
                }
            }
            _ => {}
        }
    }
    found
}

/// The number of wake-up latencies of each thread, and their sum.
fn wake_up_latencies(scene: &Scene, recording: &CompletedRecording) -> BTreeMap<i64, (i64, i64)> {
    let output =
        scene.sordino(&["query", recording.name(), "latency", "--per", "thread", "--top", "1000", "--json"]);
    let tables: Value = serde_json::from_str(&output.output).unwrap();
    let rows = tables["tables"][0]["rows"].as_array().unwrap().iter().map(|row| {
        let thread = row["labels"][0].as_str().unwrap();
        let tid = thread.rsplit('/').next().unwrap().parse().unwrap();
        let number = |name: &str| row["summary"][name].as_i64().unwrap();
        (tid, (number("count"), number("total_ns")))
    });
    rows.collect()
}

#[test]
fn perfetto_has_the_same_events_run_times_and_wake_ups() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let recording = recorded(&scene);
    let events = listed(&scene, &recording);
    let file = export(&scene, &recording, "perfetto");
    let queries = [
        // Events of the kernel's trace that have no CPU are instants.
        "select name, count(*) n from (select name from ftrace_event union all
         select name from slice where category = 'kernel') group by 1",
        "select name, count(*) n from slice where category = 'user' group by 1",
        "select tid, count(*) n, sum(dur) sum from sched join thread using (utid) where dur >= 0 group by 1",
        "select count(*) n from flow join slice a on slice_out = a.id join slice b on slice_in = b.id
         where a.name = 'wakes' and b.name = 'runs' and a.ts <= b.ts",
        "select count(*) n from slice where name = 'runs' and category = 'wakeup'",
        "select name, value n from stats where value > 0 and severity in ('error', 'data_loss')",
        "select s.ts, extract_arg(s.arg_set_id, 'debug.number') number, t.tid, t.name thread, p.pid
         from slice s join thread_track on s.track_id = thread_track.id join thread t using (utid)
         join process p using (upid) where s.name = 'npt:loop' order by s.ts limit 5",
        "select distinct name from slice where name like 'sys_%' and track_id in (select id from thread_track) limit 5",
        // Of threads that slept or began in the recording: others may have been awake before.
        "with slept as (select tid sleeper, min(since) since from (
         select tid, e.ts + 1 since from ftrace_event e join thread using (utid) where e.name = 'sched_switch' union all
         select extract_arg(arg_set_id, 'pid'), ts from ftrace_event where name = 'sched_wakeup_new') group by 1)
         select extract_arg(b.arg_set_id, 'debug.tid') tid, count(*) n, sum(b.ts - a.ts) sum
         from flow join slice a on slice_out = a.id join slice b on slice_in = b.id
         join slept on sleeper = extract_arg(b.arg_set_id, 'debug.tid') where since <= a.ts group by 1",
        "select extract_arg(b.arg_set_id, 'debug.vec') vec, count(*) n, sum(b.ts - a.ts) sum
         from flow join slice a on slice_out = a.id join slice b on slice_in = b.id
         where a.name = 'raises' and b.name = 'handles' and a.category = 'softirq' group by 1",
    ];
    let Some([kernel, user, sched, flows, ran, stats, loops, calls, latencies, softirqs]) =
        perfetto::query(&scene, &file, queries)
    else {
        return;
    };
    let as_numbers = |counts: BTreeMap<String, usize>| -> BTreeMap<String, i64> {
        counts.into_iter().map(|(name, count)| (name, count as i64)).collect()
    };
    // Perfetto has the kernel's name of an event, the listing LTTng's.
    let ours = count_by_name(of_domain(&events, "kernel"));
    let ours =
        ours.into_iter().map(|(name, count)| (name.replace("irq_softirq_", "softirq_"), count)).collect();
    assert_eq!(pairs::<i64>(&kernel), as_numbers(ours));
    assert_eq!(pairs::<i64>(&user), as_numbers(count_by_name(of_domain(&events, "user"))));
    // The idle threads of all CPUs are one for a listing, and tid 0 for Perfetto.
    let number = |row: &Value, name: &str| row[name].as_i64().unwrap();
    let by_thread = |rows: &[Value]| -> BTreeMap<_, _> {
        rows.iter().map(|row| (number(row, "tid"), (number(row, "n"), number(row, "sum")))).collect()
    };
    assert_eq!(by_thread(&sched), runs(&events));
    let by_softirq: BTreeMap<_, _> =
        softirqs.iter().map(|row| (number(row, "vec"), (number(row, "n"), number(row, "sum")))).collect();
    assert!(!by_softirq.is_empty());
    assert_eq!(by_softirq, raised(&events));
    assert_eq!(by_thread(&latencies), wake_up_latencies(&scene, &recording));
    assert!(number(&ran[0], "n") > 0);
    assert_eq!(flows[0]["n"], ran[0]["n"]);
    // Where the recorder began or ended while threads ran, a run has no end; nothing else is wrong.
    assert!(stats.iter().all(|row| row["name"] == "mismatched_sched_switch_tids"), "{stats:?}");
    let ours = of_domain(&events, "user").filter(|event| event["name"] == "npt:loop").take(5);
    for (theirs, ours) in loops.iter().zip(ours) {
        assert_eq!(theirs["ts"].as_str().unwrap(), ours["time_ns"].to_string());
        assert_eq!(theirs["number"], ours["fields"]["number"]);
        assert_eq!((&theirs["tid"], &theirs["pid"]), (&ours["tid"], &ours["pid"]));
        assert_eq!(theirs["thread"], ours["comm"]);
    }
    assert_eq!(loops.len(), 5);
    assert!(calls.iter().any(|row| row["name"].as_str().unwrap().starts_with("sys_")), "{calls:?}");
}

#[test]
fn perfetto_has_the_stretches_of_fibers_on_threads() {
    let scene = Scene::new();
    let source = root().join("examples/c/fibers.c");
    let program = scene.compile(NativeCompiler::Gcc, source.to_str().unwrap(), &[]);
    let recording = scene.record(&[], &[program.to_str().unwrap(), "5"]);
    let file = export(&scene, &recording, "perfetto");
    let query =
        "select f.name fiber, count(*) n, sum(s.dur) sum, min(extract_arg(s.arg_set_id, 'debug.tid')) tid
         from slice s join track t on s.track_id = t.id join track f on t.parent_id = f.id
         where s.category = 'fiber' and s.name = 'mounted' group by 1 order by 1";
    let Some([rows]) = perfetto::query(&scene, &file, [query]) else { return };
    let (mut since, mut stretches) = (0, BTreeMap::new());
    let events = listed(&scene, &recording);
    let switches = events.iter().filter(|event| event["name"] == "sordino_fiber:switch");
    for event in switches.clone() {
        let number = |value: &Value| value.as_i64().unwrap();
        let (from, time) = (number(&event["fields"]["from"]), number(&event["time_ns"]));
        if from != 0 {
            let (count, sum) = stretches.entry(from).or_insert((0, 0));
            (*count, *sum) = (*count + 1, *sum + time - since);
        }
        since = time;
    }
    let tid = &switches.clone().next().unwrap()["tid"];
    let expected = stretches.iter().zip(["reader", "filter", "writer"]).map(|((fiber, (n, sum)), name)| {
        json!({"fiber": format!("fiber {fiber} {name}"), "n": n, "sum": sum, "tid": tid})
    });
    assert_eq!(rows, expected.collect::<Vec<_>>());
    assert_eq!(rows.len(), 3);
}

#[test]
fn perfetto_reads_hostile_names() {
    let scene = Scene::checked();
    let recording = hostile(&scene);
    let events = listed(&scene, &recording);
    let file = export(&scene, &recording, "perfetto");
    let queries = [
        "select extract_arg(arg_set_id, 'debug.text') text, extract_arg(arg_set_id, 'debug.large') large
         from slice where name = 'hostile:name' order by ts",
        "select name, value n from stats where value > 0 and severity in ('error', 'data_loss')",
    ];
    let Some([rows, stats]) = perfetto::query(&scene, &file, queries) else { return };
    assert_eq!(stats.len(), 0, "{stats:?}");
    let texts =
        |rows: &[Value], of: fn(&Value) -> &Value| rows.iter().map(|row| of(row).clone()).collect::<Vec<_>>();
    assert_eq!(texts(&rows, |row| &row["text"]), texts(&events, |event| &event["fields"]["text"]));
    // SQL has signed integers: a value beyond them keeps its bits.
    let large = |row: &Value| row["large"].as_i64().unwrap();
    assert_eq!(rows.iter().map(large).collect::<Vec<_>>(), (-8..0).rev().collect::<Vec<_>>());
}

/// Counts the events of a CSV file by name, and returns its texts. Python's parser reads it.
const READ_CSV: &str = "
import collections, csv, json, sys
rows = list(csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8')))
events = [row for row in rows if row['type'] == 'event']
fields = [json.loads(row['fields']) for row in events]
print(json.dumps({'counts': collections.Counter(row['name'] for row in events),
    'texts': [field.get('text') for field in fields], 'large': [field.get('large') for field in fields]}))";
/// The same for Chrome's JSON, with the number of each thread's runs and their time in nanoseconds.
const READ_CHROME: &str = "
import collections, json, sys
from decimal import Decimal
events = json.load(open(sys.argv[1], encoding='utf-8'), parse_float=Decimal)['traceEvents']
runs = collections.defaultdict(lambda: [0, 0])
for event in (event for event in events if event.get('cat') == 'sched'):
    run = runs[event['args']['tid']]
    run[0] += 1
    run[1] += int(event['dur'] * 1000)
mine = [event for event in events if event.get('cat') in ('user', 'kernel')]
print(json.dumps({'counts': collections.Counter(event['name'] for event in mine), 'runs': runs,
    'texts': [event['args'].get('text') for event in mine]}, default=str))";

fn python(scene: &Scene, script: &str, file: &Path) -> Value {
    let ended = scene.run(Command::new("python3").args(["-c", script]).arg(file));
    serde_json::from_str(ended.succeeded()).unwrap()
}

#[test]
fn csv_json_and_chrome_have_the_same_events_and_run_times() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let recording = recorded(&scene);
    let events = listed(&scene, &recording);
    let ours = serde_json::to_value(count_by_name(events.iter())).unwrap();
    let csv = python(&scene, READ_CSV, &export(&scene, &recording, "csv"));
    assert_eq!(csv["counts"], ours);
    let chrome = python(&scene, READ_CHROME, &export(&scene, &recording, "chrome"));
    assert_eq!(chrome["counts"], ours);
    // Idle CPUs have no runs there.
    let runs = runs(&events).into_iter().filter(|(tid, _)| *tid != 0);
    let runs: BTreeMap<String, _> = runs.map(|(tid, run)| (tid.to_string(), run)).collect();
    assert_eq!(chrome["runs"], serde_json::to_value(runs).unwrap());
    let json = std::fs::read_to_string(export(&scene, &recording, "json")).unwrap();
    assert_eq!(sordino_tests::listing::items(&json), events);
}

#[test]
fn csv_and_chrome_have_hostile_names() {
    let scene = Scene::checked();
    let recording = hostile(&scene);
    let events = listed(&scene, &recording);
    let texts: Vec<&Value> = events.iter().map(|event| &event["fields"]["text"]).collect();
    let csv = python(&scene, READ_CSV, &export(&scene, &recording, "csv"));
    assert_eq!(csv["texts"], serde_json::to_value(&texts).unwrap());
    assert_eq!(csv["large"][0], u64::MAX);
    let chrome = python(&scene, READ_CHROME, &export(&scene, &recording, "chrome"));
    assert_eq!(chrome["texts"], serde_json::to_value(&texts).unwrap());
}

/// The rows of pj_dump's table, which reads Pajé's format.
fn pj_dump(scene: &Scene, file: &Path) -> Vec<Vec<String>> {
    let ended = scene.run(Command::new("pj_dump").args(["--user-defined", "--float-precision=9"]).arg(file));
    let rows = ended.succeeded().lines();
    rows.map(|row| row.split(", ").map(ToOwned::to_owned).collect()).collect()
}

#[test]
fn paje_has_the_same_events_run_times_and_wake_ups() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let recording = recorded(&scene);
    let events = listed(&scene, &recording);
    let rows = pj_dump(&scene, &export(&scene, &recording, "paje"));
    let of = |kind: &'static str| rows.iter().filter(move |row| row[0] == kind);
    assert_eq!(counts(of("Event").map(|row| &*row[4])), count_by_name(events.iter()));
    let nanos = |text: &str| text.replace('.', "").parse::<i64>().unwrap();
    let end = of("Container").map(|row| row[4].parse::<f64>().unwrap()).fold(0.0, f64::max);
    let mut theirs: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    // A run that the end of the recording cuts ends there, as one does that ends with the last event: neither counts.
    for row in of("State").filter(|row| row[2] == "Runs" && row[4].parse::<f64>().unwrap() < end - 1e-6) {
        let tid = row[7].rsplit('/').next().unwrap().parse().unwrap_or(0);
        let (count, sum) = theirs.entry(tid).or_default();
        (*count, *sum) = (*count + 1, *sum + nanos(&row[5]));
    }
    // A state lasts until the next switch, whoever leaves then.
    let ours = runs_until(&events, last_time(&events) - 1000, |_, _| true);
    assert!(theirs.keys().eq(ours.keys()), "{theirs:?} {ours:?}");
    for (tid, (count, sum)) in theirs {
        // pj_dump computes with floating-point numbers.
        assert!(ours[&tid].0 == count && (ours[&tid].1 - sum).abs() <= count, "{tid}: {ours:?}");
    }
    let links = of("Link").count() as i64;
    let length = of("Link").map(|row| nanos(&row[5])).sum::<i64>();
    let (count, sum) = wake_ups(&events);
    assert!(
        links > 0 && links == count && (length - sum).abs() <= links,
        "{links}, {length}: {count}, {sum}"
    );
}

#[test]
fn paje_has_hostile_names() {
    let scene = Scene::checked();
    let recording = hostile(&scene);
    let rows = pj_dump(&scene, &export(&scene, &recording, "paje"));
    let events = listed(&scene, &recording);
    assert_eq!(rows.iter().filter(|row| row[0] == "Event").count(), events.len());
    let quoted = rows.iter().find(|row| row[0] == "Event").unwrap().join(", ");
    assert!(quoted.contains("'text':"), "{quoted}");
}

/// Exports a recording as a directory.
fn export_directory(scene: &Scene, directory: &str, format: &str, options: &[&str]) -> PathBuf {
    let out = scene.fresh(format);
    let arguments = [&["export", directory, "--to", format], options, &["-o"]].concat();
    scene.run(scene.command(&arguments).arg(&out)).succeeded();
    out
}

/// Compares a trace with its copy after an export to CTF. Returns the export and the number of its events.
fn compare_listings(scene: &Scene, directory: &str) -> (PathBuf, usize) {
    let listing = |directory: &str| {
        let ended = scene.sordino(&["events", "--json", "--statedump", directory]);
        sordino_tests::listing::items(ended.succeeded())
    };
    let ours = listing(directory);
    let first = export_directory(scene, directory, "ctf", &["--statedump"]);
    let theirs = listing(first.to_str().unwrap());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        // The format has numbers of lost records, and no causes.
        match ours["type"] == "loss" {
            true => assert_eq!(ours["count"], theirs["count"]),
            false => assert_eq!(ours, theirs, "{directory}"),
        }
    }
    assert_eq!(ours.len(), theirs.len(), "{directory}");
    (first, ours.iter().filter(|item| item["type"] == "event").count())
}

/// Does the same, and compares both versions as babeltrace2 reads them.
fn compare_ctf(scene: &Scene, directory: &str) {
    let (first, events) = compare_listings(scene, directory);
    let (lines, _) = babeltrace(&first);
    assert_eq!(lines.len(), events, "{directory}");
    let second = export_directory(scene, directory, "ctf2", &["--statedump"]);
    let version = Command::new("babeltrace2").arg("--version").output().unwrap().stdout;
    if String::from_utf8_lossy(&version).starts_with("Babeltrace 2.0.") {
        Scene::not_measured("CTF 2 as babeltrace2 reads it: it does from version 2.1 on, as of Debian 13");
        return;
    }
    assert_eq!(babeltrace(&second).0, lines, "{directory}");
}

#[test]
fn ctf_has_each_event_with_its_time_and_fields() {
    let Some(scene) = Scene::checked().as_root() else { return };
    compare_ctf(&scene, recorded(&scene).name());
    let recording = hostile(&scene);
    // Texts keep their bytes, also invalid ones.
    compare_listings(&scene, recording.name());
    scene.refuses(2, &["is a directory", "-o"], &["export", recording.name(), "--to", "ctf2"]);
}

#[test]
fn trace_dat_has_the_same_events_and_times_of_the_kernel() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let recording = recorded(&scene);
    let events = listed(&scene, &recording);
    let file = scene.fresh("trace-dat");
    let ended = scene.run(scene.command(&["export", recording.name(), "--to", "trace-dat", "-o"]).arg(&file));
    let user = of_domain(&events, "user").count();
    assert!(ended.errors.contains(&format!("{user} events left out")), "{}", ended.errors);
    let report = scene.run(Command::new("trace-cmd").args(["report", "-t", "-i"]).arg(&file));
    assert_eq!(report.errors, "");
    // THREAD-TID [CPU] SECONDS.NANOSECONDS: NAME: FIELDS
    let theirs = report.succeeded().lines().skip(1).map(|line| {
        let (head, rest) = line.split_once("] ").unwrap();
        let cpu: u64 = head.rsplit('[').next().unwrap().parse().unwrap();
        let (time, rest) = rest.trim_start().split_once(": ").unwrap();
        let tid = head.split(" [").next().unwrap().trim().rsplit('-').next().unwrap().parse().unwrap_or(0);
        let name = rest.trim_start().split(':').next().unwrap().to_owned();
        (time.replace('.', "").parse::<i64>().unwrap(), cpu, tid, name)
    });
    let mut ours: Vec<(i64, u64, i64, String)> = of_domain(&events, "kernel")
        .map(|event| {
            let name = event["name"].as_str().unwrap().replace("irq_softirq_", "softirq_");
            let [time, tid] = ["time_ns", "tid"].map(|field| event[field].as_i64().unwrap_or(0));
            (time, event["cpu"].as_u64().unwrap_or(0), tid, name)
        })
        .collect();
    let mut theirs: Vec<_> = theirs.collect();
    ours.sort();
    theirs.sort();
    assert_eq!(theirs.len(), ours.len());
    assert_eq!(theirs, ours);
    let first = events.iter().find(|event| event["name"] == "sched_switch").unwrap();
    let number = |field: &str| first["fields"][field].as_i64().unwrap();
    let expected = format!("{} [{}]", number("prev_tid"), 100 + number("prev_prio"));
    assert!(report.output.contains(&format!(":{expected} ")), "{expected}");
    scene.refuses(2, &["name a file with -o"], &["export", recording.name(), "--to", "trace-dat"]);
}

#[test]
fn trace_dat_has_hostile_names() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("hostile.c");
    let recording = scene.record(&["--kernel", "task:task_rename"], &[program.to_str().unwrap()]);
    let events = listed(&scene, &recording);
    let file = export(&scene, &recording, "trace-dat");
    let report = Command::new("trace-cmd").args(["report", "-i"]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&report.stderr), "");
    let names: Vec<&str> =
        of_domain(&events, "kernel").map(|event| event["fields"]["newcomm"].as_str().unwrap()).collect();
    assert!(names.len() >= 8, "{names:?}");
    // trace-cmd prints the bytes of names as they are.
    let output = String::from_utf8_lossy(&report.stdout);
    assert_eq!(output.matches(": task_rename: ").count(), of_domain(&events, "kernel").count(), "{output}");
    assert!(names.iter().all(|name| output.contains(&format!("newcomm={name} "))), "{names:?}, {output}");
}

#[test]
fn otf2_has_hostile_names() {
    let scene = Scene::checked();
    let recording = hostile(&scene);
    let events = listed(&scene, &recording);
    let archive = export_directory(&scene, recording.name(), "otf2", &[]).join("traces.otf2");
    let print = |option: &[&str]| scene.run(Command::new("otf2-print").args(option).arg(&archive));
    let (definitions, records) = (print(&["-G"]), print(&[]));
    assert_eq!((definitions.errors.as_str(), records.errors.as_str()), ("", ""));
    // otf2-print has the texts as they are.
    for event in &events {
        let text = format!("\"{}\"", event["fields"]["text"].as_str().unwrap());
        assert!(definitions.succeeded().contains(&text), "{text}: {}", definitions.output);
    }
    let regions = records.succeeded().matches("Region: \"hostile:name\"").count();
    assert_eq!(regions, 2 * events.len(), "{}", records.output);
}

#[test]
fn otf2_has_the_same_events_and_run_times() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let recording = recorded(&scene);
    let events = listed(&scene, &recording);
    let archive = export_directory(&scene, recording.name(), "otf2", &[]).join("traces.otf2");
    let printed = scene.run(Command::new("otf2-print").arg(archive));
    assert_eq!(printed.errors, "");
    // ENTER CPU NANOSECONDS Region: "NAME" <NUMBER>
    let lines = printed.succeeded().lines().filter_map(|line| {
        let (head, name) = line.split_once("Region: \"")?;
        let head: Vec<&str> = head.split_whitespace().collect();
        let number = |text: &str| text.parse::<i64>().unwrap();
        Some((
            head[0] == "ENTER",
            number(head[1]),
            number(head[2]),
            name.rsplit_once('"').unwrap().0.to_owned(),
        ))
    });
    let (mut open, mut records, mut last) = (BTreeMap::<i64, Vec<(String, i64)>>::new(), BTreeMap::new(), 0);
    let mut theirs: Vec<(i64, i64, i64)> = Vec::new();
    for (is_begin, cpu, time, name) in lines {
        last = last.max(time);
        let open = open.entry(cpu).or_default();
        if is_begin {
            open.push((name, time));
            continue;
        }
        let (ended, begin) = open.pop().unwrap();
        assert_eq!(ended, name, "regions nest");
        match name.rsplit_once('/').and_then(|(_, tid)| tid.parse().ok()) {
            Some(tid) => theirs.push((tid, begin, time)),
            None => *records.entry(name).or_insert(0_usize) += 1,
        }
    }
    assert!(open.values().all(Vec::is_empty));
    let handlers = |name: &String| name.starts_with("softirq ") || name.starts_with("irq ");
    records.retain(|name, _| !handlers(name) && !VECTORS.contains(&name.as_str()));
    assert_eq!(records, count_by_name(events.iter()));
    // A run that the end of the recording cuts ends there, as one does that ends with the last event: neither counts.
    let mut sums: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for (tid, begin, end) in theirs.into_iter().filter(|(.., end)| *end < last) {
        let (count, sum) = sums.entry(tid).or_default();
        (*count, *sum) = (*count + 1, *sum + end - begin);
    }
    let mut ours = runs_until(&events, last_time(&events), |_, _| true);
    ours.remove(&0);
    assert_eq!(sums, ours);
}

/// The kernel's own interrupts, by the names of their regions.
const VECTORS: [&str; 8] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "x86_platform_ipi",
    "thermal_apic",
    "error_apic",
];

/// Most bytes of a trace of another tracer that is compared: more take long.
const LARGEST: u64 = 1 << 20;

#[test]
fn ctf_has_each_event_of_other_tracers() {
    let data = std::env::var_os("SORDINO_CTF_TRACES").map(PathBuf::from).filter(|data| data.is_dir());
    let Some(data) = data else {
        Scene::not_measured("traces of other tracers: set SORDINO_CTF_TRACES to a directory of them");
        return;
    };
    let scene = Scene::checked();
    let directories = ["valid", "lttng"].map(|part| std::fs::read_dir(data.join(part)).unwrap().flatten());
    let mut compared = 0;
    for directory in directories.into_iter().flatten().map(|entry| entry.path()) {
        let (files, bytes) = sizes(&directory);
        // The packets of one trace there overlap, which babeltrace2 does not read; one directory has several
        // recordings.
        let is_odd = ["scp_dest", "session-rotation"].iter().any(|name| directory.ends_with(name));
        if files > 0 && bytes <= LARGEST && !is_odd {
            compare_ctf(&scene, directory.to_str().unwrap());
            compare_original(&scene, &directory);
            compared += 1;
        }
    }
    assert!(compared > 10, "{compared}");
}

/// Compares the time, the name and the fields of a trace's events, as babeltrace2 reads them, with those of an export.
fn compare_original(scene: &Scene, directory: &Path) {
    let copy = export_directory(scene, directory.to_str().unwrap(), "ctf", &["--statedump"]);
    let [original, copy] = [directory, &copy].map(|trace| babeltrace(trace).0);
    // The choice of a variant has no name there.
    let has_variants = directory.to_str().unwrap().contains("meta-variant");
    for (original, copy) in original.iter().zip(&copy) {
        let ([time, name, fields], [copied_time, copied_name, copied_fields]) =
            (parts(original), parts(copy));
        assert_eq!(name, copied_name, "{original}");
        assert!(time.is_empty() || time == copied_time, "{original}: {copied_time}");
        assert!(fields == copied_fields || has_variants, "{original}: {copied_fields}");
    }
    assert_eq!(original.len(), copy.len(), "{}", directory.display());
}

/// Returns the time, which may be missing, the name and the fields in a line of babeltrace2.
fn parts(line: &str) -> [String; 3] {
    let (time, rest) = line.strip_prefix('[').and_then(|line| line.split_once("] (")).unwrap_or(("", line));
    let (head, groups) = rest.split_once(": ").unwrap();
    let fields = groups.rsplit_once("{ ").map_or(groups, |(_, fields)| fields);
    // LTTng has the length of a sequence as a field; it is no field of ours.
    let is_length = |field: &str| field.starts_with('_') && field.contains("_length = ");
    let fields = fields.split(", ").filter(|field| !is_length(field)).collect::<Vec<_>>().join(", ");
    [time.to_owned(), head.rsplit(' ').next().unwrap().to_owned(), fields]
}

/// Returns the number and the bytes of the files below a directory.
fn sizes(directory: &Path) -> (usize, u64) {
    std::fs::read_dir(directory).unwrap().flatten().fold((0, 0), |(files, bytes), entry| {
        let (more, size) = match entry.metadata().unwrap() {
            found if found.is_dir() => sizes(&entry.path()),
            found => (1, found.len()),
        };
        (files + more, bytes + size)
    })
}

/// The number of losses in a CSV file, and the sum of their records.
const LOSSES_IN_CSV: &str = "
import csv, json, sys
rows = [row for row in csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8')) if row['type'] == 'loss']
print(json.dumps([len(rows), sum(json.loads(row['fields'])['count'] for row in rows)]))";
/// The same of Chrome's JSON.
const LOSSES_IN_CHROME: &str = "
import json, sys
events = json.load(open(sys.argv[1], encoding='utf-8'))['traceEvents']
losses = [event['args']['count'] for event in events if event.get('cat') == 'loss']
print(json.dumps([len(losses), sum(losses)]))";

#[test]
fn each_format_has_each_loss_and_the_number_of_its_records() {
    let scene = Scene::checked();
    let recording = scene.record_lossy(2_000_000);
    let items = listed(&scene, &recording);
    let of_losses = |items: &[Value]| {
        let losses: Vec<u64> = items.iter().filter_map(|item| item["count"].as_u64()).collect();
        (losses.len(), losses.iter().sum::<u64>())
    };
    let ours = of_losses(&items);
    assert_eq!(ours.1, recording.lost());
    assert!(ours.0 > 0);
    let export = |format: &str| {
        let file = scene.fresh(format);
        let ended = scene.run(scene.command(&["export", recording.name(), "--to", format, "-o"]).arg(&file));
        let lost = format!(" {} records lost in {} place", ours.1, ours.0);
        assert!(ended.succeeded().contains(&lost), "{format}: {}", ended.output);
        file
    };
    let sums = |value: Value| (value[0].as_u64().unwrap() as usize, value[1].as_u64().unwrap());
    assert_eq!(sums(python(&scene, LOSSES_IN_CSV, &export("csv"))), ours);
    assert_eq!(sums(python(&scene, LOSSES_IN_CHROME, &export("chrome"))), ours);
    let json = std::fs::read_to_string(export("json")).unwrap();
    assert_eq!(of_losses(&sordino_tests::listing::items(&json)), ours);
    // The numbers that end the texts from `before` to `after`.
    let numbers = |text: &str, before: &str, after: char| -> (usize, u64) {
        let parts = text.split(before).skip(1).map(|part| part.split(after).next().unwrap());
        let counts = parts.map(|part| part.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        counts.fold((0, 0), |(losses, sum), count| (losses + 1, sum + count))
    };
    // Only losses have a count in Paje's events: npt's have none.
    let paje = pj_dump(&scene, &export("paje"));
    let lost = paje.iter().filter(|row| row[0] == "Event").map(|row| row.join(", ")).collect::<Vec<_>>();
    assert_eq!(numbers(&lost.join("\n"), "'count':", ','), ours);
    let archive = export("otf2").join("traces.otf2");
    let printed = scene.run(Command::new("otf2-print").arg(archive));
    let records = printed.succeeded().matches("ENTER").count();
    let lost = printed.output.matches("Region: \"lost records\"").count();
    assert!(lost == 2 * ours.0 && records > lost, "{lost} of {records} records, {} losses", ours.0);
    assert_eq!(numbers(&printed.output, "(\"count\" <", ')'), ours);
    // babeltrace2 reports the records that are missing between two packets of a stream.
    let (lines, warnings) = babeltrace(&export("ctf"));
    let discarded: u64 = warnings
        .split("discarded ")
        .skip(1)
        .filter_map(|warning| warning.split(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!((lines.len() as u64, discarded), (recording.user_events(), ours.1), "{warnings}");
    let query = "select count(*) n, sum(extract_arg(arg_set_id, 'debug.count')) records from slice
                 where name = 'lost records'";
    let file = export("perfetto");
    let Some([rows]) = perfetto::query(&scene, &file, [query]) else { return };
    assert_eq!((&rows[0]["n"], &rows[0]["records"]), (&ours.0.into(), &ours.1.into()));
}

#[test]
fn a_corrupt_stretch_is_a_loss_with_its_place() {
    let scene = Scene::checked();
    let npt = ["taskset", "1", "./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "5000"];
    let recording = scene.record(&["--subbuf-size", "16K"], &npt);
    let file = &packet_files(&recording.path.join("user"))[0];
    let mut bytes = std::fs::read(file).unwrap();
    bytes[16384..16384 + 64].fill(0xff);
    std::fs::write(file, bytes).unwrap();
    let place =
        format!("{}, stream 0, packet 1, byte 16384", file.strip_prefix(scene.path("")).unwrap().display());
    for format in FORMATS.iter().chain(&["otf2"]) {
        let out = export_directory(&scene, recording.name(), format, &[]);
        let written = match *format {
            "otf2" => scene
                .run(Command::new("otf2-print").arg("-G").arg(out.join("traces.otf2")))
                .output
                .into_bytes(),
            _ => std::fs::read(out).unwrap(),
        };
        let found = written.windows(place.len()).filter(|part| *part == place.as_bytes()).count();
        assert_eq!(found, 1, "{format}: {place}");
    }
}

#[test]
fn an_output_that_exists_stays_and_a_failed_export_leaves_nothing() {
    let scene = Scene::checked();
    let recording = hostile(&scene);
    let (file, directory) = (scene.path("out"), scene.path("directory"));
    let name = file.to_str().unwrap();
    std::fs::create_dir(&directory).unwrap();
    let mine = [file.clone(), directory.join("file")];
    mine.iter().for_each(|mine| std::fs::write(mine, "mine").unwrap());
    let files = FORMATS.iter().chain(&["trace-dat"]).map(|format| (format, name, &["out", "--force"][..]));
    let place = directory.to_str().unwrap();
    let directories = DIRECTORIES.iter().map(|format| (format, place, &["directory", "does not exist"][..]));
    for (format, name, words) in files.chain(directories) {
        let export = ["export", recording.name(), "--to", format, "-o", name];
        scene.refuses(2, &[words, &["it exists"]].concat(), &export);
        if name == place {
            scene.refuses(2, words, &[&export[..], &["--force"]].concat());
        }
        for mine in &mine {
            assert_eq!(std::fs::read_to_string(mine).unwrap(), "mine", "{format}: {}", mine.display());
        }
    }
    let export = ["export", recording.name(), "--to", "perfetto", "-o"];
    let with = |rest: &[&str]| scene.sordino(&[&export[..], rest].concat());
    with(&[scene.path("").to_str().unwrap()]).failed(2, &["it is a directory"]);
    with(&["/dev/null"]).failed(2, &["no regular file"]);
    with(&["/nowhere/x"]).failed(2, &["can't write /nowhere/x"]);
    with(&["x", "--event", "nothing:*"]).failed(2, &["nothing:*"]);
    scene.refuses(2, &["--to"], &["export", recording.name()]);
    let summary = with(&[name, "--force", "--json"]);
    let summary: Value = serde_json::from_str(summary.succeeded()).unwrap();
    assert_eq!((&summary["user_events"], &summary["losses"]), (&8.into(), &0.into()));
    let length = std::fs::metadata(&file).unwrap().len();
    assert_eq!(summary["bytes"], length);
    let left: Vec<_> =
        std::fs::read_dir(scene.path("")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".new")), "{left:?}");
}

/// A machine's clock may be wrong by decades. Formats with unsigned times have none for such a recording.
#[test]
fn times_before_1970_are_kept_or_refused() {
    let scene = Scene::checked();
    let recording = hostile(&scene);
    let now = listed(&scene, &recording);
    let mut earlier = 0;
    for file in all_below(&scene.path(recording.name())).iter().filter(|file| file.ends_with("metadata")) {
        let metadata = std::fs::read_to_string(file).unwrap();
        let (before, rest) = metadata.split_once("offset_s = ").unwrap();
        let (seconds, after) = rest.split_once(';').unwrap();
        earlier = seconds.parse::<i64>().unwrap() + 1_000_000_000;
        std::fs::write(file, format!("{before}offset_s = -1000000000;{after}")).unwrap();
    }
    let events = listed(&scene, &recording);
    let times = |events: &[Value]| events.iter().map(|event| event["time_ns"].as_i64()).collect::<Vec<_>>();
    let shifted = times(&now).into_iter().map(|time| time.map(|time| time - earlier * 1_000_000_000));
    assert_eq!(times(&events), shifted.collect::<Vec<_>>());
    for format in ["perfetto", "trace-dat", "otf2"] {
        let file = scene.fresh(format);
        let export = ["export", recording.name(), "--to", format, "-o", file.to_str().unwrap()];
        scene.refuses(2, &["no times before 1970-01-01", "--from"], &export);
    }
    let csv = std::fs::read_to_string(export(&scene, &recording, "csv")).unwrap();
    for event in &events {
        assert!(csv.contains(&format!(",{},", event["time_ns"])), "{event}: {csv}");
    }
    compare_listings(&scene, recording.name());
}

#[test]
fn a_full_disk_and_a_closed_pipe_end_an_export() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let recording = recorded(&scene);
    let disk = SmallDisk::mount(&scene.path("disk"), "size=128k");
    let file = scene.path("disk/trace");
    for format in FORMATS.iter().chain(&DIRECTORIES).chain(&["trace-dat"]) {
        let export = ["export", recording.name(), "--to", format, "-o", file.to_str().unwrap()];
        scene.refuses(2, &["can't write", "make room"], &export);
        assert_eq!(std::fs::read_dir(scene.path("disk")).unwrap().count(), 0, "{format}");
    }
    drop(disk);
    for format in FORMATS {
        let script =
            format!("set -o pipefail; ./sordino export {} --to {format} | head -c 100", recording.name());
        let mut command = Command::new("bash");
        let ended = scene.run(command.args(["-c", &script]).current_dir(scene.path("")));
        assert_eq!((ended.status, ended.errors.as_str()), (0, ""), "{format}");
    }
}

/// All formats that can be streams.
const FORMATS: [&str; 5] = ["perfetto", "chrome", "paje", "csv", "json"];
/// All formats that are directories, but for Parquet, which another program writes.
const DIRECTORIES: [&str; 3] = ["ctf", "ctf2", "otf2"];
