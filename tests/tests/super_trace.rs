//! A program whose own scheduler runs fibers on two threads, recorded together with the kernel.

use serde_json::Value;
use sordino_tests::active::{Active, number};
use sordino_tests::{Scene, listing};
use std::collections::BTreeMap;

#[test]
fn fibers_are_followed_over_threads_and_cpus_and_their_waits_are_explained() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let program = scene.program("two_levels.c");
    let command = [program.to_str().unwrap(), "2", "20", "40"];
    let recording = scene.record(&["--kernel", "sched,irq,irq_vectors,raw_syscalls"], &command);
    assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{}", recording.ended.errors);
    let trace = recording.name();
    let events = listing::items(scene.sordino(&["events", "--json", trace]).succeeded());
    assert!(events.iter().all(|event| event["type"] != "contradiction"));

    let mut active = Active::default();
    for event in &events {
        let of_program = event["name"].as_str().is_some_and(|name| name.starts_with("fibers:"));
        if of_program && event["name"] != "fibers:sent" {
            assert_eq!(event["fiber"], active.mounted[&number(&event["tid"])], "{event}");
        }
        active.take(event);
    }
    // The program has measured the same times by its threads' clocks.
    let mut sums = (0, 0);
    for line in recording.ended.output.lines().filter(|line| !line.is_empty()) {
        let Some((fiber, own)) = line.split_once(' ') else { continue };
        let (Ok(fiber), Ok(own)) = (fiber.parse::<i64>(), own.parse::<i64>()) else { continue };
        let traced = active.time[&fiber];
        sums = (sums.0 + own, sums.1 + traced);
        assert!((traced - own).abs() < own / 5 + 3_000_000, "fiber {fiber}: {traced} instead of {own} ns");
    }
    assert!(sums.0 > 20 * 40 * 200_000 && (sums.1 - sums.0).abs() < sums.0 / 10, "{sums:?}");
    let moved = active.places.values().filter(|places| places.iter().any(|place| place.0 != places[0].0));
    assert!(moved.count() > 0, "no fiber changed its thread");

    // The listing for people has the fiber's column, in which a kernel's event has its fiber, too.
    let listed = scene.sordino(&["events", trace]);
    let preempted = |line: &&str| line.contains("sched_switch") && line.contains("(work/");
    assert!(listed.succeeded().lines().any(|line| preempted(&line)));

    // The daemon waits for the fibers that work.
    let rule = ["--begin", "fibers:sent", "--end", "fibers:received", "--by", "id"];
    let explained = scene.sordino(&[&["explain", "--json"][..], &rule, &[trace]].concat());
    let findings: Value = serde_json::from_str(&explained.output).expect(&explained.errors);
    let intervals = findings["intervals"].as_array().unwrap();
    assert!(!intervals.is_empty(), "{findings}");
    for interval in intervals {
        assert_eq!(interval["fiber"]["name"], "daemon", "{interval}");
        let parts = interval["parts"].as_array().unwrap();
        let sum: i64 = parts.iter().map(|part| number(&part["time_ns"])).sum();
        assert_eq!(sum, number(&interval["length_ns"]), "{interval}");
        // Other programs may have had the CPUs meanwhile.
        let mut kinds: BTreeMap<&str, i64> = BTreeMap::new();
        for part in parts.iter().filter(|part| part["cause"]["kind"] != "waiting") {
            *kinds.entry(part["cause"]["kind"].as_str().unwrap()).or_default() += number(&part["time_ns"]);
        }
        let most = kinds.into_iter().max_by_key(|(_, time)| *time).map(|(kind, _)| kind);
        // A message may come just before the poll.
        assert!(most == Some("fiber_wait") || sum < 1_000_000, "{interval}");
    }
    // The two ends of a round lie in one fiber, which may have changed its thread.
    let rounds = scene.sordino(&["explain", "--json", "--event", "fibers:round", trace]);
    let findings: Value = serde_json::from_str(&rounds.output).expect(&rounds.errors);
    assert_eq!(number(&findings["statistics"]["count"]), 20 * 39);
    assert!(
        findings["intervals"].as_array().unwrap().iter().all(|interval| interval["fiber"]["number"].is_i64())
    );
}
