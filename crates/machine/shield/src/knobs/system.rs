//! Settings in single files of the kernel, most of which the whole machine shares.

use crate::{Error, Knob, KnobPlan, Machine, Place, ShieldRequest};
use std::path::PathBuf;

/// Masks of the work queues for work that is bound to no CPU.
pub(crate) const WORKQUEUES: Knob = Knob::basic(
    "workqueues",
    "the kernel does work that is bound to no CPU elsewhere",
    |machine, request| {
        let queues = "sys/devices/virtual/workqueue";
        let mut plan = KnobPlan::default();
        let mut files = vec![machine.file(queues).join("cpumask")];
        files.extend(
            machine
                .entries(queues)
                .into_iter()
                .map(|queue| queue.join("cpumask"))
                .filter(|file| file.exists()),
        );
        for file in files {
            let queue =
                file.parent().and_then(|queue| queue.file_name()).unwrap_or_default().to_string_lossy();
            without(
                machine,
                request,
                &mut plan,
                &format!("CPUs of work queue {queue}"),
                Place::Mask(file.clone()),
            );
        }
        Ok(plan)
    },
);

/// Masks for the processing of received packets on other CPUs: `Documentation/networking/scaling.rst`, RPS.
pub(crate) const NETWORK: Knob =
    Knob::basic("network", "received packets are handed to other CPUs", |machine, request| {
        let mut plan = KnobPlan::default();
        for device in machine.entries("sys/class/net") {
            for queue in machine.entries(device.join("queues")) {
                let file = queue.join("rps_cpus");
                if file.exists() {
                    let device = device.file_name().unwrap_or_default().to_string_lossy();
                    without(
                        machine,
                        request,
                        &mut plan,
                        &format!("CPUs for packets from {device}"),
                        Place::Mask(file),
                    );
                }
            }
        }
        Ok(plan)
    });

/// Removes the shield's CPUs from a set of CPUs.
fn without(machine: &Machine, request: &ShieldRequest, plan: &mut KnobPlan, what: &str, place: Place) {
    let cpus = place.read().unwrap_or_default().parse().unwrap_or_default();
    plan.set(what, place, request.leave(machine, &cpus).to_string());
}

/// A kernel file with its planned value: description, kind of place, path, value.
type FileSetting = (&'static str, fn(PathBuf) -> Place, &'static str, &'static str);

fn set(machine: &Machine, files: &[FileSetting]) -> Result<KnobPlan, Error> {
    let mut plan = KnobPlan::default();
    for (what, kind, path, value) in files {
        plan.set(*what, kind(machine.file(path)), *value);
    }
    Ok(plan)
}

pub(crate) const RCU: Knob = Knob::full("rcu", "waiting for readers interrupts nobody", |machine, _| {
    set(
        machine,
        &[(
            "grace periods that interrupt CPUs (0: some, 1: none)",
            Place::Text,
            "sys/kernel/rcu_normal",
            "1",
        )],
    )
});
pub(crate) const TIMERS: Knob =
    Knob::full("timers", "timers of idle CPUs do not move to busy ones", |machine, _| {
        set(
            machine,
            &[("migration of timers (1: on, 0: off)", Place::Text, "proc/sys/kernel/timer_migration", "0")],
        )
    });
pub(crate) const STATISTICS: Knob = Knob::full(
    "statistics",
    "each CPU's memory statistics are gathered every two minutes, not every second",
    |machine, _| set(machine, &[("seconds between them", Place::Text, "proc/sys/vm/stat_interval", "120")]),
);
/// Excludes the shield's CPUs from the watchdog. CPUs without a tick (`nohz_full=`) are excluded already.
pub(crate) const WATCHDOGS: Knob =
    Knob::full("watchdogs", "lockups are looked for on other CPUs alone", |machine, request| {
        let mut plan = KnobPlan::default();
        let place = Place::List(machine.file("proc/sys/kernel/watchdog_cpumask"));
        without(machine, request, &mut plan, "CPUs watched", place);
        Ok(plan)
    });

pub(crate) const THROTTLING: Knob = Knob::full(
    "throttling",
    "real-time threads are not stopped for a twentieth of each second; one that never sleeps then keeps its CPU for good",
    |machine, _| {
        set(
            machine,
            &[(
                "microseconds of each period (-1: no limit)",
                Place::Text,
                "proc/sys/kernel/sched_rt_runtime_us",
                "-1",
            )],
        )
    },
);
pub(crate) const MEMORY: Knob =
    Knob::full("memory", "pages are not moved or merged under running programs", |machine, _| {
        set(
            machine,
            &[
                (
                    "moving pages to their users' nodes (0: off)",
                    Place::Text,
                    "proc/sys/kernel/numa_balancing",
                    "0",
                ),
                (
                    "huge pages made behind the program's back",
                    Place::Choice,
                    "sys/kernel/mm/transparent_hugepage/enabled",
                    "never",
                ),
                ("merging equal pages (0: off)", Place::Text, "sys/kernel/mm/ksm/run", "0"),
            ],
        )
    });

/// Disables the fair server, which gives ordinary threads a twentieth of each second since Linux 6.8; its file exists
/// since Linux 6.12.
pub(crate) const FAIR_SERVER: Knob = Knob::full(
    "fair-server",
    "ordinary threads do not preempt real-time ones for a twentieth of each second",
    |machine, request| {
        let mut plan = KnobPlan::default();
        for cpu in request.cpus.as_slice() {
            let file = machine.file(format!("sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"));
            plan.set(
                format!(
                    "nanoseconds of each period on CPU {cpu} (since Linux 6.12, where debugfs is mounted)"
                ),
                Place::Text(file),
                "0",
            );
        }
        Ok(plan)
    },
);
