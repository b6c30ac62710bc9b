//! `sordino explain`: known causes, which the test planted.

use serde_json::Value;
use sordino_tests::{EndedProcess, Scene, last_cpu};
use std::collections::BTreeSet;
use std::process::Command;

/// Parses the output of `sordino explain --json`: one object in one line, of the schema and version that it names.
#[track_caller]
fn findings(ended: &EndedProcess) -> Value {
    assert_eq!(ended.output.lines().count(), 1, "{}", ended.errors);
    let findings: Value = serde_json::from_str(&ended.output).unwrap();
    assert_eq!((&findings["schema"], &findings["version"]), (&"sordino-findings".into(), &2.into()));
    findings
}

fn intervals(findings: &Value) -> &[Value] {
    findings["intervals"].as_array().unwrap()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the cause that took most of an interval's time.
fn main_cause(interval: &Value) -> &Value {
    let part = number(&interval["main"]["part"]) as usize;
    &interval["parts"][part]["cause"]
}

/// Asserts that the parts of each interval add up to its length.
fn assert_whole(findings: &Value) {
    for interval in intervals(findings) {
        let parts = interval["parts"].as_array().unwrap();
        let sum: i64 = parts.iter().map(|part| number(&part["time_ns"])).sum();
        let length = number(&interval["end_ns"]) - number(&interval["begin_ns"]);
        assert_eq!((sum, length), (length, number(&interval["length_ns"])), "{interval}");
    }
}

/// Returns a text for people without its line breaks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_thread_that_was_put_in_the_way_is_named_as_the_cause() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let cpu = last_cpu();
    let recording = scene.record_hog(&cpu);
    assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.ended.errors);
    let trace = recording.name();

    let over = scene.sordino(&["explain", "--json", "--over", "19ms", trace]);
    assert_eq!(over.status, 1, "an interval is longer: {}", over.errors);
    let found = findings(&over);
    assert_whole(&found);
    let by_hog = |interval: &&Value| main_cause(interval)["behind"]["comm"] == "hog";
    let gap = intervals(&found).iter().find(by_hog).expect("a gap by the hog");
    assert_eq!(
        (&main_cause(gap)["kind"], &main_cause(gap)["after"]),
        (&"waiting".into(), &"preemption".into())
    );
    assert_eq!((&gap["thread"]["comm"], gap["end_cpu"].to_string()), (&"npt".into(), cpu));

    // The gap is where the hog's own tracepoints place it.
    let events = scene.sordino(&["events", "--json", trace]);
    let time_of = |name: &str| {
        let pattern = format!("\"name\":\"{name}\"");
        let line = events.succeeded().lines().find(|line| line.contains(&pattern)).expect(name);
        number(&serde_json::from_str::<Value>(line).unwrap()["time_ns"])
    };
    let (begin, end) = (time_of("disturb:begin"), time_of("disturb:end"));
    assert!(number(&gap["begin_ns"]) < begin && end < number(&gap["end_ns"]));
    assert!(number(&gap["length_ns"]) >= 20_000_000);

    // The hog slept before, and npt had the CPU.
    let woken = findings(&scene.sordino(&["explain", "--json", "--thread", "hog", trace]));
    assert!(number(&woken["statistics"]["count"]) >= 1, "{woken}");
    assert!(intervals(&woken).iter().all(|wake_up| wake_up["thread"]["comm"] == "hog"), "{woken}");
    // By its number it has those wake-ups, too, and some before it executed the hog.
    let tid = number(&intervals(&woken)[0]["tid"]);
    let by_tid = findings(&scene.sordino(&[
        "explain",
        "--json",
        "--top",
        "1000",
        "--thread",
        &tid.to_string(),
        trace,
    ]));
    let begins = |found: &Value| -> BTreeSet<i64> {
        intervals(found).iter().map(|wake_up| number(&wake_up["begin_ns"])).collect()
    };
    assert!(intervals(&by_tid).iter().all(|wake_up| number(&wake_up["tid"]) == tid), "{by_tid}");
    assert!(begins(&by_tid).is_superset(&begins(&woken)), "{by_tid} {woken}");
    scene.refuses(2, &["no thread '2147483647' was woken"], &["explain", "--thread", "2147483647", trace]);
    scene.refuses(2, &["no thread 'nobody' was woken"], &["explain", "--thread", "nobody", trace]);
    scene.refuses(2, &["is a directory: write it before --thread"], &["explain", "--thread", trace]);

    // Without a name, the wake-ups of all threads but the recorder's; each headline has its thread.
    let all = scene.sordino(&["explain", trace, "--top", "100000", "--json", "--thread"]);
    let all = findings(&all);
    let names: BTreeSet<&str> =
        intervals(&all).iter().filter_map(|wake_up| wake_up["thread"]["comm"].as_str()).collect();
    assert!(names.len() > 2 && names.contains("hog"), "{names:?}");
    assert!(intervals(&all).iter().all(|wake_up| wake_up["thread"].get("is_recorder").is_none()), "{all}");
    let text = scene.sordino(&["explain", trace, "--top", "100000", "--thread"]);
    let mut headlines = text.succeeded().lines().filter(|line| line.starts_with('#'));
    assert!(headlines.any(|line| line.contains(" of hog/")), "{text:?}");

    // The text for people has the same findings.
    let text = scene.sordino(&["explain", "--over", "19ms", trace]);
    assert_eq!(text.status, 1);
    assert!(text.output.contains("preempted by hog/"), "{}", text.output);
    // No interval is as long as this option requires.
    let none = scene.sordino(&["explain", "--over", "60s", trace]);
    let text = one_line(none.succeeded());
    assert!(text.contains("none is longer than the limit of 60.0 s"), "{text}");
}

#[test]
fn begins_and_ends_are_paired_by_thread_or_by_a_field() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("pairs.c");
    let recording = scene.record(&["--kernel", "sched"], &[program.to_str().unwrap()]);
    assert_eq!((recording.user_events(), recording.lost()), (80, 0));
    let explain = |arguments: &[&str]| {
        findings(&scene.sordino(&[&["explain", "--json", recording.name()], arguments].concat()))
    };
    let is_sleep = |interval: &Value, least_ns: i64| {
        assert_eq!(main_cause(interval)["kind"], "blocked", "{interval}");
        assert!(number(&interval["length_ns"]) >= least_ns, "{interval}");
    };

    // Across threads: a request begins in one, its answer comes from the other.
    let found = explain(&["--begin", "net:request", "--end", "net:answer", "--by", "id", "--top", "3"]);
    assert_eq!((number(&found["statistics"]["count"]), intervals(&found).len()), (20, 3));
    assert!(intervals(&found).is_sorted_by_key(|interval| -number(&interval["length_ns"])));
    is_sleep(&intervals(&found)[0], 50_000_000);
    assert_whole(&found);
    // Without the field, no thread has both ends.
    let found = explain(&["--begin", "net:request", "--end", "net:answer"]);
    assert_eq!((number(&found["statistics"]["count"]), number(&found["unpaired"]["begins"])), (0, 20));
    assert_eq!(number(&found["unpaired"]["ends"]), 20);
    // In one thread.
    let found = explain(&["--begin", "work:begin", "--end", "work:end", "--top", "1"]);
    assert_eq!((number(&found["statistics"]["count"]), intervals(&found).len()), (20, 1));
    is_sleep(&intervals(&found)[0], 30_000_000);
    assert_whole(&found);
    // Intervals from one event to the next.
    let found = explain(&["--event", "net:request", "--top", "100"]);
    assert_eq!(number(&found["statistics"]["count"]), 19);
    is_sleep(&intervals(&found)[0], 50_000_000);
    assert_whole(&found);
}

#[test]
fn a_request_is_followed_from_thread_to_thread() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("staged.c");
    let recording = scene.record(&["--kernel", "rt"], &[program.to_str().unwrap()]);
    assert_eq!((recording.user_events(), recording.lost()), (100, 0));
    let rule = ["--begin", "net:request", "--end", "net:answer", "--by", "id", "--top", "2"];
    let explain = |more: &[&str]| scene.sordino(&[&["explain", recording.name()], &rule[..], more].concat());
    let found = findings(&explain(&["--json"]));
    assert_whole(&found);
    let [slept, ran] = intervals(&found) else { panic!("{found}") };
    let stage = |interval: &Value, place: usize| {
        let stages = interval["stages"].as_array().unwrap();
        assert_eq!(stages.len(), 4, "{interval}");
        let sum: i64 = stages.iter().map(|stage| number(&stage["length_ns"])).sum();
        assert_eq!(sum, number(&interval["length_ns"]));
        stages[place].clone()
    };
    let of_sleep = stage(slept, 3);
    let ends = (of_sleep["from"].as_str().unwrap(), of_sleep["to"].as_str().unwrap());
    assert_eq!((ends, &of_sleep["thread"]["comm"]), (("net:receive", "net:answer"), &"second".into()));
    assert_eq!(main_cause(&of_sleep)["kind"], "blocked");
    assert!(number(&of_sleep["length_ns"]) >= 50_000_000, "{of_sleep}");
    let of_run = stage(ran, 1);
    assert_eq!(
        (of_run["to"].as_str(), of_run["thread"]["comm"].as_str()),
        (Some("net:hand_on"), Some("first"))
    );
    assert_eq!(main_cause(&of_run)["kind"], "own");
    let text = one_line(explain(&[]).succeeded());
    assert!(text.contains("of it from net:receive to net:answer, in second/"), "{text}");
    assert!(text.contains("of it from net:take to net:hand_on, in first/"), "{text}");
}

#[test]
fn what_is_not_in_the_trace_is_said_with_what_is() {
    let scene = Scene::checked();
    let program = scene.program("pairs.c");
    let recording = scene.record(&[], &[program.to_str().unwrap()]);
    let trace = recording.name();
    let explain = |arguments: &[&str]| scene.sordino(&[&["explain", trace], arguments].concat());
    explain(&["--event", "net:reqest"]).failed(2, &["net:reqest", "did you mean net:request"]);
    explain(&["--event", "zzz"]).failed(2, &["zzz", "name one with --event", "net:answer", "work:end"]);
    explain(&["--begin", "work:begin", "--end", "work:ned"]).failed(2, &["work:ned", "work:end"]);
    explain(&["--begin", "work:begin"]).failed(2, &["--end"]);
    explain(&["--by", "id"]).failed(2, &["--begin"]);
    explain(&["--begin", "work:begin", "--end", "work:end", "--by", "number"]).failed(2, &["number"]);
    explain(&["--top", "0"]).failed(2, &["--top"]);
    explain(&["--over", "5", "--event", "work:begin"]).failed(2, &["--over", "a time has a unit: 5us"]);
    explain(&["--over", "1us", "--top", "3"]).failed(2, &["--over", "--top"]);
    scene.refuses(2, &["nowhere"], &["explain", "nowhere"]);
    explain(&["--thread", "pairs"]).failed(2, &["lacks the kernel's events", "--kernel sched"]);

    // Without the kernel's events, the output says that they are missing.
    let ended = explain(&["--event", "net:request"]);
    let text = one_line(ended.succeeded());
    assert!(text.contains("What the trace does not tell"), "{text}");
    assert!(text.contains("Next time: sudo sordino record --kernel rt"), "{text}");
    assert!(text.contains("unknown: no kernel events recorded") && !text.contains("own code"), "{text}");
    let json = findings(&explain(&["--event", "net:request", "--json"]));
    assert_eq!(main_cause(&intervals(&json)[0])["kind"], "unrecorded");
    assert!(!json.to_string().contains("\"own\"") && json.get("choice").is_none(), "{json}");

    let script = format!("set -o pipefail; ./sordino explain {trace} --event net:request | true");
    let mut command = Command::new("bash");
    let ended = scene.run(command.args(["-c", &script]).current_dir(scene.path("")));
    assert_eq!((ended.status, ended.errors.as_str()), (0, ""), "nobody reads any more");
}

#[test]
fn without_a_rule_what_is_there_decides_and_is_said() {
    let scene = Scene::checked();
    let recorded = |source: &str, arguments: &[&str]| {
        let program = scene.program(source);
        scene.record(&[], &[&[program.to_str().unwrap()], arguments].concat())
    };
    let motor = sordino_tests::install::root().join("examples/c/motor.c");
    let motor = recorded(motor.to_str().unwrap(), &["300"]);
    let text = one_line(scene.sordino(&["explain", motor.name()]).succeeded());
    assert!(text.starts_with("motor:period: 299 intervals"), "{text}");
    // Its regularity depends on the other load of the machine.
    assert!(text.contains("Chosen without --event: the event that a thread hits most often"), "{text}");
    assert!(text.contains("--event motor:command (2)"), "{text}");
    let json = findings(&scene.sordino(&["explain", "--json", motor.name()]));
    assert_eq!(json["rule"], "motor:period");
    assert!(["regular", "frequent"].contains(&json["choice"]["why"].as_str().unwrap()), "{json}");
    assert_eq!(json["choice"]["others"][0], serde_json::json!({ "rule": "motor:command", "intervals": 2 }));

    // Of two pairs with as many intervals, the first by name; the other is named with its options.
    let pairs = recorded("pairs.c", &[]);
    let json = findings(&scene.sordino(&["explain", "--json", pairs.name()]));
    assert_eq!(
        (&json["rule"], &json["choice"]["why"]),
        (&"net:request@id..net:answer@id".into(), &"pair".into())
    );
    assert_eq!(number(&json["statistics"]["count"]), 20);
    let text = one_line(scene.sordino(&["explain", pairs.name()]).succeeded());
    assert!(text.contains("--begin work:begin --end work:end (20)"), "{text}");

    let npt = scene.record(&[], &["./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "99"]);
    let json = findings(&scene.sordino(&["explain", "--json", npt.name()]));
    assert_eq!((&json["rule"], &json["choice"]["why"]), (&"npt:loop".into(), &"npt".into()));

    // A tracepoint that has events and makes no interval is not suggested.
    let program = scene.program("pairs.c");
    let script = format!("./sordino npt -p 0 --warm-up 0 -l 1 >npt.out && {}", program.display());
    let both = scene.record(&[], &["sh", "-c", &script]);
    let json = findings(&scene.sordino(&["explain", "--json", both.name()]));
    assert_eq!(json["rule"], "net:request@id..net:answer@id");
}

#[test]
fn where_nothing_can_be_chosen_the_remedy_is_said() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("pairs.c");
    // Any program makes system calls; a tenth of a second may have no interrupt.
    let kernel = scene.record(&["--kernel", "sched,raw_syscalls", "--no-user"], &[program.to_str().unwrap()]);
    assert_eq!(kernel.user_events(), 0);
    assert!(kernel.summary["programs"].as_array().unwrap().is_empty(), "{}", kernel.summary);
    let words = ["the kernel's events only", "-- PROGRAM", "--begin sys_enter --end sys_exit"];
    scene.refuses(2, &words, &["explain", kernel.name()]);
    let nothing = scene.record(&[], &["true"]);
    scene.refuses(2, &["nothing to choose", "sordino record -- PROGRAM"], &["explain", nothing.name()]);
    // A few of the kernel's events, without those that show which thread has a CPU.
    let partly = scene.record(&["--kernel", "irq"], &[program.to_str().unwrap()]);
    let text = one_line(scene.sordino(&["explain", partly.name()]).succeeded());
    assert!(text.contains("unknown: sched_switch is not recorded") && !text.contains("own code"), "{text}");
    assert!(text.contains("Next time, add to --kernel: sched,irq_vectors,"), "{text}");
}
