//! The measurement of interruptions of a real-time loop on CPUs.

use crate::Failure;
use crate::terminal::remark;
use serde::Serialize;
use sordino_npt::{Counts, GapStatistics, Interrupter, Measured, Monitor, Plan, Switches, hit, run_on};
use sordino_sched::{CpuList, Policy};
use std::time::Duration;

/// A measurement of all CPUs at once.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measurement {
    /// The result for each CPU.
    pub(super) cpus: Vec<OfCpu>,
    /// The reason why switches to other threads are not known, if they are not.
    pub(super) switches_unknown: Option<String>,
}

/// The measurement of one CPU's loop.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OfCpu {
    pub(super) cpu: u32,
    /// Duration of the loop, in seconds.
    pub(super) seconds: f64,
    /// The gaps between two rounds of the loop.
    pub(super) gaps: GapStatistics,
    /// The counts of interrupts, and of switches to other threads.
    pub(super) interrupters: Vec<Interrupter>,
}

/// SCHED_FIFO priority of the loop: below threads of the kernel that it relies on, above everything else.
const PRIORITY: u8 = 90;

/// Runs a loop with `SCHED_FIFO` on each of `cpus` for this time, with throttling of real-time threads disabled.
pub(super) fn measure(cpus: &CpuList, time: Duration) -> Result<Measurement, Failure> {
    let throttle = sordino_guard::lift_and_report(&remark);
    let mut guardian = sordino_guard::start()?;
    let switches = Switches::watch(cpus, &mut guardian);
    let before = Counts::now()?;
    let measured = loops(cpus, time)?;
    let after = Counts::now()?;
    let switches = switches.and_then(|switches| switches.between(&measured));
    guardian.undo()?;
    drop(throttle);
    let switches_unknown = switches.as_ref().err().cloned();
    let mut switches = switches.unwrap_or_default();
    let of_cpu = |(cpu, measured): (u32, Measured)| {
        let mut interrupters = after.since(&before, cpu);
        interrupters.extend(switches.remove(&cpu).unwrap_or_default());
        OfCpu { cpu, seconds: measured.seconds(), gaps: GapStatistics::of(&measured), interrupters }
    };
    Ok(Measurement { cpus: measured.into_iter().map(of_cpu).collect(), switches_unknown })
}

fn loops(cpus: &CpuList, time: Duration) -> Result<Vec<(u32, Measured)>, Failure> {
    let plan = Plan {
        policy: Policy::Fifo(PRIORITY),
        lock_memory: false,
        loops: u64::MAX,
        duration: Some(time),
        tracepoint: false,
        ..Plan::default()
    };
    let monitors: Vec<_> = cpus.as_slice().iter().map(|_| Monitor::default()).collect();
    let measured = run_on(cpus, &plan, &monitors, hit)?;
    Ok(cpus.as_slice().iter().copied().zip(measured).collect())
}
