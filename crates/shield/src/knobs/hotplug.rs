//! A CPU that goes down and comes up again has no timers of others left.

use super::cpuset::keep_affinities;
use crate::machine::Cpusets;
use crate::{Change, Error, Knob, Level, Machine, Place, Request, Wants};

pub(crate) const HOTPLUG: Knob = Knob {
    name: "hotplug",
    why: "timers and deferred work of others leave the CPUs when these go down and come up again",
    level: Level::Basic,
    essential: false,
    wants,
};

fn wants(machine: &Machine, request: &Request) -> Result<Wants, Error> {
    let mut wants = Wants::default();
    if !request.hotplug {
        return Ok(wants);
    }
    keep_affinities(machine, &mut wants);
    for directory in machine.entries("proc/irq") {
        wants.keep("interrupt", Place::List(directory.join("smp_affinity_list")));
    }
    if let Cpusets::V1(mount) = &machine.cpusets {
        keep_sets(mount, &mut wants);
    }
    for cpu in request.cpus.as_slice() {
        let online = machine.file(format!("sys/devices/system/cpu/cpu{cpu}/online"));
        if !online.exists() {
            wants.stays.push(format!("CPU {cpu}: this kernel can't take it down"));
            continue;
        }
        for (what, from, to) in [("down", "1", "0"), ("up", "0", "1")] {
            let place = Place::Text(online.clone());
            wants.changes.push(Change {
                what: format!("CPU {cpu} {what}"),
                place,
                from: from.into(),
                to: Some(to.into()),
            });
        }
    }
    Ok(wants)
}

/// Sets of version 1 lose a CPU that goes down for good.
fn keep_sets(directory: &std::path::Path, wants: &mut Wants) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    for child in entries.filter(|path| path.is_dir()) {
        // Given back later than it: the last step is undone first.
        wants.keep(
            format!("CPUs of the control group {}", child.display()),
            Place::List(child.join("cpuset.cpus")),
        );
        keep_sets(&child, wants);
    }
}
