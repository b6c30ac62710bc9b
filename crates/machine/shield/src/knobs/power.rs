//! Idle states and frequencies of CPUs.

use crate::{Error, Knob, KnobPlan, Machine, Place, ShieldRequest};

/// Limits the exit latency of each CPU. `/dev/cpu_dma_latency` would limit all CPUs, and only as long as a process
/// keeps it open: `Documentation/admin-guide/pm/cpuidle.rst`.
pub(crate) const IDLE: Knob =
    Knob::full("idle", "the CPUs sleep no deeper than they wake from at once", |machine, request| {
        let what = |cpu| format!("time that waking CPU {cpu} may take (0: any, n/a: none)");
        each(machine, request, what, "power/pm_qos_resume_latency_us", "n/a")
    });

pub(crate) const FREQUENCY: Knob =
    Knob::full("frequency", "the CPUs' clock does not change while they work", |machine, request| {
        let what = |cpu| format!("governor of CPU {cpu}");
        let mut plan = each(machine, request, what, "cpufreq/scaling_governor", "performance")?;
        let turbo = ["sys/devices/system/cpu/intel_pstate/no_turbo", "sys/devices/system/cpu/cpufreq/boost"];
        match turbo.map(|file| machine.file(file)) {
            [no_turbo, _] if no_turbo.exists() => plan.set("turbo switched off", Place::Text(no_turbo), "1"),
            [_, boost] => plan.set("turbo", Place::Text(boost), "0"),
        }
        Ok(plan)
    });

/// Sets one file of each CPU.
fn each(
    machine: &Machine,
    request: &ShieldRequest,
    what: impl Fn(u32) -> String,
    file: &str,
    value: &str,
) -> Result<KnobPlan, Error> {
    let mut plan = KnobPlan::default();
    for &cpu in request.cpus.as_slice() {
        let place = Place::Text(machine.file(format!("sys/devices/system/cpu/cpu{cpu}")).join(file));
        plan.set(what(cpu), place, value);
    }
    Ok(plan)
}
