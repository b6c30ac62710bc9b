//! What the whole machine shares: single files of the kernel's.

use crate::{Knob, Level, Machine, Place, Request, Wants};

/// Work queues whose work is bound to no CPU.
pub(crate) const WORKQUEUES: Knob = Knob {
    name: "workqueues",
    why: "the kernel does work that is bound to no CPU elsewhere",
    level: Level::Basic,
    essential: false,
    wants: |machine, request| {
        let queues = "sys/devices/virtual/workqueue";
        let mut wants = Wants::default();
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
            without(machine, request, &mut wants, &format!("work queue {queue}"), Place::Mask(file.clone()));
        }
        Ok(wants)
    },
};

/// Packets that one CPU received and others are to look at: `Documentation/networking/scaling.rst`, RPS.
pub(crate) const NETWORK: Knob = Knob {
    name: "network",
    why: "received packets are handed to other CPUs",
    level: Level::Basic,
    essential: false,
    wants: |machine, request| {
        let mut wants = Wants::default();
        for device in machine.entries("sys/class/net") {
            for queue in machine.entries(device.join("queues")) {
                let file = queue.join("rps_cpus");
                if file.exists() {
                    let device = device.file_name().unwrap_or_default().to_string_lossy();
                    without(
                        machine,
                        request,
                        &mut wants,
                        &format!("packets from {device}"),
                        Place::Mask(file),
                    );
                }
            }
        }
        Ok(wants)
    },
};

/// A set of CPUs loses those of the shield.
fn without(machine: &Machine, request: &Request, wants: &mut Wants, what: &str, place: Place) {
    let cpus = place.read().unwrap_or_default().parse().unwrap_or_default();
    wants.set(what, place, request.leave(machine, &cpus).to_string());
}

/// A knob that is one file of the kernel's, or some, each with what is wanted of it.
macro_rules! files {
    ($name:ident, $word:literal, $why:literal, $(($what:literal, $kind:ident, $path:literal, $value:literal)),+) => {
        pub(crate) const $name: Knob = Knob {
            name: $word,
            why: $why,
            level: Level::Full,
            essential: false,
            wants: |machine, _| {
                let mut wants = Wants::default();
                $(wants.set($what, Place::$kind(machine.file($path)), $value);)+
                Ok(wants)
            },
        };
    };
}

files!(
    RCU,
    "rcu",
    "waiting for readers interrupts nobody",
    ("grace periods that interrupt CPUs", Text, "sys/kernel/rcu_normal", "1")
);
files!(
    TIMERS,
    "timers",
    "timers of idle CPUs do not move to busy ones",
    ("migration of timers", Text, "proc/sys/kernel/timer_migration", "0")
);
files!(
    STATISTICS,
    "statistics",
    "each CPU's memory statistics are gathered every two minutes, not every second",
    ("seconds between them", Text, "proc/sys/vm/stat_interval", "120")
);
/// Its CPUs may be fewer already: those without a tick (`nohz_full=`) are not watched.
pub(crate) const WATCHDOGS: Knob = Knob {
    name: "watchdogs",
    why: "lockups are looked for on other CPUs alone",
    level: Level::Full,
    essential: false,
    wants: |machine, request| {
        let mut wants = Wants::default();
        let place = Place::List(machine.file("proc/sys/kernel/watchdog_cpumask"));
        without(machine, request, &mut wants, "CPUs watched", place);
        Ok(wants)
    },
};

files!(
    THROTTLING,
    "throttling",
    "real-time threads are not stopped for a twentieth of each second; one that never sleeps then keeps its CPU for good",
    ("microseconds of each period", Text, "proc/sys/kernel/sched_rt_runtime_us", "-1")
);
files!(
    MEMORY,
    "memory",
    "pages are not moved or merged under running programs",
    ("moving pages to their users' nodes", Text, "proc/sys/kernel/numa_balancing", "0"),
    (
        "huge pages made behind the program's back",
        Choice,
        "sys/kernel/mm/transparent_hugepage/enabled",
        "never"
    ),
    ("merging equal pages", Text, "sys/kernel/mm/ksm/run", "0")
);

/// The server that gives ordinary threads a twentieth of each second, since Linux 6.8; its knob is there since 6.12.
pub(crate) const FAIR_SERVER: Knob = Knob {
    name: "fair-server",
    why: "ordinary threads do not preempt real-time ones for a twentieth of each second",
    level: Level::Full,
    essential: false,
    wants: |machine, request| {
        let mut wants = Wants::default();
        for cpu in request.cpus.as_slice() {
            let file = machine.file(format!("sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime"));
            wants.set(
                format!(
                    "nanoseconds of each period on CPU {cpu} (since Linux 6.12, where debugfs is mounted)"
                ),
                Place::Text(file),
                "0",
            );
        }
        Ok(wants)
    },
};
