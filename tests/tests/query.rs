//! `sordino query`: its statistics agree with those of an independent script, and list the missing data.

use serde_json::Value;
use sordino_tests::{EndedProcess, Scene};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The number of spans of a row, their total and their maximum in nanoseconds.
type SpanSums = BTreeMap<String, [i64; 3]>;

/// Returns the sums by the script, which reads babeltrace2's text of a kernel's trace.
fn by_script(scene: &Scene, kernel: &Path, measure: &str) -> SpanSums {
    let text = scene.run(Command::new("babeltrace2").arg("--clock-seconds").arg(kernel));
    let path = scene.path("babeltrace.txt");
    std::fs::write(&path, text.succeeded()).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/agreement.py");
    let summed = scene.run(Command::new("python3").arg(script).arg(&path));
    let all: Value = serde_json::from_str(summed.succeeded()).expect("JSON");
    serde_json::from_value(all[measure].clone()).expect("sums")
}

fn by_query(scene: &Scene, recording: &str, measure: &str) -> SpanSums {
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

/// Loads of which each is recorded by itself: files and a real-time thread, messages between threads, and programs that
/// start, two that fight for a CPU, and one that is interrupted by a real-time thread.
const LOADS: [&str; 3] = [
    "for i in 1 2 3 4 5; do ls -R /usr/share/doc > /dev/null; sleep 0.02; done; chrt -f 50 sleep 0.05",
    "for i in 1 2 3 4; do (for j in 1 2 3 4 5 6 7 8; do echo $j; done | cat | sort -n | tail -1) > /dev/null & done; wait; \
        seq 60 | xargs -n 1 -P 4 true",
    "for i in 1 2; do taskset -c 0 dd if=/dev/zero of=/dev/null bs=64k count=8000 2> /dev/null & done; \
        for i in 1 2 3 4 5 6 7 8; do taskset -c 0 chrt -f 50 sleep 0.01; done; wait",
];

/// Checks that a measure of a recording has the rows of the script, and their sums. Returns the number of rows.
fn agrees(scene: &Scene, kernel: &Path, recording: &str, measure: &str) -> usize {
    let (script, query) = (by_script(scene, kernel, measure), by_query(scene, recording, measure));
    assert_eq!(script.keys().collect::<Vec<_>>(), query.keys().collect::<Vec<_>>(), "{measure}");
    for (row, [count, total, max]) in &query {
        let [script_count, script_total, script_max] = script[row];
        assert_eq!(*count, script_count, "{measure} of {row}");
        // babeltrace2 rounds each time by up to a nanosecond.
        assert!((total - script_total).abs() <= 2 * count, "{measure} of {row}: {total}, {script_total}");
        assert!((max - script_max).abs() <= 2, "{measure} of {row}: {max}, {script_max}");
    }
    query.len()
}

#[test]
fn each_measure_agrees_with_a_script_that_reads_what_babeltrace2_prints() {
    let Some(scene) = Scene::checked().as_root() else { return };
    for load in LOADS {
        let options = ["--kernel", "sched,irq,syscalls", "--no-user"];
        let recording = scene.record(&options, &["sh", "-c", load]);
        assert_eq!(recording.lost(), 0);
        let kernel = recording.path.join("kernel");
        for measure in ["slices", "latency", "syscalls", "irqs", "softirqs"] {
            let rows = agrees(&scene, &kernel, recording.name(), measure);
            assert!(measure.ends_with("irqs") || rows > 5, "{measure}: {rows} rows");
        }
    }
}

#[test]
fn measures_of_traces_of_other_tracers_agree_with_the_script() {
    let data = std::env::var_os("SORDINO_CTF_TRACES").map(PathBuf::from).filter(|data| data.is_dir());
    let Some(data) = data else {
        Scene::not_measured("traces of other tracers: set SORDINO_CTF_TRACES to a directory of them");
        return;
    };
    let scene = Scene::checked();
    // LTTng on eight CPUs, and on one without wake-ups and system calls.
    let all = ["slices", "latency", "syscalls", "irqs", "softirqs"];
    for (trace, measures) in [("many-threads", &all[..]), ("flipping-endianness", &["slices", "irqs"])] {
        let kernel = data.join("lttng").join(trace);
        for measure in measures {
            assert!(
                agrees(&scene, &kernel, kernel.to_str().expect("a path"), measure) > 2,
                "{trace}: {measure}"
            );
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
    scene.refuses(2, &["'irq' is no key of this measure"], &["query", name, "count", "--per", "irq"]);
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

/// Runs perf. It mounts the kernel's tracer where it is not mounted, and leaves it so: in a mount namespace of its own.
fn perf(scene: &Scene, arguments: &[&str]) -> EndedProcess {
    scene.run(Command::new("unshare").args(["--mount", "perf"]).args(arguments))
}

/// Returns the output of a script of the tests that reads another tool's text.
fn read_by_script(scene: &Scene, script: &str, text: &str) -> BTreeMap<String, Value> {
    let path = scene.path("printed.txt");
    std::fs::write(&path, text).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(script);
    let read = scene.run(Command::new("python3").arg(script).arg(&path));
    serde_json::from_str(read.succeeded()).expect("JSON")
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
fn handlers_of_interrupts_agree_with_the_sums_of_trace_cmd() {
    let Some(scene) = Scene::checked().as_root() else { return };
    if scene.run(Command::new("which").arg("trace-cmd")).status != 0 {
        Scene::not_measured("trace-cmd is not here: apt-get install trace-cmd");
        return;
    }
    let writes = "for i in 1 2 3; do ls -R /usr/share/doc > /dev/null; dd if=/dev/zero of=file bs=1M count=4 oflag=direct; done";
    [writes].into_iter().chain(LOADS).for_each(|load| interrupts_agree_with_trace_cmd(&scene, load));
}

fn interrupts_agree_with_trace_cmd(scene: &Scene, load: &str) {
    let recording = scene.record(&["--kernel", "sched,irq", "--no-user"], &["sh", "-c", load]);
    assert_eq!(recording.lost(), 0);
    let file = scene.path("trace.dat").display().to_string();
    _ = std::fs::remove_file(&file);
    scene.sordino(&["export", recording.name(), "--to", "trace-dat", "-o", &file]).succeeded();
    let printed = scene.run(Command::new("trace-cmd").args(["report", "--profile", "-i", &file]));
    let by_trace_cmd = read_by_script(scene, "profile.py", printed.succeeded());
    for measure in ["irqs", "softirqs"] {
        let printed = scene.sordino(&["query", recording.name(), measure, "--json"]);
        let document: Value = serde_json::from_str(printed.succeeded()).expect("JSON");
        let table = &document["tables"][0];
        assert_eq!(table["apart"]["broken"], 0, "{table}");
        let all = by_trace_cmd[measure].as_object().expect("sums");
        assert!(measure == "irqs" || !all.is_empty(), "{printed:?}");
        for (name, sums) in all {
            // An interrupt's label begins with its number.
            let is_it = |row: &&Value| {
                row["labels"][0].as_str().is_some_and(|label| label.split(' ').next() == Some(name))
            };
            let row = table["rows"].as_array().expect("rows").iter().find(is_it).expect(name);
            let found = [&row["summary"]["count"], &row["summary"]["total_ns"]];
            assert_eq!(found, [&sums[0], &sums[1]], "{name}: {row}");
        }
    }
}

#[test]
fn system_calls_agree_with_perf_trace() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let calls = "for i in 1 2 3; do ls -R /usr/share/doc > /dev/null; sleep 0.02; done; cat /proc/self/maps";
    [calls].into_iter().chain(LOADS).for_each(|load| system_calls_agree_with(&scene, load));
}

fn system_calls_agree_with(scene: &Scene, load: &str) {
    let [data, converted] = ["perf.data", "perf"].map(|name| scene.path(name).display().to_string());
    // The last load's.
    _ = std::fs::remove_dir_all(&converted);
    let events = ["-e", "raw_syscalls:sys_enter", "-e", "raw_syscalls:sys_exit"];
    let options = [
        &["record", "-m", "16M", "-k", "CLOCK_MONOTONIC", "-o", &data],
        &events[..],
        &["--", "sh", "-c", load],
    ];
    let recorded = perf(scene, &options.concat());
    if recorded.status != 0
        || perf(scene, &["data", "convert", "--to-ctf", &converted, "-i", &data]).status != 0
    {
        Scene::not_measured("perf cannot record system calls here, or not convert them to CTF");
        return;
    }
    let printed = perf(scene, &["trace", "-s", "-i", &data]);
    // perf writes its summary to standard error.
    let summary = printed.succeeded().to_owned() + &printed.errors;
    let by_perf = read_by_script(scene, "perf_trace.py", &summary);
    assert!(by_perf.len() > 50, "{summary}");
    let printed = scene.sordino(&["query", &converted, "syscalls", "--per", "thread,syscall", "--json"]);
    let document: Value = serde_json::from_str(printed.succeeded()).expect("JSON");
    let mut by_query: BTreeMap<String, [i64; 3]> = BTreeMap::new();
    for row in document["tables"][0]["rows"].as_array().expect("rows") {
        let label = |index: usize| row["labels"][index].as_str().expect("a label");
        let tid = label(0).rsplit('/').next().unwrap_or_default();
        let of = |key: &str| row["summary"][key].as_i64().expect("a number");
        by_query.insert(format!("{tid} {}", label(1)), [of("count"), of("total_ns"), of("max_ns")]);
    }
    for (call, sums) in &by_perf {
        let [count, total, max] = [0, 1, 2].map(|index| sums[index].as_i64().expect("a number"));
        let found = by_query.remove(call).unwrap_or_default();
        // perf counts the exit of a new process from the call that made it, whose entry is its parent's, as one of no
        // length.
        assert!((0..=1).contains(&(count - found[0])), "{call}: {found:?}, {sums}");
        // perf rounds each time to a microsecond.
        assert!((found[1] - total * 1000).abs() <= 1000, "{call}: {found:?}, {sums}");
        assert!((found[2] - max * 1000).abs() <= 1000, "{call}: {found:?}, {sums}");
    }
    // The exit from this call has the number -1, by which perf does not find its entry.
    by_query.retain(|call, _| !call.ends_with(" rt_sigreturn"));
    assert!(by_query.is_empty(), "perf does not have {by_query:?}");
}

#[test]
fn times_on_cpus_and_waits_after_wake_ups_agree_with_perf_sched_timehist() {
    let Some(scene) = Scene::checked().as_root() else { return };
    LOADS.iter().for_each(|load| times_agree_with_timehist(&scene, load));
}

fn times_agree_with_timehist(scene: &Scene, load: &str) {
    let [data, converted] = ["perf.data", "perf"].map(|name| scene.path(name).display().to_string());
    // The last load's.
    _ = std::fs::remove_dir_all(&converted);
    let perf = |arguments: &[&str]| perf(scene, arguments);
    let recorded =
        perf(&["sched", "record", "-m", "16M", "-k", "CLOCK_MONOTONIC", "-o", &data, "--", "sh", "-c", load]);
    if recorded.status != 0 || perf(&["data", "convert", "--to-ctf", &converted, "-i", &data]).status != 0 {
        Scene::not_measured(
            "perf cannot record the scheduler here, or not convert it to CTF: apt-get install linux-perf",
        );
        return;
    }
    let printed = perf(&["sched", "timehist", "--state", "--next", "-i", &data]);
    let threads = read_by_script(scene, "timehist.py", printed.succeeded());
    let [slices, latencies] = ["slices", "latency"].map(|measure| by_query(scene, &converted, measure));
    let total = |sums: &SpanSums, thread| sums.get(thread).map_or(0, |[_, total, _]| *total);
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
