//! `sordino explain` names what a program plants into a thread's way, first and with its length: one kind after another, on real kernels.
//! The kinds are those of `docs/causes.md`.

use serde_json::Value;
use sordino_tests::{Scene, last_cpu};
use std::fs;
use std::path::{Path, PathBuf};

/// One kind of disturbance.
struct Kind {
    /// As `planter.c` calls it.
    name: &'static str,
    /// What the headline is about: the identifier of the cause, and texts within its JSON.
    cause: &'static str,
    details: &'static [&'static str],
    /// The number that is the disturbance's length.
    length: fn(&Value) -> i64,
}

fn time(part: &Value) -> i64 {
    part["time_ns"].as_i64().unwrap()
}

fn excess(part: &Value) -> i64 {
    time(part) - part["usual_ns"].as_i64().unwrap()
}

fn longest(part: &Value) -> i64 {
    part["longest_ns"].as_i64().unwrap()
}

/// What the thread ran whose work the sleep waited for.
fn ran(part: &Value) -> i64 {
    let links =
        part["wakers"].as_array().unwrap().iter().flat_map(|woken| woken["chain"].as_array().unwrap());
    links.map(|link| link["ran_ns"].as_i64().unwrap()).max().unwrap_or(0)
}

/// What the ordinary thread ran that the real-time limit left the CPU to.
fn beside(part: &Value) -> i64 {
    let mut others = part["beside"].as_array().unwrap().iter();
    others.find(|other| other["thread"]["comm"] == "fair").map_or(0, time)
}

/// Nothing to compare: a fault's end leaves no event, and a page that is read is more than one part.
fn at_most(_: &Value) -> i64 {
    -1
}

const KINDS: &[Kind] = &[
    Kind { name: "own", cause: "own", details: &[], length: excess },
    Kind { name: "call", cause: "syscall", details: &[r#""call":"getrandom""#], length: time },
    Kind {
        name: "preempted",
        cause: "waiting",
        details: &[r#""after":"preemption""#, r#""comm":"hog""#],
        length: time,
    },
    Kind {
        name: "woken_behind",
        cause: "waiting",
        details: &[r#""after":"wake_up""#, r#""comm":"hog""#],
        length: time,
    },
    Kind {
        name: "lock",
        cause: "blocked",
        details: &[r#""lock":"inferred""#, r#""comm":"holder""#],
        length: longest,
    },
    Kind {
        name: "lending_lock",
        cause: "blocked",
        details: &[r#""lock":"held""#, r#""comm":"holder""#],
        length: time,
    },
    Kind {
        name: "condition",
        cause: "blocked",
        details: &[r#""syscall":"futex""#, r#""lock":null"#, r#""comm":"worker""#],
        length: ran,
    },
    Kind {
        name: "barrier",
        cause: "blocked",
        details: &[r#""syscall":"futex""#, r#""lock":null"#, r#""comm":"worker""#],
        length: ran,
    },
    Kind {
        name: "semaphore",
        cause: "blocked",
        details: &[r#""syscall":"futex""#, r#""lock":null"#, r#""comm":"worker""#],
        length: ran,
    },
    Kind {
        name: "pipe",
        cause: "blocked",
        details: &[r#""syscall":"read""#, r#""comm":"worker""#],
        length: ran,
    },
    Kind {
        name: "socket",
        cause: "blocked",
        details: &[r#""syscall":"read""#, r#""comm":"worker""#],
        length: ran,
    },
    Kind {
        name: "eventfd",
        cause: "blocked",
        details: &[r#""syscall":"read""#, r#""comm":"worker""#],
        length: ran,
    },
    Kind {
        name: "poll",
        cause: "blocked",
        details: &[r#""syscall":"poll""#, r#""comm":"worker""#],
        length: ran,
    },
    Kind {
        name: "chain",
        cause: "blocked",
        details: &[r#""syscall":"read""#, r#""comm":"third""#, r#""comm":"second""#],
        length: ran,
    },
    Kind {
        name: "signal",
        cause: "signal_handler",
        details: &[r#""signal":"SIGUSR1""#, r#""comm":"sender""#],
        length: time,
    },
    Kind { name: "stopped", cause: "blocked", details: &[r#""state":"T""#], length: time },
    Kind { name: "faults", cause: "page_fault", details: &[], length: at_most },
    Kind { name: "page_reads", cause: "blocked", details: &[r#""in_page_fault":true"#], length: at_most },
    Kind { name: "sleep", cause: "blocked", details: &[r#""syscall":"clock_nanosleep""#], length: excess },
    Kind { name: "slack", cause: "late_timer", details: &[r#""in_slack":true"#], length: longest },
    Kind { name: "sync", cause: "blocked", details: &[r#""syscall":"fsync""#], length: at_most },
    Kind {
        name: "yield",
        cause: "waiting",
        details: &[r#""after":"preemption""#, r#""comm":"peer""#, r#""syscall":"sched_yield""#],
        length: time,
    },
    Kind {
        name: "moved",
        cause: "waiting",
        details: &[r#""comm":"hog""#, r#""syscall":"sched_setaffinity""#],
        length: time,
    },
    Kind {
        name: "fair_server",
        cause: "throttled",
        details: &[r#""limit":"real_time""#, r#""comm":"fair""#],
        length: beside,
    },
    Kind { name: "deadline", cause: "throttled", details: &[r#""limit":"deadline""#], length: time },
    Kind { name: "quota", cause: "throttled", details: &[r#""limit":"control_group""#], length: time },
];

/// The planted rounds of a recording, as the program measured them: number and length in ns.
fn planted(output: &str) -> Vec<(i64, i64)> {
    let round = |line: &str| {
        let (round, length) = line.split_once(' ')?;
        Some((round.parse().ok()?, length.parse().ok()?))
    };
    output.lines().filter_map(round).collect()
}

/// A control group whose threads have 4 of 40 ms; it is gone when this is.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let name = format!("sordino-planted-{}", std::process::id());
        let (one, two) = (Path::new("/sys/fs/cgroup/cpu"), Path::new("/sys/fs/cgroup"));
        if one.join("cpu.cfs_quota_us").exists() || one.join("cpu.cfs_period_us").exists() {
            let group = Self(one.join(name));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join("cpu.cfs_period_us"), "40000").ok()?;
            fs::write(group.0.join("cpu.cfs_quota_us"), "4000").ok()?;
            return Some(group);
        }
        let enabled = fs::read_to_string(two.join("cgroup.subtree_control")).unwrap_or_default();
        if !enabled.split_whitespace().any(|controller| controller == "cpu") {
            return None;
        }
        let group = Self(two.join(name));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join("cpu.max"), "4000 40000").ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Records the kind on a CPU, with these events; its findings of the planted rounds, with the length of each. `None` where the machine
/// does not have it.
fn record(scene: &Scene, kind: &str, cpu: &str, events: &str) -> Option<Vec<(Value, i64)>> {
    let program = scene.program("planter.c");
    let program = program.to_str().unwrap();
    let group = Group::new();
    let in_group = match (kind, &group) {
        ("quota", Some(group)) => format!("echo $$ >{}/cgroup.procs; ", group.0.display()),
        ("quota", None) => {
            Scene::not_measured("a quota of CPU time: no control group's cpu controller is mounted");
            return None;
        }
        _ => String::new(),
    };
    let script = format!("{in_group}exec {program} {kind} {cpu}");
    let recording = scene.record(&["--kernel", events, "--kernel-buffer", "32M"], &["sh", "-c", &script]);
    let output = &recording.ended.output;
    if recording.ended.status == 3 {
        Scene::not_measured(output.split_once("refused: ").expect("a reason").1);
        return None;
    }
    assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{kind}: {}", recording.ended.errors);
    let rounds = planted(output);
    assert_eq!(rounds.len(), 3, "{kind}: {output}");
    let arguments = ["--begin", "plant:begin", "--end", "plant:end", "--top", "8", "--json"];
    let ended = scene.sordino(&[&["explain", recording.name()], &arguments[..]].concat());
    let findings: Value = serde_json::from_str(ended.succeeded()).unwrap();
    let of = |number: i64| {
        let mut intervals = findings["intervals"].as_array().unwrap().iter();
        intervals.find(|interval| interval["begin_fields"]["round"] == number).unwrap().clone()
    };
    Some(rounds.into_iter().map(|(number, length)| (of(number), length)).collect())
}

/// The part that explains an interval.
fn main_part(interval: &Value) -> &Value {
    &interval["parts"][interval["main"]["part"].as_u64().unwrap() as usize]
}

/// The recordings of each kind on each of two CPUs, with three plants each and no second try; by default one on one CPU.
fn runs() -> Option<usize> {
    let runs = std::env::var("PLANTED_RUNS").ok()?;
    Some(runs.parse().expect("PLANTED_RUNS is a number"))
}

/// What is wrong in one recording of a kind on a CPU; `None` where the machine does not have it.
fn wrong(scene: &Scene, kind: &Kind, cpu: &str) -> Option<Vec<String>> {
    let judge = |(interval, length): (Value, i64)| {
        let (part, text) = (main_part(&interval), main_part(&interval).to_string());
        let found = (kind.length)(part);
        // Beside a throttled thread, the program's clock counts the time of those that wait for nobody, too.
        let part_of = if kind.cause == "throttled" { 10 } else { 20 };
        let is_near = found < 0 || (found - length).abs() <= (length / part_of).max(20_000);
        // Of a page that is read, the fault itself may take longer than the wait.
        let is_fault = kind.name == "page_reads" && part["cause"]["kind"] == "page_fault";
        let has_details = || kind.details.iter().all(|detail| text.contains(detail));
        let is_named = is_fault || part["cause"]["kind"] == kind.cause && has_details();
        (!is_named || !is_near)
            .then(|| format!("{} on CPU {cpu}: {length} ns, found {found}: {interval}", kind.name))
    };
    Some(record(scene, kind.name, cpu, "rt")?.into_iter().filter_map(judge).collect())
}

/// The tries that a kind has: what else runs on the machine may be the larger disturbance, and is named then.
const TRIES: usize = 3;

#[test]
fn what_is_planted_is_named_first_with_its_length() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let mut cpus: Vec<String> =
        sordino_sched::affinity().unwrap().as_slice().iter().map(ToString::to_string).collect();
    if cpus.len() < 2 {
        return Scene::not_measured("disturbances from another CPU: there is one CPU only");
    }
    let mut all_wrong = Vec::new();
    for kind in KINDS {
        cpus.rotate_left(1);
        match runs() {
            Some(runs) => {
                let on = cpus[..2].iter().flat_map(|cpu| std::iter::repeat_n(cpu, runs));
                all_wrong.extend(on.filter_map(|cpu| wrong(&scene, kind, cpu)).flatten());
            }
            None => {
                let mut tries = (0..TRIES).map(|_| wrong(&scene, kind, &cpus[0]).unwrap_or_default());
                let first = tries.next().unwrap();
                if !first.is_empty() && !tries.any(|wrong| wrong.is_empty()) {
                    all_wrong.extend(first);
                }
            }
        }
    }
    assert!(all_wrong.is_empty(), "{} wrong:\n{}", all_wrong.len(), all_wrong.join("\n"));
}

/// The weaker statement, and never a wrong cause.
#[test]
fn with_switches_and_wake_ups_alone_nothing_is_named_that_is_not_recorded() {
    let Some(scene) = Scene::checked().as_root() else { return };
    let cpu = last_cpu();
    for name in ["own", "call", "preempted", "woken_behind", "lock", "pipe", "signal", "faults", "stopped"] {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        let expected = match kind.cause {
            "own" | "syscall" | "signal_handler" | "page_fault" => "own_or_syscall",
            recorded => recorded,
        };
        let events = "sched_switch,sched_waking,sched_wakeup";
        for (interval, _) in record(&scene, name, &cpu, events).unwrap_or_default() {
            let part = main_part(&interval);
            assert_eq!(part["cause"]["kind"], expected, "{name}: {interval}");
            assert!(part["cause"]["syscall"].is_null(), "{name}: {interval}");
            let wakers = part["wakers"].as_array().unwrap();
            // An interrupt may have come on top of the thread that seems to wake.
            assert!(
                wakers.iter().all(|woken| woken["by"]["kind"] == "unknown" && woken["lock"].is_null()),
                "{name}: {interval}"
            );
        }
    }
}
