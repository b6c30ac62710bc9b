//! Threads that no control group has moved: restricts their affinities.

use super::cpuset::may_move;
use crate::machine::{Cpusets, RunningThread};
use crate::{Error, Knob, KnobPlan, Machine, Place, ShieldRequest};

pub(crate) const THREADS: Knob =
    Knob::basic("threads", "threads that no control group has taken away run elsewhere, too", plan);

fn plan(machine: &Machine, request: &ShieldRequest) -> Result<KnobPlan, Error> {
    let mut plan = KnobPlan::default();
    // With version 1, threads of the root set have been moved by their group, and those of other sets follow their
    // sets.
    let taken = |task: &RunningThread| {
        matches!(machine.cpusets, Cpusets::V1(_)) && (may_move(task) || task.group != "/")
    };
    let there =
        machine.tasks.iter().filter(|task| task.affinity.overlaps(&request.cpus) && !task.is_shielded());
    let mut bound = Vec::new();
    for task in there {
        if task.is_unbound_worker() || taken(task) {
            continue;
        }
        if task.bound {
            bound.push(task);
            continue;
        }
        let cpus = request.leave(machine, &task.affinity);
        plan.set(format!("CPUs of thread {}", task.label()), Place::Affinity(task.thread), cpus.to_string());
    }
    // Threads that are bound to these CPUs alone come first: others may move away by themselves.
    bound.sort_by_key(|task| (!task.affinity.without(&request.cpus).is_empty(), task.thread.tid));
    let label =
        |task: &RunningThread| format!("{} is bound to CPU {} by the kernel", task.label(), task.affinity);
    plan.stays.extend(bound.into_iter().map(label));
    Ok(plan)
}
