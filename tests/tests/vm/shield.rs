//! A shield for CPU 1 of two is raised, disturbed, lowered, and dies while it is raised or lowered.

use crate::{Storm, number, results_of, text};
use serde_json::Value;
use sordino_proc::stat::Stat;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Returns the additional parameters of the kernel's command line.
fn parameters() -> String {
    std::env::var("VM_PARAMETERS").expect("VM_PARAMETERS: run it with make test-vm")
}

/// Result of one call of `sordino shield`.
struct CommandAnswer {
    status: i32,
    value: Value,
    errors: String,
}

fn file(name: &str) -> PathBuf {
    results_of("shield").join(name)
}

fn answer_of(name: &str) -> CommandAnswer {
    let output = text(&file(&format!("{name}.json")));
    CommandAnswer {
        status: number(&file(&format!("{name}.status"))),
        value: serde_json::from_str(&output).unwrap_or(Value::Null),
        errors: text(&file(&format!("{name}.errors"))),
    }
}

/// One that answered, with this exit status.
fn answer(name: &str, status: i32) -> Value {
    let answer_of = answer_of(name);
    assert_eq!((answer_of.status, answer_of.errors.as_str()), (status, ""), "{name}: {}", answer_of.value);
    assert_eq!(answer_of.value["schema"], 1, "{name}");
    answer_of.value
}

/// Lines of each file that a shield may change.
#[derive(Debug, PartialEq)]
struct Snapshot(BTreeMap<String, String>);

impl Snapshot {
    fn of(name: &str) -> Self {
        let mut files = BTreeMap::<String, String>::new();
        for line in text(&file(name)).lines() {
            let (file, line) = line.split_once(':').unwrap_or_else(|| panic!("{name}: {line}"));
            *files.entry(file.to_owned()).or_default() += &format!("{line}\n");
        }
        let snapshot = Self(files);
        assert!(snapshot.threads().count() > 20 && snapshot.interrupts().count() > 10, "{name} is not whole");
        snapshot
    }

    fn get(&self, file: &str) -> Option<&str> {
        self.0.get(file).map(|text| text.trim_end())
    }

    fn interrupts(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.0.iter().map(|(file, text)| (file.as_str(), text.trim_end()));
        entries.filter(|(file, _)| file.ends_with("/smp_affinity_list"))
    }

    fn threads(&self) -> impl Iterator<Item = SnapshotThread<'_>> {
        self.0.keys().filter_map(|file| {
            let directory = file.strip_suffix("/stat").filter(|directory| directory.starts_with("/proc/"))?;
            self.thread(directory)
        })
    }

    fn thread(&self, directory: &str) -> Option<SnapshotThread<'_>> {
        let text = self.get(&format!("{directory}/stat"))?;
        let (tid, _) = text.split_once(' ')?;
        let stat = Stat::parse(text)?;
        let allowed = self.get(&format!("{directory}/status"))?;
        Some(SnapshotThread {
            tid,
            name: stat.comm,
            // PF_NO_SETAFFINITY in include/linux/sched.h.
            is_bound: stat.flags()? & 0x0400_0000 != 0,
            allowed: allowed.strip_prefix("Cpus_allowed_list:")?.trim(),
            group: self.get(&format!("{directory}/cgroup"))?.strip_prefix("0::")?,
        })
    }

    /// Returns the first thread of the process whose id the scenario has written to `name`.
    fn process(&self, name: &str) -> SnapshotThread<'_> {
        let pid: u32 = number(&file(name));
        self.thread(&format!("/proc/{pid}/task/{pid}")).unwrap_or_else(|| panic!("{name} has ended"))
    }

    /// Returns the changes since `before`, except threads that are new or have ended, and those that follow their
    /// interrupts.
    fn changes(&self, before: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let files: BTreeSet<&String> = self.0.keys().chain(before.0.keys()).collect();
        for file in files {
            let (old, new) = (before.get(file), self.get(file));
            let is_of_thread = file.contains("/task/");
            let came_or_went = is_of_thread && (old.is_none() || new.is_none());
            let thread = file.rsplit_once('/').and_then(|(directory, _)| self.thread(directory));
            let name = thread.as_ref().map_or("", |thread| thread.name);
            // It includes the work of threads, too.
            let is_its_own = file.ends_with("/stat") || name.starts_with("irq/");
            // 6.1 gives all CPUs of a partition that goes to the kernel's workers as well, which nohz_full had kept on
            // others, and to rescuers of work queues, which stay on the CPU where they helped last; nobody may set them
            // back.
            let may_be_elsewhere =
                |thread: &SnapshotThread| !parameters().is_empty() || !thread.name.contains('/');
            let is_kernels = thread.is_some_and(|thread| {
                thread.is_bound && thread.allowed == "0-1" && may_be_elsewhere(&thread)
            });
            if old != new && !came_or_went && !is_its_own && !is_kernels {
                changes.push(format!("{file} {name}: {old:?} before, {new:?} now"));
            }
        }
        changes
    }
}

/// Returns a thread of the snapshot.
struct SnapshotThread<'a> {
    tid: &'a str,
    name: &'a str,
    is_bound: bool,
    /// Returns the CPUs on which the thread may run.
    allowed: &'a str,
    group: &'a str,
}

/// Asserts that everything is as before the first shield.
fn assert_as_before(name: &str) {
    assert_eq!(Snapshot::of(name).changes(&Snapshot::of("before")), [""; 0], "{name}");
}

fn lines(name: &str) -> Vec<String> {
    text(&file(name)).lines().map(str::to_owned).collect()
}

fn list<'a>(value: &'a Value, what: &str) -> &'a [Value] {
    value[what].as_array().unwrap_or_else(|| panic!("no list '{what}' in {value}"))
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn a_plan_changes_nothing_and_says_what_the_command_line_has_in_force() {
    let command_line = text(&file("command-line"));
    let parameters = parameters();
    assert!(command_line.contains(&parameters), "{command_line}");
    let plan = answer("plan", 0);
    let boot: Vec<_> =
        list(&plan, "boot").iter().map(|entry| (entry["text"].as_str(), &entry["state"])).collect();
    let state = Value::from(if parameters.is_empty() { "absent" } else { "in_force" });
    let texts = ["nohz_full=1", "rcu_nocbs=1", "isolcpus=managed_irq,1", "irqaffinity=0"];
    assert_eq!(boot, texts.map(|text| (Some(text), &state)));
    assert_eq!(plan["rest"], "0");
    assert_as_before("planned");
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn a_raised_shield_is_an_isolated_partition_and_holds() {
    let up = answer("up", 0);
    for change in list(&up, "changes") {
        let outcome = &change["outcome"];
        let is_fine =
            ["held", "kept", "gone"].iter().any(|fine| outcome == fine) || outcome["refused"].is_string();
        assert!(is_fine, "{change}");
    }
    for measured in ["before", "after"] {
        assert_eq!(up[measured]["cpus"][0]["cpu"], 1, "{measured}: {up}");
    }
    let status = answer("status", 0);
    assert_eq!(status["drift"], Value::Array(Vec::new()));
    assert_eq!((&status["shield"], &status["interrupted"]), (&up["shield"], &Value::Null));
    assert_eq!(text(&file("partition")), "isolated\n");
    if file("isolated").exists() {
        assert_eq!(text(&file("isolated")), "1\n");
    }
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn what_may_leave_the_shielded_cpu_has_left_it_and_what_stays_is_named() {
    let (before, raised) = (Snapshot::of("before"), Snapshot::of("raised"));
    assert!(
        before.threads().any(|thread| !thread.is_bound && thread.allowed == "1"),
        "nobody had chosen CPU 1"
    );
    let up = answer_of("up").value;
    let refused: Vec<&str> = list(&up, "changes")
        .iter()
        .filter(|change| change["outcome"]["refused"].is_string())
        .map(|change| change["place"].as_str().unwrap())
        .collect();
    let status = answer_of("status").value;
    let stays: Vec<&str> = [&up, &status]
        .iter()
        .flat_map(|answer_of| list(answer_of, "stays"))
        .map(|text| text.as_str().unwrap())
        .collect();
    for (file, cpus) in raised.interrupts() {
        assert!(cpus == "0" || refused.contains(&file), "{file}: {cpus}");
    }
    for thread in raised.threads() {
        let is_named = || stays.iter().any(|text| text.contains(&format!("({}) is bound", thread.tid)));
        assert!(
            thread.allowed == "0" || (thread.is_bound && is_named()),
            "{}: {}",
            thread.name,
            thread.allowed
        );
    }
    for (file, value) in [
        ("/proc/irq/default_smp_affinity", "1"),
        ("/sys/devices/virtual/workqueue/cpumask", "1"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "-1"),
        ("/proc/sys/kernel/timer_migration", "0"),
        ("/proc/sys/kernel/watchdog_cpumask", "0"),
        ("/proc/sys/vm/stat_interval", "120"),
        ("/sys/kernel/rcu_normal", "1"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
    ] {
        assert!(raised.get(file).is_none_or(|now| now == value), "{file}: {:?}", raised.get(file));
        assert!(raised.get(file).is_some() || before.get(file).is_none(), "{file} is gone");
    }
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn only_what_is_run_in_the_shield_runs_on_its_cpu() {
    assert!(lines("spinning.before").contains(&"1".to_owned()), "programs did not want both CPUs");
    assert!(lines("spinning.raised").iter().all(|cpu| cpu == "0"));
    assert!(lines("shielded").iter().all(|cpu| cpu == "1"));
    assert_eq!(text(&file("policy")), "50 1\n", "priority, and the number of SCHED_FIFO");
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn a_second_shield_is_refused() {
    let again = answer_of("again");
    assert_eq!((again.status, &again.value), (2, &Value::Null));
    assert!(again.errors.contains("a shield is up, on CPU 1"), "{}", again.errors);
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn what_somebody_else_changes_is_named_until_it_is_as_it_was() {
    let places = |name: &str, status| -> Vec<String> {
        let drift = answer(name, status);
        let place = |drift: &Value| drift["place"].as_str().unwrap().to_owned();
        list(&drift, "drift").iter().map(place).collect()
    };
    assert_eq!(places("drift-interrupt", 1), ["/proc/irq/1/smp_affinity_list"]);
    assert_eq!(places("repaired", 0), [""; 0]);
    let partition = "/sys/fs/cgroup/sordino.shield/cpuset.cpus.partition".to_owned();
    assert!(places("drift-partition", 1).contains(&partition));
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn a_lowered_shield_leaves_nothing() {
    let down = answer("down", 0);
    assert_eq!(down["failures"], Value::Array(Vec::new()));
    assert_eq!(down["remaining"], Value::Array(Vec::new()));
    assert_eq!(down["threads"], 1);
    assert_as_before("lowered");
    let lowered = Snapshot::of("lowered");
    for name in ["inside", "outside"] {
        let process = lowered.process(name);
        assert_eq!((process.group, process.allowed), ("/", "0-1"), "what ran {name} the shield");
    }
    assert_eq!(answer("no-status", 1)["shield"], Value::Null);
    let no_down = answer_of("no-down");
    assert_eq!(no_down.status, 2);
    assert!(no_down.errors.contains("no shield is up"), "{}", no_down.errors);
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn the_next_call_undoes_what_a_dead_one_left() {
    let before = Snapshot::of("before");
    let mut undone = 0;
    for kill in ["killed-1", "killed-2", "killed-down"] {
        let status = answer(kill, i32::from(answer_of(kill).value["shield"].is_null()));
        let is_left = status["unfinished"] == "left";
        // It was killed when all was done, in the middle, or when nothing was done yet.
        assert!(is_left || status["unfinished"].is_null(), "{kill}: {status}");
        let is_lowered = file(&format!("{kill}.down.status")).exists();
        assert_eq!(is_lowered, is_left || status["shield"].is_object(), "{kill}: {status}");
        if is_lowered {
            let lowered = answer(&format!("{kill}.down"), 0);
            for what in ["failures", "remaining"] {
                assert_eq!(lowered[what], Value::Array(Vec::new()), "{kill}");
            }
        }
        undone += i32::from(is_left);
        assert_as_before(&format!("{kill}.settled"));
    }
    assert!(undone > 0, "{undone} of 3 were killed in the middle");
    let left = |kill| !Snapshot::of(&format!("killed-{kill}.dead")).changes(&before).is_empty();
    assert!((1..=2).any(left), "no kill left anything");
}

#[test]
#[ignore = "reads what a virtual machine left: make test-vm"]
fn a_shielded_program_is_recorded_from_the_other_cpu() {
    let storm = Storm::of(&file("recording"));
    storm.verify();
    assert!(lines("collector").iter().all(|cpu| cpu == "0"), "where the collector ran");
    assert!(storm.recording.user_events() > 0);
    let kernel = storm.kernel();
    for cpu in [0, 1] {
        let switches = kernel.iter().filter(|event| event.name == "sched_switch" && event.cpu == Some(cpu));
        assert!(switches.count() > 0, "no switch on CPU {cpu}");
    }
    let events = storm.recording.events();
    assert!(events.iter().all(|event| event.cpu == Some(1)));
}
