//! `--subtract-overhead`: the time that recording took, by the costs that the recorder measured.

use serde_json::Value;
use sordino_ctf::read;
use sordino_tests::Scene;
use std::fs;
use std::path::Path;

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the cost of an event in picoseconds, from a trace's metadata.
fn cost(trace: &Path, whose: &str) -> i64 {
    let metadata = fs::read(trace.join("metadata")).unwrap();
    let metadata = String::from_utf8_lossy(&metadata);
    let entry = format!("{whose}_event_cost_ps = ");
    let value = metadata.split(&entry).nth(1).unwrap_or_else(|| panic!("no {entry} in {metadata}"));
    value.split(';').next().unwrap().parse().unwrap()
}

/// Returns the output of a command with `--json`, without the option and with it.
fn both(scene: &Scene, arguments: &[&str]) -> [Value; 2] {
    [&[][..], &["--subtract-overhead"]].map(|option| {
        let ended = scene.sordino(&[arguments, &["--json"], option].concat());
        let is_reported = ended.errors.contains("the overhead of recording is subtracted");
        assert_eq!(is_reported, !option.is_empty(), "{}", ended.errors);
        serde_json::from_str(ended.succeeded()).unwrap()
    })
}

#[test]
fn each_event_within_an_interval_costs_what_the_recorder_measured() {
    let scene = Scene::new();
    let program = scene.program("pairs.c");
    let recording = scene.record(&["--user", "net:*,work:*"], &[program.to_str().unwrap()]);
    let trace = recording.path.join(recording.program("pairs-1")["trace"].as_str().unwrap());
    let user = cost(&trace, "user");
    assert!(user > 0);
    let listed = scene.listed(&recording.path);
    // The program's first thread records its request and the begin of its work before the work ends. With a coarse
    // clock, the end of the work before has the time of the request, or the work begins and ends at one time.
    let cost_of = |interval: &Value| {
        let span = number(&interval["begin_ns"])..number(&interval["end_ns"]);
        let recorded = listed.iter().filter(|event| event["tid"] == interval["thread"]["tid"]);
        let within = recorded.filter(|event| span.contains(&number(&event["time_ns"]))).count() as i64;
        assert!((1..=3).contains(&within), "{interval}");
        within * user / 1000
    };
    let mut sum = 0;
    let rule = ["explain", recording.name(), "--begin", "net:request", "--end", "work:end", "--top", "20"];
    let [with, without] = both(&scene, &rule);
    let find = |found: &Value, begin: &Value| {
        let intervals = found["intervals"].as_array().unwrap();
        intervals.iter().find(|interval| interval["begin_ns"] == *begin).unwrap().clone()
    };
    for interval in with["intervals"].as_array().unwrap() {
        let net = find(&without, &interval["begin_ns"]);
        assert_eq!(number(&net["overhead_ns"]), cost_of(interval), "{net}");
        sum += cost_of(interval);
        assert_eq!(number(&net["length_ns"]) + number(&net["overhead_ns"]), number(&interval["length_ns"]));
        assert!(interval["overhead_ns"].is_null());
    }
    let page = scene.sordino(&[&rule[..], &["--subtract-overhead"]].concat());
    assert!(page.succeeded().contains("more, which is subtracted (estimated)"), "{}", page.output);
    let measure = ["query", recording.name(), "duration", "--begin", "net:request", "--end", "work:end"];
    let [with, without] = both(&scene, &measure).map(|found| found["tables"][0].clone());
    assert_eq!(number(&without["overhead_ns"]), sum);
    let total = |table: &Value| number(&table["all"]["total_ns"]);
    assert_eq!(total(&with) - total(&without), number(&without["overhead_ns"]));
}

#[test]
fn the_kernel_s_events_cost_something_too_and_the_parts_add_up() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let npt = ["./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", "200000"];
    let recording = scene.record(&["--kernel", "rt"], &npt);
    assert!(cost(&recording.path.join("kernel"), "kernel") > 0);
    let [with, without] = both(&scene, &["explain", recording.name(), "--event", "npt:loop", "--top", "50"]);
    let most = without["intervals"].as_array().unwrap();
    for interval in most {
        let parts = interval["parts"].as_array().unwrap();
        let sum: i64 = parts.iter().map(|part| number(&part["time_ns"])).sum();
        let whole = number(&interval["end_ns"]) - number(&interval["begin_ns"]);
        assert_eq!(sum, number(&interval["length_ns"]), "{interval}");
        assert_eq!(sum + number(&interval["overhead_ns"]), whole, "{interval}");
    }
    let median = |found: &Value| number(&found["statistics"]["median_ns"]);
    assert!(median(&without) < median(&with), "each loop has an event of its own");
    let [with, without] = both(&scene, &["query", recording.name(), "syscalls"]);
    let total = |found: &Value| number(&found["tables"][0]["all"]["total_ns"]);
    assert_eq!(total(&with) - total(&without), number(&without["tables"][0]["overhead_ns"]));
    assert!(total(&without) < total(&with));
}

#[test]
fn a_recording_that_does_not_state_the_costs_is_refused() {
    let scene = Scene::new();
    let program = scene.program("pairs.c");
    let recording = scene.record(&["--user", "net:*"], &[program.to_str().unwrap()]);
    let traces = read::find(&recording.path).unwrap();
    for metadata in traces.iter().map(|trace| trace.join("metadata")) {
        let text = fs::read_to_string(&metadata).unwrap();
        let older: String =
            text.split_inclusive('\n').filter(|line| !line.contains("event_cost_ps")).collect();
        assert!(older.len() < text.len());
        fs::write(metadata, older).unwrap();
    }
    let rule = ["query", recording.name(), "period", "--event", "net:request"];
    scene.sordino(&rule).succeeded();
    scene.refuses(
        2,
        &["does not state what an event of a program cost", recording.name()],
        &[&rule[..], &["--subtract-overhead"]].concat(),
    );
}

#[test]
fn recordings_of_one_host_state_the_costs_of_their_own_events() {
    let Some(scene) = Scene::new().as_root() else { return };
    let program = scene.program("pairs.c");
    let kernel = scene.record(&["--no-user", "--kernel", "sched"], &["sleep", "0.1"]);
    let user = scene.record(&["--user", "net:*"], &[program.to_str().unwrap()]);
    let names = [user.name(), kernel.name()];
    for pair in [names, [names[1], names[0]]] {
        let both = [&["query"], &pair[..], &["period", "--event", "net:request", "--subtract-overhead"]];
        let ended = scene.sordino(&both.concat());
        ended.succeeded();
        assert!(
            ended.errors.contains("of a program and ") && ended.errors.contains("of the kernel"),
            "{}",
            ended.errors
        );
    }
}
