//! `sordino explain` names the disturbances that a test plants, on the real kernel, each repeated until it is recorded.

use serde_json::Value;
use sordino_tests::{CompletedRecording, Scene, last_cpu};

/// Returns the intervals of a recording, longest first.
fn intervals(scene: &Scene, recording: &CompletedRecording, arguments: &[&str]) -> Vec<Value> {
    let ended = scene.sordino(&[&["explain", "--json", recording.name()], arguments].concat());
    let findings: Value = serde_json::from_str(ended.succeeded()).unwrap();
    findings["intervals"].as_array().unwrap().clone()
}

/// Returns the part that explains an interval.
fn main_part(interval: &Value) -> &Value {
    &interval["parts"][interval["main"]["part"].as_u64().unwrap_or(0) as usize]
}

/// Returns a text for people without its line breaks.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_wake_up_of_sordinos_recorder_is_told_from_the_programs_own_calls() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let cpu = last_cpu();
    // A record takes 32 bytes: about one loop in 500 switches the sub-buffer.
    let record = |how: &str| {
        let options = [
            how,
            "--subbuf-size",
            "16K",
            "--kernel-buffer",
            "32M",
            "--kernel",
            "sched,irq,irq_vectors,timer,raw_syscalls",
        ];
        let npt = ["./sordino", "npt", "--cpu", &cpu, "--prio", "50", "--pace", "2us", "--duration", "500ms"];
        let recording = scene.record(&options, &npt);
        assert_eq!(recording.ended.status, 0, "{}", recording.ended.errors);
        recording
    };
    let is_wake_up = |interval: &&Value| main_part(interval)["cause"]["kind"] == "recorder_wake_up";

    let recording = record("--wakeup");
    let gaps = intervals(&scene, &recording, &["--top", "2000"]);
    let planted: Vec<_> = gaps.iter().filter(is_wake_up).collect();
    assert!(planted.len() > 10, "{} of {} gaps", planted.len(), gaps.len());
    assert!(planted.iter().all(|gap| gap["thread"]["comm"] == "npt"), "{planted:?}");
    let text = one_line(scene.sordino(&["explain", recording.name(), "--top", "2000"]).succeeded());
    assert!(text.contains("sordino's own wake-up of its recorder (--wakeup) took "), "{text}");

    // No thread wakes a thread that waits for a timer.
    let gaps = intervals(&scene, &record("--read-timer=1ms"), &["--top", "2000"]);
    assert_eq!(gaps.iter().filter(is_wake_up).count(), 0);
}

/// Returns the end of the explained thread's sleep for the lock, which takes most of each interval.
fn holder(interval: &Value) -> &Value {
    let part = &interval["parts"][0];
    assert_eq!(
        (&part["cause"]["kind"], &part["cause"]["syscall"]),
        (&"blocked".into(), &"futex".into()),
        "{interval}"
    );
    let [woken] = &part["wakers"].as_array().unwrap()[..] else { panic!("not one waker: {interval}") };
    assert_eq!(woken["by"]["thread"]["comm"], "low", "{interval}");
    woken
}

/// Returns the thread for which the lock's holder waited meanwhile.
fn waited(woken: &Value) -> impl Iterator<Item = &Value> {
    let of_holder = woken["chain"].as_array().unwrap().iter().filter(|link| link["level"] == 1);
    of_holder.flat_map(|link| link["waited"].as_array().unwrap())
}

#[test]
fn who_holds_a_lock_is_named_with_who_preempted_it() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let cpu = last_cpu();
    let program = scene.program("inversion.c");
    let record = |lock: &str| {
        let options = ["--kernel", "sched,irq,irq_vectors,timer,raw_syscalls", "--kernel-buffer", "32M"];
        let recording = scene.record(&options, &[program.to_str().unwrap(), &cpu, lock]);
        let counts = (recording.ended.status, recording.user_events(), recording.lost());
        assert_eq!(counts, (0, 10, 0), "{}", recording.ended.errors);
        recording
    };
    let rule = ["--begin", "lock:begin", "--end", "lock:end"];

    let recording = record("plain");
    let waits = intervals(&scene, &recording, &rule);
    assert_eq!(waits.len(), 5);
    for wait in &waits {
        let woken = holder(wait);
        assert_eq!(woken["lock"], "inferred");
        assert!(waited(woken).any(|behind| behind["thread"]["comm"] == "medium"), "{wait}");
        let by_medium = |inversion: &Value| {
            let names = (&inversion["by"]["comm"], &inversion["behind"]["comm"]);
            inversion["how"] == "held_up" && names == (&"low".into(), &"medium".into())
        };
        assert!(wait["inversions"].as_array().unwrap().iter().any(by_medium), "{wait}");
    }
    let text = one_line(scene.sordino(&[&["explain", recording.name()], &rule[..]].concat()).succeeded());
    assert!(text.contains("on a futex (a lock?) that low/"), "{text}");
    assert!(text.contains("if that is a lock, this thread held it (inferred); meanwhile it ran "), "{text}");

    // The holder of a lock with priority inheritance gets the waiter's priority, so no medium thread preempts it.
    let recording = record("inherit");
    for wait in &intervals(&scene, &recording, &rule) {
        let woken = holder(wait);
        assert_eq!(woken["lock"], "held");
        assert!(waited(woken).all(|behind| behind["thread"]["comm"] != "medium"), "{wait}");
    }
    let text = one_line(scene.sordino(&[&["explain", recording.name()], &rule[..]].concat()).succeeded());
    assert!(text.contains("on a lock held by low/"), "{text}");
}

#[test]
fn a_flood_of_softirqs_is_named_as_the_cause() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let is_rt = std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1");
    if is_rt || sordino_sched::affinity().unwrap().as_slice().len() < 2 {
        return Scene::not_measured(
            "with PREEMPT_RT, softirqs wait for npt; and packets come from another CPU",
        );
    }
    let cpu = last_cpu();
    let script = format!(
        "./sordino disturb packets --cpu {cpu} --prio 60 --at 500ms,700ms,900ms --for 3ms & \
         ./sordino npt --cpu {cpu} --prio 50 --pace 10us --duration 1500ms >npt.out && wait $!"
    );
    let recording = scene.record(
        &["--kernel", "sched,irq,irq_vectors,timer", "--kernel-buffer", "32M"],
        &["sh", "-c", &script],
    );
    assert_eq!(recording.ended.status, 0, "{}", recording.ended.errors);
    let gaps = intervals(&scene, &recording, &["--top", "2000"]);

    // A hypervisor's share can be the larger part of a gap, but not of all.
    let events = recording.events();
    let times =
        |name: &'static str| events.iter().filter(move |event| event.name == name).map(|event| event.time);
    let floods: Vec<(i64, i64)> = times("disturb:begin").zip(times("disturb:end")).collect();
    assert_eq!(floods.len(), 3);
    let longest_in = |&(begin, end): &(i64, i64)| {
        let overlaps =
            |gap: &&Value| gap["begin_ns"].as_i64().unwrap() < end && begin < gap["end_ns"].as_i64().unwrap();
        main_part(gaps.iter().find(overlaps).expect("a gap"))["cause"].clone()
    };
    let causes: Vec<Value> = floods.iter().map(longest_in).collect();
    assert!(causes.iter().any(|cause| cause["kind"] == "softirq" && cause["name"] == "NET_RX"), "{causes:?}");
}
