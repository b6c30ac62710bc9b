//! Tests of the knobs with trees of files that other kernels have.

use sordino_sched::{CpuList, Policy, ThreadIdentity};
use sordino_shield::{
    Cpusets, Error, KNOBS, KnobPlan, Machine, RunningThread, ShieldLevel, ShieldRequest, advice, plan,
};
use std::fs;
use std::path::Path;

/// A machine with CPUs 0 to 3 and these files.
fn machine(root: &Path, files: &[(&str, &str)]) -> Machine {
    for (file, text) in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Machine { root: root.into(), online: CpuList::new(0..4), cpusets: Cpusets::None, tasks: Vec::new() }
}

fn task(tid: i32, name: &str, cpus: &str, bound: bool) -> RunningThread {
    RunningThread {
        thread: ThreadIdentity { tid, started: 1 },
        name: name.to_owned(),
        affinity: cpus.parse().unwrap(),
        group: "/".to_owned(),
        policy: Policy::Other,
        of_kernel: bound,
        bound,
    }
}

fn request(cpus: &str) -> ShieldRequest {
    ShieldRequest { cpus: cpus.parse().unwrap(), level: ShieldLevel::Full, hotplug: false }
}

/// Returns one knob's changes as `what: from -> to`.
fn plan_of(machine: &Machine, request: &ShieldRequest, knob: &str) -> KnobPlan {
    let knob = KNOBS.iter().find(|each| each.name == knob).unwrap();
    knob.plan(machine, request).unwrap()
}

fn changes(plan: &KnobPlan) -> Vec<String> {
    let text = |to: &Option<String>| to.clone().unwrap_or_else(|| "the same".to_owned());
    plan.changes
        .iter()
        .map(|change| format!("{}: {} -> {}", change.what, change.from, text(&change.to)))
        .collect()
}

#[test]
fn interrupts_leave_the_shielded_cpus_and_those_of_them_alone_go_to_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let machine = machine(
        directory.path(),
        &[
            ("proc/irq/default_smp_affinity", "f\n"),
            ("proc/irq/9/smp_affinity_list", "0-3\n"),
            ("proc/irq/9/acpi/x", ""),
            ("proc/irq/24/smp_affinity_list", "3\n"),
            ("proc/irq/25/smp_affinity_list", "0\n"),
            ("proc/irq/25/effective_affinity_list", "2\n"),
        ],
    );
    let plan = plan_of(&machine, &request("2-3"), "interrupts");
    assert_eq!(
        changes(&plan),
        [
            "CPUs of new interrupts: 0-3 -> 0-1",
            "CPUs of interrupt 24: 3 -> 0-1",
            "CPUs of interrupt 9 acpi: 0-3 -> 0-1"
        ]
    );
    assert!(plan.stays.contains(&"interrupt 25 comes to CPU 2 once more, and moves then".to_owned()));
}

#[test]
fn threads_leave_unless_the_kernel_has_bound_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut machine = machine(directory.path(), &[]);
    machine.tasks = vec![
        task(7, "ksoftirqd/3", "3", true),
        task(8, "kworker/u8:1", "0-3", true),
        task(9, "kworker/R-x", "0-3", true),
        task(10, "elsewhere", "0", false),
    ];
    let plan = plan_of(&machine, &request("2-3"), "threads");
    assert_eq!(changes(&plan), [""; 0]);
    let stays = [
        "ksoftirqd/3 (7) is bound to CPU 3 by the kernel",
        "kworker/R-x (9) is bound to CPU 0-3 by the kernel",
    ];
    assert_eq!(plan.stays, stays);
}

#[test]
fn what_a_kernel_lacks_is_not_here_and_what_it_has_is_set() {
    let directory = tempfile::tempdir().unwrap();
    let files = [
        ("sys/devices/virtual/workqueue/cpumask", "f\n"),
        ("sys/devices/virtual/workqueue/writeback/cpumask", "3\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0000000c\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
        ("sys/kernel/debug/sched/fair_server/cpu3/runtime", "50000000\n"),
    ];
    let machine = machine(directory.path(), &files);
    let of = |knob| changes(&plan_of(&machine, &request("3"), knob));
    assert_eq!(of("workqueues"), ["CPUs of work queue workqueue: 0-3 -> 0-2"]);
    assert_eq!(of("network"), ["CPUs for packets from eth0: 2-3 -> 2"]);
    assert_eq!(of("throttling"), ["microseconds of each period (-1: no limit): 950000 -> -1"]);
    assert_eq!(of("memory"), ["huge pages made behind the program's back: madvise -> never"]);
    assert_eq!(
        of("frequency"),
        ["governor of CPU 3: powersave -> performance", "turbo switched off: 0 -> 1"]
    );
    assert_eq!(of("fair-server").len(), 1);
    for knob in ["rcu", "timers", "statistics", "watchdogs", "idle", "cpuset"] {
        let plan = plan_of(&machine, &request("3"), knob);
        assert!(plan.changes.is_empty() && plan.missing.len() == 1, "{knob}: {plan:?}");
    }
    let planned = plan(&machine, &request("3")).unwrap();
    assert!(planned.iter().all(|planned| planned.left_out == (planned.knob.name == "hotplug")));
}

#[test]
fn sets_of_others_lose_the_cpus_and_one_with_no_others_is_in_the_way() {
    let directory = tempfile::tempdir().unwrap();
    let mount = directory.path().join("cpuset");
    let mut machine = machine(
        directory.path(),
        &[
            ("cpuset/cpuset.mems", "0\n"),
            ("cpuset/cpuset.sched_load_balance", "1\n"),
            ("cpuset/docker/cpuset.cpus", "0-3\n"),
            ("cpuset/docker/a/cpuset.cpus", "2-3\n"),
            ("cpuset/empty/cpuset.cpus", "\n"),
        ],
    );
    machine.cpusets = Cpusets::V1(mount.clone());
    let changed = changes(&plan_of(&machine, &request("3"), "cpuset"));
    let narrowed: Vec<&str> =
        changed.iter().filter_map(|change| change.strip_prefix("CPUs of the control group ")).collect();
    // Children come first: a parent must contain its children's CPUs.
    let mount = mount.display();
    assert_eq!(narrowed, [format!("{mount}/docker/a: 2-3 -> 2"), format!("{mount}/docker: 0-3 -> 0-2")]);
    let error = plan(&machine, &request("2-3")).unwrap_err();
    assert!(matches!(&error, Error::GroupNeeds { group, .. } if group.ends_with("docker/a")), "{error}");
}

#[test]
fn sets_of_others_get_a_cpu_that_went_down_back_parents_first() {
    let directory = tempfile::tempdir().unwrap();
    let files = [
        ("cpuset/docker/cpuset.cpus", "0-3\n"),
        ("cpuset/docker/a/cpuset.cpus", "2-3\n"),
        ("sys/devices/system/cpu/cpu3/online", "1\n"),
    ];
    let mut machine = machine(directory.path(), &files);
    machine.cpusets = Cpusets::V1(directory.path().join("cpuset"));
    let plan = plan_of(&machine, &ShieldRequest { hotplug: true, ..request("3") }, "hotplug");
    let docker = format!("CPUs of the control group {}/cpuset/docker", directory.path().display());
    // The first journalled value is restored last.
    assert_eq!(
        changes(&plan),
        [
            format!("{docker}/a: 2-3 -> the same"),
            format!("{docker}: 0-3 -> the same"),
            "CPU 3 down: 1 -> 0".to_owned(),
            "CPU 3 up: 0 -> 1".to_owned(),
        ]
    );
}

#[test]
fn a_partition_is_made_in_the_order_that_the_kernel_requires() {
    let directory = tempfile::tempdir().unwrap();
    let mut machine = machine(directory.path(), &[("cgroup/cgroup.subtree_control", "cpu memory\n")]);
    machine.cpusets = Cpusets::V2(directory.path().join("cgroup"));
    machine.tasks = vec![task(9, "narrow", "1-2", false)];
    assert_eq!(
        changes(&plan_of(&machine, &request("2-3"), "cpuset"))[..],
        [
            "controller cpuset in the root group: - -> +",
            "control group of the shield: none -> there",
            "its CPUs: none -> 2-3",
            "isolated partition: none -> isolated",
        ]
    );
}

#[test]
fn who_would_undo_it_is_named_with_the_remedy_and_so_is_half_a_core() {
    let directory = tempfile::tempdir().unwrap();
    let siblings = ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3\n");
    let mut machine = machine(directory.path(), &[siblings]);
    machine.tasks = vec![
        task(50, "irqbalance", "0-3", false),
        task(51, "rcuop/3", "0-3", true),
        task(52, "rcuop/1", "0-3", true),
    ];
    let rivals = advice::rivals(&machine, &request("3"));
    assert!(rivals.len() == 1 && rivals[0].contains("IRQBALANCE_BANNED_CPULIST=3"), "{rivals:?}");
    assert!(advice::siblings(&machine, &request("3"))[0].contains("CPU 3 shares its core with CPU 1"));
    assert!(advice::siblings(&machine, &request("1,3")).is_empty());
    assert_eq!(advice::rcu_threads(&machine, &request("3")), ["rcuop/3 (51) SCHED_OTHER on CPU 0-3"]);
}

#[test]
fn cpus_that_are_not_there_or_all_of_them_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let machine = machine(directory.path(), &[]);
    assert!(matches!(plan(&machine, &request("3-4")), Err(Error::NotOnline { .. })));
    assert!(matches!(plan(&machine, &request("0-3")), Err(Error::NothingLeft { .. })));
}
