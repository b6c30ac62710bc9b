//! Lines on clocks, cores, idle states, NUMA, hypervisor and watchdog.

use super::{Line, good};
use crate::Verdict;
use sordino_proc::SystemFiles;
use sordino_proc::machine::{CpuInfo, IdleState, deepest_idle_state};
use sordino_sched::CpuList;

pub(super) fn lines(sources: &SystemFiles, cpus: &CpuList) -> Vec<Line> {
    let cpuinfo = sources.cpuinfo();
    vec![
        clock_source(sources),
        counter(&cpuinfo),
        threads_of_cores(sources),
        sleep(sources, cpus),
        under_hypervisor(sources, &cpuinfo),
        nodes(sources),
        watchdog(sources),
    ]
}

fn clock_source(sources: &SystemFiles) -> Line {
    let (name, why) = (
        "clock source",
        "reading another clock than the cycle counter takes microseconds, or a visit to the hypervisor",
    );
    match sources.text("sys/devices/system/clocksource/clocksource0/current_clocksource") {
        None => Line::unknown(name, "no clocksource0", why),
        Some(clock) => match clock.as_str() {
            "tsc" | "arch_sys_counter" => Line::new(name, clock, Verdict::Pass, why),
            "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit" => Line::new(name, clock, Verdict::Warn, why)
                .remedy("see why in the kernel's log (dmesg | grep -i tsc); tsc=reliable if the hardware's counter is known to be good"),
            _ => Line::new(name, clock, Verdict::Info, why),
        },
    }
}

fn counter(cpuinfo: &CpuInfo) -> Line {
    let (name, why) = (
        "cycle counter",
        "one that is not constant and non-stop is no clock: times drift with frequency and sleep",
    );
    let Some(is_known) = cpuinfo.has_flag("tsc_known_freq") else {
        return Line::unknown(name, "/proc/cpuinfo has no flags", why);
    };
    let (has, lacks): (Vec<&str>, Vec<&str>) =
        ["constant_tsc", "nonstop_tsc"].into_iter().partition(|flag| cpuinfo.has_flag(flag) == Some(true));
    let known = if is_known { ", tsc_known_freq" } else { "" };
    match lacks.is_empty() {
        true => Line::new(name, format!("{}{known}", has.join(", ")), Verdict::Pass, why),
        false => Line::new(name, format!("not {}", lacks.join(", ")), Verdict::Warn, why),
    }
}

fn threads_of_cores(sources: &SystemFiles) -> Line {
    let (name, why) = ("SMT", "two CPUs of one core slow each other down, whatever the priorities");
    match sources.text("sys/devices/system/cpu/smt/active").as_deref() {
        Some("0") => Line::new(name, "off", Verdict::Pass, why),
        Some("1") => Line::new(name, "on", Verdict::Warn, why)
            .remedy("boot with nosmt, or echo off > /sys/devices/system/cpu/smt/control; or shield both CPUs of a core"),
        _ => Line::unknown(name, "no /sys/devices/system/cpu/smt", why),
    }
}

/// Exit latency in microseconds above which an idle state is visible in every measured latency.
const DEEP_US: u64 = 10;

fn sleep(sources: &SystemFiles, cpus: &CpuList) -> Line {
    let (name, why) = ("C-states", "a CPU that sleeps deeply takes that long to wake");
    let driver = sources.text("sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
    let governor = sources.text("sys/devices/system/cpu/cpuidle/current_governor").unwrap_or_default();
    let deepest = deepest_idle_state(sources, cpus.as_slice().iter().copied());
    let Some(IdleState { name: state, latency_us }) = deepest else {
        return Line::unknown(name, format!("no states ({driver}): the hypervisor or firmware decides"), why);
    };
    let line = Line::new(
        name,
        format!("down to {state}, {latency_us} us to wake ({driver}, {governor})"),
        good(latency_us <= DEEP_US),
        why,
    );
    if latency_us <= DEEP_US {
        line
    } else {
        line.remedy(format!(
            "sordino shield up --cpus {cpus} --level full, or processor.max_cstate=1 at boot"
        ))
    }
}

/// Returns the hypervisor's name if the machine is a guest.
pub(super) fn hypervisor(sources: &SystemFiles, cpuinfo: &CpuInfo) -> Option<String> {
    let is_guest = cpuinfo.has_flag("hypervisor") == Some(true);
    let kind = sources.text("sys/hypervisor/type");
    (is_guest || kind.is_some())
        .then(|| kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| "unknown".to_owned()))
}

fn under_hypervisor(sources: &SystemFiles, cpuinfo: &CpuInfo) -> Line {
    let (name, why) =
        ("hypervisor", "a host takes the CPU when it likes, and nothing in the guest can tell or prevent it");
    match hypervisor(sources, cpuinfo) {
        _ if cpuinfo.is_empty() => Line::unknown(name, "no /proc/cpuinfo", why),
        None => Line::new(name, "none", Verdict::Pass, why),
        Some(kind) => Line::new(name, format!("yes ({kind})"), Verdict::Warn, why)
            .remedy("measure on the hardware, or have the host give this guest CPUs of its own"),
    }
}

fn nodes(sources: &SystemFiles) -> Line {
    let (name, why) = ("NUMA", "memory of another node is slower, and moving pages stops their users");
    match sources.text("sys/devices/system/node/online") {
        None => Line::unknown(name, "no /sys/devices/system/node", why),
        Some(nodes) => Line::new(name, format!("nodes {nodes}"), Verdict::Info, why),
    }
}

fn watchdog(sources: &SystemFiles) -> Line {
    let (name, why) = ("NMI watchdog", "an interrupt that nothing can mask, on each CPU");
    match sources.text("proc/sys/kernel/nmi_watchdog").as_deref() {
        None => Line::unknown(name, "no /proc/sys/kernel/nmi_watchdog", why),
        Some("0") => Line::new(name, "off", Verdict::Pass, why),
        Some(_) => Line::new(name, "on", Verdict::Warn, why)
            .remedy("sysctl kernel.nmi_watchdog=0, or nmi_watchdog=0 at boot"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{tree, verdict_of};
    use super::*;

    const IDLE: &str = "sys/devices/system/cpu/cpu1/cpuidle";

    #[test]
    fn a_machine_as_it_should_be_passes() {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("proc/cpuinfo", "flags\t\t: fpu constant_tsc nonstop_tsc\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("proc/sys/kernel/nmi_watchdog", "0\n"),
            ("sys/devices/system/node/online", "0\n"),
        ];
        let sources = tree(directory.path(), &files);
        tree(
            directory.path(),
            &[(&format!("{IDLE}/state0/latency"), "2\n"), (&format!("{IDLE}/state0/name"), "C1\n")],
        );
        let lines = lines(&sources, &CpuList::new([1]));
        assert!(lines.iter().all(|line| matches!(line.verdict, Verdict::Pass | Verdict::Info)), "{lines:?}");
    }

    #[test]
    fn disturbances_are_reported_with_a_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ("proc/cpuinfo", "flags\t\t: constant_tsc hypervisor\n"),
            ("sys/devices/system/cpu/smt/active", "1\n"),
            ("proc/sys/kernel/nmi_watchdog", "1\n"),
        ];
        let sources = tree(directory.path(), &files);
        let lines = lines(&sources, &CpuList::new([1]));
        assert_eq!(verdict_of(&lines, "cycle counter"), "WARN not nonstop_tsc");
        for name in ["clock source", "SMT", "hypervisor", "NMI watchdog"] {
            let line = lines.iter().find(|line| line.name == name).unwrap();
            assert!(line.verdict == Verdict::Warn && line.remedy.is_some(), "{line:?}");
        }
        assert!(verdict_of(&lines, "C-states").starts_with("NOT MEASURED unknown"));
    }

    #[test]
    fn the_deepest_state_that_is_on_and_of_measured_cpus_counts() {
        let directory = tempfile::tempdir().unwrap();
        let state = |cpu: u32, state: u32, latency: &str, disable: &str| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            tree(
                directory.path(),
                &[(&format!("{path}/latency"), latency), (&format!("{path}/disable"), disable)],
            );
        };
        state(0, 0, "900", "0");
        state(1, 0, "1", "0");
        state(1, 1, "80", "0");
        state(1, 2, "500", "1");
        let line = sleep(&SystemFiles::new(directory.path()), &CpuList::new([1]));
        assert!(line.value.starts_with("down to state1, 80 us") && line.verdict == Verdict::Warn, "{line:?}");
    }

    #[test]
    fn nothing_is_made_up_on_a_machine_without_files() {
        let directory = tempfile::tempdir().unwrap();
        let lines = lines(&SystemFiles::new(directory.path()), &CpuList::new([0]));
        assert!(lines.iter().all(|line| line.verdict == Verdict::NotMeasured), "{lines:?}");
    }
}
