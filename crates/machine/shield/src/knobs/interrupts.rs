//! Interrupts of devices: moves them to other CPUs.

use crate::{Error, Knob, KnobPlan, Machine, Place, ShieldRequest};
use sordino_sched::CpuList;
use std::fs;
use std::path::Path;

pub(crate) const INTERRUPTS: Knob =
    Knob::basic("interrupts", "devices interrupt other CPUs, now and when new ones come", plan);

fn plan(machine: &Machine, request: &ShieldRequest) -> Result<KnobPlan, Error> {
    let mut plan = KnobPlan::default();
    let others = |place: &Place| -> Option<String> {
        let cpus: CpuList = place.read().ok()?.parse().ok()?;
        cpus.overlaps(&request.cpus).then(|| request.leave(machine, &cpus).to_string())
    };
    let new = Place::Mask(machine.file("proc/irq/default_smp_affinity"));
    if let Some(cpus) = others(&new) {
        plan.set("CPUs of new interrupts", new, cpus);
    }
    for directory in machine.entries("proc/irq") {
        let place = Place::List(directory.join("smp_affinity_list"));
        let label = format!("interrupt {}", name(&directory));
        match others(&place) {
            Some(cpus) => plan.set(format!("CPUs of {label}"), place, cpus),
            None => {
                // Some interrupts can only be moved while they are handled.
                let delivered = Place::List(directory.join("effective_affinity_list"));
                if let Some(cpus) = others(&delivered).and_then(|_| delivered.read().ok()) {
                    plan.stays.push(format!("{label} comes to CPU {cpus} once more, and moves then"));
                }
            }
        }
    }
    plan.stays.push(format!("interrupts of the local timer; nohz_full={} makes them rare", request.cpus));
    plan.stays.push("interrupts from other CPUs (function calls, rescheduling, TLB shootdowns)".to_owned());
    Ok(plan)
}

/// Formats the interrupt's number and its devices: each has a directory there.
fn name(directory: &Path) -> String {
    let number = directory.file_name().unwrap_or_default().to_string_lossy();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut devices: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    devices.sort();
    format!("{number} {}", devices.join(",")).trim_end().to_owned()
}
