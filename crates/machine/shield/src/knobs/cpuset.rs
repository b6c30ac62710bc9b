//! Control groups whose threads the kernel restricts to CPUs.

use crate::machine::{Cpusets, KTHREADD, SHIELD, SYSTEM};
use crate::{Error, Knob, KnobPlan, Machine, Place, ShieldRequest};
use sordino_sched::CpuList;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const CPUSET: Knob = Knob {
    essential: true,
    ..Knob::basic("cpuset", "threads run elsewhere, and the scheduler balances nothing onto the CPUs", plan)
};

fn plan(machine: &Machine, request: &ShieldRequest) -> Result<KnobPlan, Error> {
    match &machine.cpusets {
        Cpusets::V2(mount) => Ok(partition(machine, request, mount)),
        Cpusets::V1(mount) => sets(machine, request, mount),
        Cpusets::None => {
            let missing = "no control groups with cpusets (version 1, or version 2 since Linux 6.1; mount -t cgroup2 none \
                           /sys/fs/cgroup): threads are confined by their affinities alone, which each may widen, and the \
                           scheduler still balances";
            Ok(KnobPlan { missing: vec![missing.to_owned()], ..KnobPlan::default() })
        }
    }
}

/// Creates an isolated partition: `Documentation/admin-guide/cgroup-v2.rst`, "Cpuset Interface Files". All other groups
/// lose its CPUs thereby.
fn partition(machine: &Machine, request: &ShieldRequest, mount: &Path) -> KnobPlan {
    let mut plan = KnobPlan::default();
    keep_affinities(machine, &mut plan);
    let directory = mount.join(SHIELD);
    plan.set(
        "controller cpuset in the root group",
        Place::Controller { group: mount.into(), name: "cpuset" },
        "+",
    );
    plan.set(
        "control group of the shield",
        Place::Group { directory: directory.clone(), heir: mount.into() },
        "there",
    );
    plan.set_later("its CPUs", Place::List(directory.join("cpuset.cpus")), request.cpus.to_string());
    plan.set_later("isolated partition", Place::Text(directory.join("cpuset.cpus.partition")), "isolated");
    plan
}

/// Creates two disjoint sets, and disables load balancing between them:
/// `Documentation/admin-guide/cgroup-v1/cpusets.rst`.
fn sets(machine: &Machine, request: &ShieldRequest, mount: &Path) -> Result<KnobPlan, Error> {
    let mut plan = KnobPlan::default();
    keep_affinities(machine, &mut plan);
    for (directory, cpus) in others(mount) {
        let rest = cpus.without(&request.cpus);
        if rest.is_empty() {
            return Err(Error::GroupNeeds { group: directory, cpus });
        }
        let what = format!("CPUs of the control group {}", directory.display());
        plan.set(what, Place::List(directory.join("cpuset.cpus")), rest.to_string());
    }
    let memory = fs::read_to_string(mount.join("cpuset.mems")).unwrap_or_default().trim().to_owned();
    group(&mut plan, mount, SYSTEM, &request.rest(machine), &memory);
    for task in machine.tasks.iter().filter(|task| may_move(task)) {
        let place = Place::Member { thread: task.thread, mount: mount.into() };
        plan.set(format!("thread {}", task.label()), place, format!("/{SYSTEM}"));
    }
    plan.set("load balancing over all CPUs", Place::Text(mount.join("cpuset.sched_load_balance")), "0");
    let shield = group(&mut plan, mount, SHIELD, &request.cpus, &memory);
    plan.set_later(
        "load balancing of the shield",
        Place::Text(shield.join("cpuset.sched_load_balance")),
        "0",
    );
    plan.set_later(
        "the shield's CPUs are in no other group",
        Place::Text(shield.join("cpuset.cpu_exclusive")),
        "1",
    );
    Ok(plan)
}

/// Creates a set of version 1, which accepts threads only when it has both CPUs and memory.
fn group(plan: &mut KnobPlan, mount: &Path, name: &str, cpus: &CpuList, memory: &str) -> PathBuf {
    let directory = mount.join(name);
    plan.set(
        format!("control group {name}"),
        Place::Group { directory: directory.clone(), heir: mount.into() },
        "there",
    );
    plan.set_later(format!("CPUs of {name}"), Place::List(directory.join("cpuset.cpus")), cpus.to_string());
    plan.set_later(format!("memory nodes of {name}"), Place::Text(directory.join("cpuset.mems")), memory);
    directory
}

/// Returns true for threads of the root set, except for those that the kernel keeps there.
pub(crate) fn may_move(task: &crate::RunningThread) -> bool {
    task.group == "/" && !task.bound && task.thread.tid != KTHREADD
}

/// Journals affinities: before Linux 6.2, the kernel resets a thread's affinity when its set changes, or its set's
/// CPUs.
pub(crate) fn keep_affinities(machine: &Machine, plan: &mut KnobPlan) {
    for task in machine
        .tasks
        .iter()
        .filter(|task| !task.bound && task.affinity != machine.online && !task.is_shielded())
    {
        plan.keep(format!("affinity of {}", task.label()), Place::Affinity(task.thread));
    }
}

/// Returns other programs' sets, children before their parents, because a parent must contain its children's CPUs.
pub(crate) fn others(mount: &Path) -> Vec<(PathBuf, CpuList)> {
    let mut found = Vec::new();
    let entries = fs::read_dir(mount).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut directories: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    directories.sort();
    for directory in directories {
        if [SHIELD, SYSTEM].iter().any(|own| directory.ends_with(own)) {
            continue;
        }
        found.extend(others(&directory));
        let cpus =
            fs::read_to_string(directory.join("cpuset.cpus")).ok().and_then(|text| text.trim().parse().ok());
        // A set without CPUs has no threads either.
        found.extend(cpus.map(|cpus| (directory, cpus)));
    }
    found
}
