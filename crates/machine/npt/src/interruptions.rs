//! The interruptions of a real-time loop on CPUs, to be compared with another time.

use crate::{Counts, Error, GapStatistics, Interrupter, Measured, Monitor, Plan, Switches, hit, run_on};
use serde::Serialize;
use sordino_event::Nanos;
use sordino_event::text::printable;
use sordino_sched::{CpuList, Policy};
use std::fmt::Write;
use std::time::Duration;

/// A measurement of all CPUs at once.
#[derive(Clone, Debug, Serialize)]
pub struct Interruptions {
    /// The result for each CPU.
    pub cpus: Vec<CpuInterruptions>,
    /// The reason why switches to other threads are not known, if they are not.
    pub switches_unknown: Option<String>,
}

/// The measurement of one CPU's loop.
#[derive(Clone, Debug, Serialize)]
pub struct CpuInterruptions {
    /// Number of the CPU on which it ran.
    pub cpu: u32,
    /// Duration of the loop, in seconds.
    pub seconds: f64,
    /// The gaps between two rounds of the loop.
    pub gaps: GapStatistics,
    /// The counts of interrupts, and of switches to other threads.
    pub interrupters: Vec<Interrupter>,
}

/// SCHED_FIFO priority of the loop: below threads of the kernel that it relies on, above everything else.
const PRIORITY: u8 = 90;

impl Interruptions {
    /// Runs a loop with `SCHED_FIFO` on each of `cpus` for this time, with throttling of real-time threads disabled.
    ///
    /// # Errors
    /// If the loops can't run, or if the kernel's counts can't be read.
    pub fn measure(cpus: &CpuList, time: Duration, remark: &dyn Fn(&str)) -> Result<Self, Error> {
        let throttle = sordino_guard::lift_and_report(remark);
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
            CpuInterruptions {
                cpu,
                seconds: measured.seconds(),
                gaps: GapStatistics::of(&measured),
                interrupters,
            }
        };
        Ok(Self { cpus: measured.into_iter().map(of_cpu).collect(), switches_unknown })
    }

    /// Returns a table for each CPU: these interruptions, without a shield, beside those with it.
    pub fn compared(&self, after: &Self) -> String {
        let mut text = String::new();
        for (before, after) in self.cpus.iter().zip(&after.cpus) {
            text += &compared(before, after);
        }
        for reason in [&self.switches_unknown, &after.switches_unknown].into_iter().flatten().take(1) {
            let _ = writeln!(text, "  switches to other threads: not measured here: {}", printable(reason));
        }
        text
    }
}

/// Returns the table of a real-time loop's measurements without and with the shield.
fn compared(before: &CpuInterruptions, after: &CpuInterruptions) -> String {
    let length = Nanos::from_seconds(after.seconds);
    let mut text = format!(
        "\n{:<46}{:>14}{:>14}\n",
        format!("CPU {}, a real-time loop of {length}", after.cpu),
        "without",
        "with"
    );
    let mut row = |name: &str, values: [String; 2]| {
        let name = printable(name);
        let [before, after] = values;
        let _ = writeln!(text, "  {name:<44}{before:>14}{after:>14}");
    };
    let both = [before, after];
    row("longest gap", both.map(|of| Nanos::rounded(of.gaps.maximum_ns).to_string()));
    let longer = |of: &CpuInterruptions, than: u64| {
        of.gaps.longer.iter().find(|longer| longer.than_ns == than).map_or(0, |longer| longer.count)
    };
    row("gaps over 10 us", both.map(|of| longer(of, 10_000).to_string()));
    row("gaps over 100 us", both.map(|of| longer(of, 100_000).to_string()));
    let mut names: Vec<&str> = Vec::new();
    for interrupter in both.iter().flat_map(|of| &of.interrupters) {
        if !names.contains(&interrupter.name.as_str()) {
            names.push(&interrupter.name);
        }
    }
    let count = |of: &CpuInterruptions, name: &str| {
        of.interrupters.iter().find(|who| who.name == name).map_or(0, |who| who.count)
    };
    for name in names {
        row(name, both.map(|of| count(of, name).to_string()));
    }
    text
}

fn loops(cpus: &CpuList, time: Duration) -> Result<Vec<(u32, Measured)>, Error> {
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
