//! Goroutines of a real Go program, compared with its output and with the kernel's switches between threads.

use serde_json::Value;
use sordino_tests::Scene;
use sordino_tests::install::{adapter, root};
use sordino_tests::listing::items;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// A generation without events, whose clock snapshot shows a machine that was started in January 1970.
const OF_1970: &[u8] = &[
    1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 232, 7, 15, 50, 8, 168, 214, 185, 7, 51, 1, 197,
    244, 3, 192, 132, 61, 0, 52,
];

/// Compiles the Go program; `None` if there is no Go that can.
fn workers(scene: &Scene) -> Option<PathBuf> {
    let program = scene.fresh("workers");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(".").current_dir(root().join("adapters/go/example"));
    // Nothing is fetched: the installed Go has to be new enough.
    go.env("GOCACHE", scene.path("go-cache"))
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "-mod=mod -buildvcs=false");
    let reason = match go.output() {
        Ok(output) if output.status.success() => return Some(program),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    Scene::not_measured(&format!("goroutines: install Go 1.25 or later: {reason}"));
    None
}

/// Times in which each thread had a CPU, by the kernel's switches, in nanoseconds.
fn times_on_cpus(events: &[Value]) -> BTreeMap<i64, Vec<(i64, i64)>> {
    let (mut since, mut times) = (BTreeMap::new(), BTreeMap::<i64, Vec<_>>::new());
    for event in events.iter().filter(|event| event["name"] == "sched_switch") {
        let (now, cpu) = (event["time_ns"].as_i64().unwrap(), event["cpu"].as_i64().unwrap());
        let [prev, next] = ["prev_tid", "next_tid"].map(|field| event["fields"][field].as_i64().unwrap());
        // Not every switch from the idle thread is listed: the thread came after the CPU's last listed switch.
        let (_, begin) = since.insert(cpu, (next, now)).unwrap_or((prev, i64::MIN));
        times.entry(prev).or_default().push((begin, now));
    }
    since.into_values().for_each(|(thread, begin)| times.entry(thread).or_default().push((begin, i64::MAX)));
    times
}

/// Asserts for each record of a goroutine that the kernel had its thread on a CPU then, within the stated uncertainty,
/// and that each goroutine's run has time on one. Returns the number of runs.
fn check_against_the_kernel(events: &[Value]) -> usize {
    let times = times_on_cpus(events);
    let (mut running, mut runs) = (BTreeMap::new(), 0);
    let of_fibers = |event: &&Value| {
        let name = event["name"].as_str().unwrap_or_default();
        // Another thread may have written the state of an older goroutine.
        name.starts_with("sordino_fiber:") && name != "sordino_fiber:present"
    };
    for event in events.iter().filter(of_fibers) {
        let (thread, now) = (event["tid"].as_i64().unwrap(), event["time_ns"].as_i64().unwrap());
        let slack = event["uncertainty_ns"].as_i64().unwrap_or_default().max(1000);
        let has_cpu = |from: i64, to: i64| times[&thread].iter().any(|time| time.0 <= to && time.1 >= from);
        assert!(has_cpu(now.saturating_sub(slack), now + slack), "thread {thread} had no CPU: {event}");
        if event["name"] == "sordino_fiber:switch" {
            let [from, to] = ["from", "to"].map(|field| event["fields"][field].as_i64().unwrap());
            if let Some((fiber, since)) = running.insert(thread, (to, now)).filter(|(fiber, _)| *fiber != 0) {
                assert_eq!(fiber, from, "{event}");
                assert!(has_cpu(since - slack, now + slack), "goroutine {fiber} ran without a CPU: {event}");
                runs += 1;
            }
        }
    }
    runs
}

/// Returns the number of goroutines that some event names so.
fn named(events: &[Value], name: &str) -> usize {
    let names = events.iter().filter(|event| event["fields"]["name"] == name);
    names.map(|event| event["fields"]["fiber"].as_i64().unwrap()).collect::<BTreeSet<_>>().len()
}

#[test]
fn goroutines_of_a_real_program_run_while_the_kernel_has_their_threads_on_a_cpu() {
    let Some(scene) = Scene::new().as_root() else { return };
    let Some(program) = workers(&scene) else { return };
    let importer = adapter("sordino-go");
    for mode in [&[][..], &["flight"]] {
        let trace = scene.fresh("trace");
        let command = [&[program.to_str().unwrap(), trace.to_str().unwrap(), "4", "100"], mode].concat();
        let recording = scene.record(&["--kernel", "sched", "--no-user"], &command);
        assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.notes());
        let printed = recording.ended.output.lines().next().unwrap_or_default();
        let [pid, count, values] = printed.split(' ').collect::<Vec<_>>()[..] else { panic!("{printed}") };
        assert_eq!(values, "100");

        let goroutines = scene.fresh("goroutines");
        let mut import = Command::new(&importer);
        import.arg(&trace).arg("-o").arg(&goroutines).arg("--with").arg(recording.name());
        let imported = scene.run(&mut import);
        imported.succeeded();
        for words in
            [&format!("of workers-1/{pid}")[..], "CLOCK_MONOTONIC in steps of 64 ns, of the recording's boot"]
        {
            assert!(imported.errors.contains(words), "'{words}' in {}", imported.errors);
        }
        let listing = |options: &[&str]| {
            let mut command = scene.command(&["events", "--json"]);
            let ended = scene.run(command.args(options).arg(recording.name()).arg(&goroutines));
            assert!(
                ended.errors.contains("were recorded on one boot by two clocks, uncertain by"),
                "{}",
                ended.errors
            );
            items(ended.succeeded())
        };
        let events = listing(&["--event", "sched_switch, sordino_fiber"]);
        let marked: Vec<_> = events.iter().filter(|event| event["type"] != "event").collect();
        assert!(marked.is_empty(), "losses or contradictions: {marked:?}");
        assert_eq!(named(&events, "main.worker"), count.parse::<usize>().unwrap());
        assert_eq!(named(&events, "main.main"), 1);
        let switches = check_against_the_kernel(&events);
        // Each worker takes each value, yields and sleeps. A snapshot may lack the last rounds.
        assert!(switches >= if mode.is_empty() { 1200 } else { 600 }, "{switches}");

        let mut explain = scene.command(&["explain", "--json", "--fiber", "main.worker"]);
        scene.run(explain.arg(recording.name()).arg(&goroutines)).succeeded();
        // The recording has the trace's threads in another process.
        let mut import = Command::new(&importer);
        import.arg(&trace).arg("-o").arg(scene.fresh("wrong")).arg("--with").arg(recording.name());
        scene.run(import.args(["--pid", "1"])).failed(2, &["not in process 1", "leave --pid out"]);
        // A trace shows its boot by its clock snapshot alone: a recording of another one is rejected.
        let (other, unlike) = (scene.fresh("other"), scene.fresh("unlike"));
        std::fs::write(&unlike, [&b"go 1.26 trace\0\0\0"[..], OF_1970].concat()).unwrap();
        let mut import = Command::new(&importer);
        import.arg(unlike).arg("-o").arg(&other).arg("--with").arg(recording.name());
        scene.run(&mut import).failed(2, &["another boot", "expected less than 1 s"]);
        assert!(!other.exists());
    }
}
