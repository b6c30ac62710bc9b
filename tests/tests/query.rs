//! `sordino query`: its statistics agree with those of an independent script, and say what they lack.

use serde_json::Value;
use sordino_tests::Scene;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The number of spans of a row, their total and their maximum in nanoseconds.
type Sums = BTreeMap<String, [i64; 3]>;

/// Returns the sums by the script, which reads what babeltrace2 prints of a kernel's trace.
fn by_script(scene: &Scene, kernel: &Path, measure: &str) -> Sums {
    let text = scene.run(Command::new("babeltrace2").arg("--clock-seconds").arg(kernel));
    let path = scene.path("babeltrace.txt");
    std::fs::write(&path, text.succeeded()).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/agreement.py");
    let summed = scene.run(Command::new("python3").arg(script).arg(&path));
    let all: Value = serde_json::from_str(summed.succeeded()).expect("JSON");
    serde_json::from_value(all[measure].clone()).expect("sums")
}

fn by_query(scene: &Scene, recording: &str, measure: &str) -> Sums {
    let printed = scene.sordino(&["query", recording, measure, "--json"]);
    let document: Value = serde_json::from_str(printed.succeeded()).expect("JSON");
    let rows = document["tables"][0]["rows"].as_array().expect("rows").iter();
    let sums = rows.map(|row| {
        let (label, summary) = (row["labels"][0].as_str().expect("a label"), &row["summary"]);
        let name = match measure {
            "slices" | "latency" => label.rsplit('/').next().unwrap_or(label),
            "softirqs" => {
                SOFTIRQS.iter().find(|(name, _)| *name == label).map_or(label, |(_, number)| *number)
            }
            _ => label,
        };
        let of = |key: &str| summary[key].as_i64().expect("a number");
        (name.to_owned(), [of("count"), of("total_ns"), of("max_ns")])
    });
    sums.collect()
}

/// The kernel's names of softirqs and their numbers, which a trace has.
const SOFTIRQS: [(&str, &str); 10] = [
    ("HI", "0"),
    ("TIMER", "1"),
    ("NET_TX", "2"),
    ("NET_RX", "3"),
    ("BLOCK", "4"),
    ("IRQ_POLL", "5"),
    ("TASKLET", "6"),
    ("SCHED", "7"),
    ("HRTIMER", "8"),
    ("RCU", "9"),
];

#[test]
fn each_measure_agrees_with_a_script_that_reads_what_babeltrace2_prints() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let load =
        "for i in 1 2 3 4 5; do ls -R /usr/share/doc > /dev/null; sleep 0.02; done; chrt -f 50 sleep 0.05";
    let options = ["--kernel", "sched,irq,syscalls", "--no-user"];
    let recording = scene.record(&options, &["sh", "-c", load]);
    assert_eq!(recording.lost(), 0);
    let kernel = recording.path.join("kernel");
    for measure in ["slices", "latency", "syscalls", "irqs", "softirqs"] {
        let (script, query) =
            (by_script(&scene, &kernel, measure), by_query(&scene, recording.name(), measure));
        assert!(measure.ends_with("irqs") || query.len() > 5, "{measure}: {query:?}");
        assert_eq!(script.keys().collect::<Vec<_>>(), query.keys().collect::<Vec<_>>(), "{measure}");
        for (row, [count, total, max]) in &query {
            let [script_count, script_total, script_max] = script[row];
            assert_eq!(*count, script_count, "{measure} of {row}");
            // babeltrace2 rounds each time by up to a nanosecond.
            assert!((total - script_total).abs() <= 2 * count, "{measure} of {row}: {total}, {script_total}");
            assert!((max - script_max).abs() <= 2, "{measure} of {row}: {max}, {script_max}");
        }
    }
}

#[test]
fn a_query_says_what_the_recording_lacks() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let npt = ["./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "1000"];
    let recording = scene.record(&[], &npt);
    let name = recording.name();
    scene.refuses(2, &["lacks the kernel's events", "--kernel sched"], &["query", name, "latency"]);
    scene.refuses(2, &["the measure needs --event"], &["query", name, "period"]);
    scene.refuses(
        2,
        &["`npt:lop`", "did you mean npt:loop"],
        &["query", name, "period", "--event", "npt:lop"],
    );
    scene.refuses(2, &["'irq' distinguishes nothing"], &["query", name, "count", "--per", "irq"]);
    scene.refuses(2, &["no such variable", "^^^^"], &["query", name, "count", "--where", "$cor == 1"]);
    let printed = scene.sordino(&["query", name, "period", "--event", "npt:loop"]);
    assert!(printed.succeeded().starts_with("period per thread: 999 intervals in "), "{printed:?}");
    let printed = scene.sordino(&["query", name, "jitter", "--event", "npt:loop", "--explain", "1"]);
    let text = printed.succeeded();
    assert!(
        text.starts_with("jitter per thread: 999 periods in ") && text.contains("late in a row"),
        "{text}"
    );
    assert!(text.contains("jitter: ") && text.contains("#1 "), "{text}");
    scene.refuses(2, &["lacks the kernel's events", "--kernel syscalls"], &["explain", name, "--syscalls"]);
    scene.refuses(2, &["EVENT=TIME"], &["explain", name, "--deadline", "npt:loop"]);
    scene.refuses(2, &["sordino_fiber:switch"], &["query", name, "fiber-waits"]);
    let per =
        ["query", name, "count", "--per", "event,field:number", "--where", "number < 3 && $name == \"loop\""];
    let printed = scene.sordino(&per);
    assert!(printed.succeeded().starts_with("count per event, number: 2 events in "), "{printed:?}");
}

#[test]
fn a_contended_lock_is_called_by_its_variable() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("contended.c");
    // The state dump has the files of a process that is there when the recording begins.
    let running = scene.start(&mut Command::new(&program));
    let recording = scene.record(&["--kernel", "sched,syscalls", "--no-user"], &["sleep", "0.5"]);
    let locks = || {
        let printed = scene.sordino(&["query", recording.name(), "locks", "--json", "--per", "address"]);
        printed.succeeded().to_owned()
    };
    assert!(locks().contains(" contended_lock\""), "{}", locks());
    // Another file is at its path.
    std::fs::remove_file(&program).expect("a file");
    std::fs::copy("/bin/true", &program).expect("a file");
    assert!(!locks().contains("contended_lock"), "{}", locks());
    drop(running);
}

#[test]
fn times_on_cpus_and_waits_after_wake_ups_agree_with_perf_sched_timehist() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let [data, converted] = ["perf.data", "perf"].map(|name| scene.path(name).display().to_string());
    // perf mounts the kernel's tracer where it is not mounted, and leaves it so: in a mount namespace of its own.
    let perf =
        |arguments: &[&str]| scene.run(Command::new("unshare").args(["--mount", "perf"]).args(arguments));
    let load = "for i in 1 2 3; do ls -R /usr/share/doc > /dev/null; sleep 0.02; done; chrt -f 50 sleep 0.05";
    let recorded = perf(&["sched", "record", "-k", "CLOCK_MONOTONIC", "-o", &data, "--", "sh", "-c", load]);
    if recorded.status != 0 || perf(&["data", "convert", "--to-ctf", &converted, "-i", &data]).status != 0 {
        Scene::not_measured(
            "perf cannot record the scheduler here, or not convert it to CTF: apt-get install linux-perf",
        );
        return;
    }
    let text = scene.path("timehist.txt");
    let printed = perf(&["sched", "timehist", "--state", "--next", "-i", &data]);
    std::fs::write(&text, printed.succeeded()).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/timehist.py");
    let summed = scene.run(Command::new("python3").arg(script).arg(&text));
    let threads: BTreeMap<String, Value> = serde_json::from_str(summed.succeeded()).expect("JSON");
    let [slices, latencies] = ["slices", "latency"].map(|measure| by_query(&scene, &converted, measure));
    let total = |sums: &Sums, thread| sums.get(thread).map_or(0, |[_, total, _]| *total);
    let whole: Vec<_> = threads.iter().filter(|(_, thread)| thread["touched"] == false).collect();
    assert!(whole.len() > 5, "{threads:?}");
    for (tid, thread) in whole {
        let of = |key: &str| thread[key].as_i64().expect("a number");
        // perf cuts each time to a microsecond.
        let is_sum =
            |found: i64, micros: i64, count: i64| (micros * 1000..=(micros + count) * 1000).contains(&found);
        let ran = total(&slices, tid);
        assert!(is_sum(ran, of("runs"), of("lines")), "{tid} ran for {ran}: {thread}");
        let waited = total(&latencies, tid);
        let is_its = is_sum(waited, of("delays"), of("count"))
            || is_sum(waited, of("delays") + of("first"), of("count") + 1);
        assert!(is_its, "{tid} waited for {waited}: {thread}");
    }
}
