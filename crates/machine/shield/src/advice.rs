//! Notes for the user on conditions that a shield does not change.

use crate::{Cpusets, Machine, RunningThread, ShieldRequest};
use sordino_sched::CpuList;
use std::fs;

/// Facts that a shield does not change and that its user should know.
#[derive(Clone, Debug)]
pub struct Advice {
    /// Services that would undo the shield, CPUs that share a core with others, settings that can't be reached.
    pub notes: Vec<String>,
    /// Lines about the threads of RCU.
    pub rcu_threads: Vec<String>,
}

impl Advice {
    /// Collects the facts about this machine.
    pub fn of(machine: &Machine, request: &ShieldRequest) -> Self {
        let unseen = unseen(machine).into_iter().collect();
        let notes = [unseen, rivals(machine, request), siblings(machine, request)].concat();
        Self { notes, rcu_threads: rcu_threads(machine, request) }
    }
}

/// Returns notes on programs that would undo the shield's settings, and on threads that are hidden from it.
pub fn rivals(machine: &Machine, request: &ShieldRequest) -> Vec<String> {
    let runs = |name: &str| machine.tasks.iter().any(|task| task.name == name);
    let cpus = &request.cpus;
    let mut rivals = Vec::new();
    if runs("irqbalance") {
        rivals.push(format!(
            "irqbalance runs, and will move interrupts to CPU {cpus} again: stop it (systemctl stop irqbalance), or keep it off with \
             IRQBALANCE_BANNED_CPULIST={cpus} in /etc/default/irqbalance and restart it"
        ));
    }
    if runs("tuned") {
        rivals.push("tuned runs, and sets much of this itself: switch it off (tuned-adm off)".to_owned());
    }
    if runs("systemd") && matches!(machine.cpusets, Cpusets::V2(_)) {
        let rest = request.rest(machine);
        rivals.push(format!(
            "systemd runs, and may take the controller cpuset from the root group when units come and go, which ends the shield \
             (sordino shield status sees it): have one unit use it (systemctl set-property --runtime system.slice AllowedCPUs={rest})"
        ));
    }
    if !machine.tasks.iter().any(|task| task.of_kernel) {
        rivals.push("the kernel's threads are not to be seen, as in a container: they, and what runs outside, stay where they are".to_owned());
    }
    rivals
}

/// Returns a note if sysfs is missing, with the consequence.
pub fn unseen(machine: &Machine) -> Option<String> {
    let sysfs = machine.file("sys/devices/system/cpu");
    let note = || {
        let path = sysfs.display();
        format!(
            "{path} is not there: control groups, work queues and power stay as they are; mount -t sysfs sysfs /sys"
        )
    };
    (!sysfs.exists()).then(note)
}

/// Returns a note for each shielded CPU that shares its core with one that is not shielded.
pub fn siblings(machine: &Machine, request: &ShieldRequest) -> Vec<String> {
    let mut notes = Vec::new();
    for &cpu in request.cpus.as_slice() {
        let file = machine.file(format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        let others = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<CpuList>().ok());
        let outside = others.unwrap_or_default().without(&request.cpus);
        if !outside.is_empty() {
            notes.push(format!(
                "CPU {cpu} shares its core with CPU {outside}: what runs there slows it down; shield that, too, or take it offline"
            ));
        }
    }
    notes
}

/// Returns the kernel's RCU threads for these CPUs, with their affinities and priorities.
pub fn rcu_threads(machine: &Machine, request: &ShieldRequest) -> Vec<String> {
    let cpu_of = |name: &str| name.rsplit_once('/').and_then(|(_, cpu)| cpu.parse::<u32>().ok());
    let is_rcus = |name: &str| {
        ["rcuc/", "rcub/", "rcuog/", "rcuop/", "rcuos/", "rcuob/"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    let concerns = |task: &&RunningThread| {
        // The numbers of these two kinds are nodes and the first CPUs of groups, not single CPUs.
        is_rcus(&task.name)
            && (["rcub/", "rcuog/"].iter().any(|prefix| task.name.starts_with(prefix))
                || cpu_of(&task.name).is_some_and(|cpu| request.cpus.contains(cpu)))
    };
    let tasks = machine.tasks.iter().filter(concerns);
    tasks.map(|task| format!("{} {} on CPU {}", task.label(), task.policy, task.affinity)).collect()
}
