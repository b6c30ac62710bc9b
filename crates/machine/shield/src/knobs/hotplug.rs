//! Takes CPUs down and up again, which clears them of other programs' timers.

use super::cpuset::{keep_affinities, others};
use crate::machine::Cpusets;
use crate::{Change, Error, Knob, KnobPlan, KnobUse, Machine, Place, ShieldRequest};

pub(crate) const HOTPLUG: Knob = Knob {
    used: KnobUse::Hotplug,
    ..Knob::basic(
        "hotplug",
        "timers and deferred work of others leave the CPUs when these go down and come up again",
        plan,
    )
};

fn plan(machine: &Machine, request: &ShieldRequest) -> Result<KnobPlan, Error> {
    let mut plan = KnobPlan::default();
    keep_affinities(machine, &mut plan);
    for directory in machine.entries("proc/irq") {
        plan.keep("interrupt", Place::List(directory.join("smp_affinity_list")));
    }
    if let Cpusets::V1(mount) = &machine.cpusets {
        // Sets of version 1 lose an offline CPU for good. Children are journalled first, so that their parents, which
        // must contain the children's CPUs, are restored before them.
        for (directory, _) in others(mount) {
            let what = format!("CPUs of the control group {}", directory.display());
            plan.keep(what, Place::List(directory.join("cpuset.cpus")));
        }
    }
    for cpu in request.cpus.as_slice() {
        let online = machine.file(format!("sys/devices/system/cpu/cpu{cpu}/online"));
        if !online.exists() {
            plan.stays.push(format!("CPU {cpu}: this kernel can't take it down"));
            continue;
        }
        for (what, from, to) in [("down", "1", "0"), ("up", "0", "1")] {
            let place = Place::Text(online.clone());
            plan.changes.push(Change {
                what: format!("CPU {cpu} {what}"),
                place,
                from: from.into(),
                to: Some(to.into()),
            });
        }
    }
    Ok(plan)
}
