//! `sordino explain` names a disturbance that a program plants, first and with its length: one kind after another, on
//! real kernels. The kinds are those of `docs/causes.md`.

use serde_json::Value;
use sordino_tests::group::ControlGroup;
use sordino_tests::{Scene, last_cpu};
use std::fs;
use std::path::PathBuf;

/// One kind of disturbance.
struct PlanterKind {
    /// Name of the kind in `planter.c`.
    name: &'static str,
    /// Identifier of the cause in the headline, and texts within its JSON.
    cause: &'static str,
    details: &'static [&'static str],
    /// Number in the headline's part that is the disturbance's length.
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

/// Returns the run time of the thread whose work the sleep waited for.
fn ran(part: &Value) -> i64 {
    let links =
        part["wakers"].as_array().unwrap().iter().flat_map(|woken| woken["chain"].as_array().unwrap());
    links.map(|link| link["ran_ns"].as_i64().unwrap()).max().unwrap_or(0)
}

/// Returns the time of the ordinary thread to which the real-time limit left the CPU.
fn beside(part: &Value) -> i64 {
    let mut others = part["beside"].as_array().unwrap().iter();
    others.find(|other| other["thread"]["comm"] == "fair").map_or(0, time)
}

/// Returns true if the throttled part has the machine's limit of real-time threads, where there is one.
fn has_limit(part: &Value) -> bool {
    let read = |name| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us")).unwrap();
        text.trim().parse::<i64>().unwrap() * 1000
    };
    let limit =
        serde_json::json!({ "group": null, "runtime_ns": read("runtime"), "period_ns": read("period") });
    read("runtime") < 0 || part["quota"] == limit
}

/// Nothing to compare: a fault's end leaves no event, and a page that is read is more than one part.
fn at_most(_: &Value) -> i64 {
    -1
}

const fn kind(
    name: &'static str,
    cause: &'static str,
    details: &'static [&'static str],
    length: fn(&Value) -> i64,
) -> PlanterKind {
    PlanterKind { name, cause, details, length }
}

const KINDS: &[PlanterKind] = &[
    kind("own", "own", &[], excess),
    kind("spin_lock", "own", &[], excess),
    kind("call", "syscall", &[r#""call":"getrandom""#], time),
    kind("unmap", "syscall", &[r#""call":"munmap""#], time),
    kind("fork", "syscall", &[r#""call":"clone""#], time),
    kind("lock_memory", "syscall", &[r#""call":"mlock""#], time),
    kind("signal", "signal_handler", &[r#""signal":"SIGUSR1""#, r#""comm":"sender""#], time),
    kind("alarm", "signal_handler", &[r#""signal":"SIGALRM""#], time),
    kind("interrupts", "vector", &[r#""name":"call_function_single""#, r#""comm":"sender""#], time),
    kind("packets", "softirq", &[r#""name":"NET_RX""#], time),
    kind("faults", "page_fault", &[r#""reason":"missing""#], at_most),
    kind("copy_on_write", "page_fault", &[r#""reason":"write_protected""#], at_most),
    kind("huge_pages", "page_fault", &[r#""huge":true"#], at_most),
    kind("preempted", "waiting", &[r#""after":"preemption""#, r#""comm":"hog""#], time),
    kind("deadline_thread", "waiting", &[r#""after":"preemption""#, r#""comm":"hog""#], time),
    kind("woken_behind", "waiting", &[r#""after":"wake_up""#, r#""comm":"hog""#], time),
    kind("same_priority", "waiting", &[r#""after":"wake_up""#, r#""comm":"hog""#], time),
    kind("round_robin", "waiting", &[r#""after":"wake_up""#, r#""comm":"hog""#], time),
    kind(
        "yield",
        "waiting",
        &[r#""after":"preemption""#, r#""comm":"peer""#, r#""syscall":"sched_yield""#],
        time,
    ),
    kind("moved", "waiting", &[r#""comm":"hog""#, r#""syscall":"sched_setaffinity""#], time),
    kind("fair_server", "throttled", &[r#""limit":"real_time""#, r#""comm":"fair""#], beside),
    kind("deadline", "throttled", &[r#""limit":"deadline""#], time),
    kind(
        "quota",
        "throttled",
        &[r#""limit":"control_group""#, r#""period_ns":40000000,"runtime_ns":4000000}"#],
        time,
    ),
    kind(
        "real_time_quota",
        "throttled",
        &[
            r#""limit":"real_time""#,
            r#""group":"/sordino-test-"#,
            r#""period_ns":40000000,"runtime_ns":4000000}"#,
        ],
        time,
    ),
    kind("lock", "blocked", &[r#""lock":"inferred""#, r#""comm":"holder""#], longest),
    kind("lending_lock", "blocked", &[r#""lock":"held""#, r#""comm":"holder""#], time),
    kind("write_lock", "blocked", &[r#""syscall":"futex""#, r#""comm":"holder""#], longest),
    kind("file_lock", "blocked", &[r#""syscall":"flock""#, r#""comm":"holder""#], longest),
    kind(
        "inversion",
        "blocked",
        &[r#""syscall":"futex""#, r#""comm":"holder""#, r#""comm":"third""#],
        longest,
    ),
    kind("condition", "blocked", &[r#""syscall":"futex""#, r#""lock":null"#, r#""comm":"worker""#], ran),
    kind("barrier", "blocked", &[r#""syscall":"futex""#, r#""lock":null"#, r#""comm":"worker""#], ran),
    kind("semaphore", "blocked", &[r#""syscall":"futex""#, r#""lock":null"#, r#""comm":"worker""#], ran),
    kind("join", "blocked", &[r#""syscall":"futex""#, r#""lock":null"#, r#""comm":"worker""#], ran),
    kind("child", "blocked", &[r#""syscall":"wait4""#, r#""comm":"child""#], ran),
    kind("signal_wait", "blocked", &[r#""syscall":"rt_sigtimedwait""#, r#""comm":"worker""#], ran),
    kind("pipe", "blocked", &[r#""syscall":"read""#, r#""comm":"worker""#], ran),
    kind("full_pipe", "blocked", &[r#""syscall":"write""#, r#""comm":"worker""#], ran),
    kind("socket", "blocked", &[r#""syscall":"read""#, r#""comm":"worker""#], ran),
    kind("connection", "blocked", &[r#""syscall":"read""#, r#""comm":"worker""#], ran),
    kind("accept", "blocked", &[r#""syscall":"accept""#, r#""comm":"worker""#], ran),
    kind("short_sleeps", "blocked", &[r#""syscall":"read""#, r#""comm":"worker""#], ran),
    kind("eventfd", "blocked", &[r#""syscall":"read""#, r#""comm":"worker""#], ran),
    kind("poll", "blocked", &[r#""syscall":"poll""#, r#""comm":"worker""#], ran),
    kind("epoll", "blocked", &[r#""syscall":"epoll_wait""#, r#""comm":"worker""#], ran),
    kind("message", "blocked", &[r#""syscall":"mq_timedreceive""#, r#""comm":"worker""#], ran),
    kind("chain", "blocked", &[r#""syscall":"read""#, r#""comm":"third""#, r#""comm":"second""#], ran),
    kind("stopped", "blocked", &[r#""state":"T""#], time),
    kind("page_reads", "blocked", &[r#""in_page_fault":true"#, r#""inode":"#, r#""comm":"victim""#], at_most),
    kind("brought_page", "blocked", &[r#""in_page_fault":true"#, r#""comm":"worker""#], ran),
    kind("direct_read", "blocked", &[r#""syscall":"pread64""#], at_most),
    kind("sync", "blocked", &[r#""syscall":"fsync""#], at_most),
    kind("sleep", "blocked", &[r#""syscall":"clock_nanosleep""#], excess),
    kind("timer", "blocked", &[r#""syscall":"read""#], time),
    kind("irqs_off", "late_timer", &[r#""in_slack":false"#, r#""comm":"blocker""#], time),
    kind("slack", "late_timer", &[r#""in_slack":true"#], longest),
];

/// The planted rounds of a recording, as the program measured them: number and length in ns.
fn planted(output: &str) -> Vec<(i64, i64)> {
    let round = |line: &str| {
        let (round, length) = line.split_once(' ')?;
        Some((round.parse().ok()?, length.parse().ok()?))
    };
    output.lines().filter_map(round).collect()
}

/// Returns the idle time and the whole time of all CPUs since boot, in ticks of `/proc/stat`.
fn idle() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let times = text.lines().next().unwrap().split_whitespace().skip(1).map(|time| time.parse().unwrap());
    let times: Vec<u64> = times.collect();
    (times[3], times[..8].iter().sum())
}

/// Returns the share of idle time between two looks at it.
fn idle_share(before: (u64, u64), after: (u64, u64)) -> f64 {
    (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64
}

/// Creates a control group whose threads have 4 of 40 ms: the ordinary ones, or those of real time.
fn group(is_real_time: bool) -> Option<ControlGroup> {
    match is_real_time {
        // Version 2 has no such limit.
        true => ControlGroup::new(
            "cpu",
            &[("cpu.rt_period_us", "40000"), ("cpu.rt_runtime_us", "4000")],
            &[("", "")],
        ),
        false => {
            let one = [("cpu.cfs_period_us", "40000"), ("cpu.cfs_quota_us", "4000")];
            ControlGroup::new("cpu", &one, &[("cpu.max", "4000 40000")])
        }
    }
}

/// The compiled planter, and where it is recorded.
struct Planter {
    scene: Scene,
    program: PathBuf,
}

impl Planter {
    fn new() -> Option<Self> {
        let scene = Scene::checked().as_root()?;
        let program = scene.program("planter/planter.c");
        Some(Self { scene, program })
    }

    /// Records a kind on a CPU, with these events and this many plants. Returns the findings of the planted rounds,
    /// with the length of each; `None` where the machine does not have the kind.
    fn record(&self, kind: &str, cpu: &str, events: &str, plants: usize) -> Option<Vec<(Value, i64)>> {
        let (scene, program) = (&self.scene, self.program.display());
        let is_real_time = kind == "real_time_quota";
        let group = (kind == "quota" || is_real_time).then(|| group(is_real_time));
        let in_group = match &group {
            Some(Some(group)) => format!("echo $$ >{}/cgroup.procs; ", group.path().display()),
            Some(None) => {
                Scene::not_measured(&format!(
                    "{kind}: no cpu controller of control groups here has this limit"
                ));
                return None;
            }
            None => String::new(),
        };
        // The planter plants into each third round, but not into the first.
        let number = (3 * plants + 1).to_string();
        let script = format!("{in_group}exec {program} {kind} {cpu} {number}");
        let before = idle();
        let recording = scene.record(&["--kernel", events, "--kernel-buffer", "32M"], &["sh", "-c", &script]);
        // A thread that is throttled while others run can't be distinguished from one that waits for them:
        // docs/causes.md. The kernel's own count of idle time shows whether they did.
        let is_doubtful = kind == "quota" && idle_share(before, idle()) < 0.3;
        let output = &recording.ended.output;
        if recording.ended.status == 3 {
            Scene::not_measured(output.split_once("refused: ").expect("a reason").1);
            return None;
        }
        assert_eq!((recording.ended.status, recording.lost()), (0, 0), "{kind}: {}", recording.ended.errors);
        let rounds = planted(output);
        assert_eq!(rounds.len(), plants, "{kind}: {output}");
        let arguments = ["--begin", "plant:begin", "--end", "plant:end", "--top", &number, "--json"];
        let ended = scene.sordino(&[&["explain", recording.name()], &arguments[..]].concat());
        let findings: Value = serde_json::from_str(ended.succeeded()).unwrap();
        let of = |number: i64| {
            let mut intervals = findings["intervals"].as_array().unwrap().iter();
            intervals.find(|interval| interval["begin_fields"]["round"] == number).unwrap().clone()
        };
        // The sender of packets may come too late, when the victim has left.
        let is_planted = |length: i64| kind != "packets" || length > 100_000;
        let rounds = rounds.into_iter().filter(|(_, length)| is_planted(*length));
        let planted: Vec<_> = rounds.map(|(number, length)| (of(number), length)).collect();
        if is_doubtful {
            planted.iter().for_each(|(interval, _)| assert_doubt(interval));
            Scene::not_measured("a quota: other programs had the CPUs that it left");
            return None;
        }
        Some(planted)
    }

    /// Returns the objections to one recording of a kind on a CPU; `None` where the machine does not have it.
    fn wrong(&self, kind: &PlanterKind, cpu: &str, plants: usize) -> Option<Vec<String>> {
        let events = match kind.name {
            // The allocations, which are no part of the set.
            "huge_pages" => "rt,kmem:mm_page_alloc if order > 8",
            _ => "rt",
        };
        let judged = self.record_undisturbed(kind.name, cpu, events, plants)?.into_iter();
        Some(judged.filter_map(|(interval, length)| kind.objection(cpu, &interval, length)).collect())
    }

    /// Records until there are as many planted rounds from whose CPUs no hypervisor took time: its delays in the others
    /// are not known.
    fn record_undisturbed(
        &self,
        kind: &str,
        cpu: &str,
        events: &str,
        plants: usize,
    ) -> Option<Vec<(Value, i64)>> {
        let mut undisturbed = Vec::new();
        for _ in 0..9 {
            let rounds = self.record(kind, cpu, events, plants)?.into_iter();
            undisturbed.extend(rounds.filter(|(interval, _)| !is_stolen_from(interval)));
            if undisturbed.len() >= plants {
                undisturbed.truncate(plants);
                return Some(undisturbed);
            }
        }
        Scene::not_measured(&format!("{kind}: a hypervisor took time in most of nine recordings"));
        None
    }

    /// Returns the objections to three plants on one CPU, in the first of three tries if none is right: other programs
    /// may be the larger disturbance, and are named then.
    fn wrong_in_each_try(&self, kind: &PlanterKind, cpu: &str) -> Vec<String> {
        let Some(first) = self.wrong(kind, cpu, 3) else { return Vec::new() };
        let again = || self.wrong(kind, cpu, 3).is_some_and(|wrong| wrong.is_empty());
        let is_right = first.is_empty() || (1..3).any(|_| again());
        if is_right { Vec::new() } else { first }
    }

    /// Returns the objections to as many plants, half of them on each CPU, without another try.
    fn wrong_of_many(&self, kind: &PlanterKind, cpus: &[String], plants: usize) -> Vec<String> {
        const IN_ONE: usize = 17;
        let recordings = (plants / 2).div_ceil(IN_ONE);
        let on = cpus[..2].iter().flat_map(|cpu| std::iter::repeat_n(cpu, recordings));
        let judged: Vec<Vec<String>> = on.filter_map(|cpu| self.wrong(kind, cpu, IN_ONE)).collect();
        let (plants, wrong) = (judged.len() * IN_ONE, judged.concat());
        println!("{}: {} wrong of {plants}", kind.name, wrong.len());
        wrong
    }
}

/// Returns true if a hypervisor took time from the interval's CPUs around it.
fn is_stolen_from(interval: &Value) -> bool {
    !interval["stolen"].as_array().unwrap().is_empty()
}

/// Asserts that a wait for other threads is not the cause without the quota that may have been used up meanwhile.
fn assert_doubt(interval: &Value) {
    let part = main_part(interval);
    let is_wait = ["waiting", "throttled"].iter().any(|kind| part["cause"]["kind"] == *kind);
    assert!(!is_wait || part["quota"]["runtime_ns"] == 4_000_000, "{interval}");
}

/// The part that explains an interval.
fn main_part(interval: &Value) -> &Value {
    &interval["parts"][interval["main"]["part"].as_u64().unwrap() as usize]
}

impl PlanterKind {
    /// Returns the objection to the findings on a round into which `length` ns were planted.
    fn objection(&self, cpu: &str, interval: &Value, length: i64) -> Option<String> {
        let (part, text) = (main_part(interval), main_part(interval).to_string());
        let found = (self.length)(part);
        // Interruptions of the thread meanwhile have parts of their own.
        let on_top: &[&str] = match self.name {
            // An ordinary thread waits for others when its timer has come.
            "slack" => &["irq", "vector", "softirq", "nmi", "page_fault", "waiting"],
            _ => &["irq", "vector", "softirq", "nmi", "page_fault"],
        };
        let parts = interval["parts"].as_array().unwrap().iter();
        let elsewhere: i64 = parts
            .filter(|other| on_top.iter().any(|kind| other["cause"]["kind"] == *kind) && *other != part)
            .map(time)
            .sum();
        // Beside a throttled thread, the program's clock counts the time of those that wait for nobody, too. The cost
        // of entering and leaving an interrupt is an estimate.
        let part_of = match self.cause {
            "throttled" => 10,
            "vector" => 3,
            _ => 20,
        };
        let tolerance = (length / part_of).max(20_000);
        let is_near = found < 0 || (length - elsewhere - tolerance..=length + tolerance).contains(&found);
        // Of a page that is read, the fault itself may take longer than the wait.
        let is_fault = self.name == "page_reads" && part["cause"]["kind"] == "page_fault";
        let has_details = || {
            let is_limited = self.name != "fair_server" || has_limit(part);
            is_limited && self.details.iter().all(|detail| text.contains(detail))
        };
        let is_named = is_fault || part["cause"]["kind"] == self.cause && has_details();
        let is_right = is_named && is_near;
        (!is_right).then(|| format!("{} on CPU {cpu}: {length} ns, found {found}: {interval}", self.name))
    }
}

/// The plants of each kind, from the environment; by default three on one CPU.
fn many() -> Option<usize> {
    let plants = std::env::var("PLANTS").ok()?;
    let plants = plants.parse().ok().filter(|plants| *plants >= 2);
    Some(plants.expect("PLANTS is the number of plants of each kind, two at least"))
}

/// The kinds, or those that the environment names.
fn kinds() -> impl Iterator<Item = &'static PlanterKind> {
    let only = std::env::var("PLANT_KINDS").ok();
    for name in only.iter().flat_map(|only| only.split(',')) {
        assert!(KINDS.iter().any(|kind| kind.name == name), "PLANT_KINDS: there is no kind '{name}'");
    }
    let is_named = move |kind: &&PlanterKind| {
        only.as_ref().is_none_or(|only| only.split(',').any(|name| name == kind.name))
    };
    KINDS.iter().filter(is_named)
}

#[test]
fn what_is_planted_is_named_first_with_its_length() {
    let Some(planter) = Planter::new() else { return };
    let mut cpus: Vec<String> =
        sordino_sched::affinity().unwrap().as_slice().iter().map(ToString::to_string).collect();
    if cpus.len() < 2 {
        return Scene::not_measured("disturbances from another CPU: there is one CPU only");
    }
    let mut wrong = Vec::new();
    for kind in kinds() {
        cpus.rotate_left(1);
        wrong.extend(match many() {
            Some(plants) => planter.wrong_of_many(kind, &cpus, plants),
            None => planter.wrong_in_each_try(kind, &cpus[0]),
        });
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The weaker statement, and never a wrong cause.
#[test]
fn with_switches_and_wake_ups_alone_nothing_is_named_that_is_not_recorded() {
    let Some(planter) = Planter::new() else { return };
    let cpu = last_cpu();
    for name in ["own", "call", "preempted", "woken_behind", "lock", "pipe", "signal", "faults", "stopped"] {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        let expected = match kind.cause {
            "own" | "syscall" | "signal_handler" | "page_fault" => "own_or_unrecorded",
            recorded => recorded,
        };
        let events = "sched_switch,sched_waking,sched_wakeup";
        for (interval, _) in planter.record_undisturbed(name, &cpu, events, 3).unwrap_or_default() {
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

/// Interrupts, softirqs, faults and handlers that are not recorded are not reported as own code; the headline names the
/// groups to add.
#[test]
fn without_their_events_interrupts_and_faults_are_not_called_own_code() {
    let Some(planter) = Planter::new() else { return };
    let cpu = last_cpu();
    for (name, missing) in
        [("interrupts", "vectors"), ("packets", "softirqs"), ("faults", "faults"), ("signal", "signals")]
    {
        for (interval, _) in planter.record(name, &cpu, "sched,raw_syscalls", 3).unwrap_or_default() {
            let cause = &main_part(&interval)["cause"];
            assert_ne!(cause["kind"], "own", "{name}: {interval}");
            // Another program, or a hypervisor, may have the CPU for longer than the disturbance.
            if cause["kind"] == "waiting" || is_stolen_from(&interval) {
                continue;
            }
            assert_eq!(cause["kind"], "own_or_unrecorded", "{name}: {interval}");
            let kinds = cause["missing"].as_array().unwrap();
            assert!(kinds.iter().any(|kind| kind == missing), "{name}: {interval}");
        }
    }
}
