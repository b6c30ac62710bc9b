//! Lines on the kernel: release, preemption model, command line, configuration.

use super::{Line, good};
use crate::{MachineInfo, Verdict};
use sordino_proc::SystemFiles;
use sordino_proc::machine::{PreemptionModel, memory_in, short_version};

pub(super) fn lines(
    sources: &SystemFiles,
    config: Option<&str>,
    tracers: Result<&[String], &String>,
) -> Vec<Line> {
    let version = sources.text("proc/version").unwrap_or_default();
    vec![
        Line::new("kernel", short(&version), Verdict::Info, "results are those of this kernel"),
        preemption(sources),
        command_line(sources),
        option_line(
            "tick",
            config,
            &["CONFIG_HZ", "CONFIG_NO_HZ_FULL", "CONFIG_NO_HZ_IDLE"],
            "a CPU that computes is interrupted so often each second, unless it is without a tick (NO_HZ_FULL)",
        ),
        option_line(
            "RCU",
            config,
            &["CONFIG_RCU_NOCB_CPU", "CONFIG_RCU_BOOST", "CONFIG_RCU_LAZY"],
            "callbacks can be run on other CPUs only with RCU_NOCB_CPU",
        ),
        high_resolution(config),
        facilities(tracers),
    ]
}

fn short(version: &str) -> String {
    short_version(version).unwrap_or_else(|| "unknown".to_owned())
}

fn preemption(sources: &SystemFiles) -> Line {
    let why = "without PREEMPT_RT, interrupt handlers and sections under spin locks delay even the highest priority";
    let preemption = PreemptionModel::read(sources);
    if preemption.is_real_time() {
        return Line::new("preemption", PreemptionModel::REAL_TIME, Verdict::Pass, why);
    }
    let model = preemption.name.unwrap_or_else(|| "no PREEMPT".to_owned());
    let value = preemption.mode.map_or(model.clone(), |mode| format!("{model}, {mode}"));
    Line::new("preemption", value, Verdict::Warn, why)
        .remedy("boot a PREEMPT_RT kernel (Debian: apt-get install linux-image-rt-amd64)")
}

fn command_line(sources: &SystemFiles) -> Line {
    let why = "isolation that only booting can bring";
    match sources.text("proc/cmdline") {
        Some(text) => Line::new("command line", text, Verdict::Info, why),
        None => Line::unknown("command line", "no /proc/cmdline", why),
    }
}

/// Creates a line with the values of some configuration options.
fn option_line(name: &str, config: Option<&str>, options: &[&str], why: &str) -> Line {
    let Some(config) = config else {
        return Line::unknown(name, "neither /boot/config-* nor /proc/config.gz", why);
    };
    let text = |option: &&str| match option_value(config, option) {
        Some(value) => format!("{option}={value}"),
        None => format!("no {option}"),
    };
    Line::new(name, options.iter().map(text).collect::<Vec<_>>().join(", "), Verdict::Info, why)
}

fn option_value<'a>(config: &'a str, option: &str) -> Option<&'a str> {
    config.lines().find_map(|line| line.strip_prefix(option)?.strip_prefix('='))
}

fn high_resolution(config: Option<&str>) -> Line {
    let (name, why) = ("high-resolution timers", "without them, a thread sleeps until the next tick");
    match config {
        None => Line::unknown(name, "neither /boot/config-* nor /proc/config.gz", why),
        Some(config) => {
            let has = option_value(config, "CONFIG_HIGH_RES_TIMERS") == Some("y");
            let line = Line::new(name, if has { "built in" } else { "not built in" }, good(has), why);
            if has { line } else { line.remedy("a kernel with CONFIG_HIGH_RES_TIMERS") }
        }
    }
}

fn facilities(tracers: Result<&[String], &String>) -> Line {
    let (name, why) = (
        "tracing",
        "hwlat tells the hardware's gaps from the kernel's; osnoise and timerlat name what disturbs",
    );
    match tracers {
        Err(reason) => Line::unknown(name, reason, why),
        Ok(tracers) => {
            let (has, lacks): (Vec<&str>, Vec<&str>) = ["hwlat", "osnoise", "timerlat"]
                .into_iter()
                .partition(|name| tracers.iter().any(|tracer| tracer == name));
            let list = |list: &[&str]| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
            let value = format!("events; of hwlat, osnoise, timerlat: {}", list(&has));
            let line = Line::new(name, value, Verdict::Info, why);
            if lacks.is_empty() { line } else { line.remedy(format!("a kernel with {}", list(&lacks))) }
        }
    }
}

/// Reads the machine's description.
pub fn machine_info(sources: &SystemFiles, cpus: &str) -> MachineInfo {
    let cpuinfo = sources.cpuinfo();
    let memory = sources.text("proc/meminfo").and_then(|meminfo| memory_in(&meminfo, "MemTotal"));
    let dmi: Vec<String> = ["sys_vendor", "product_name", "bios_version", "bios_date"]
        .iter()
        .filter_map(|name| sources.text(&format!("sys/class/dmi/id/{name}")))
        .filter(|text| !text.is_empty())
        .collect();
    let system = sources.text("etc/os-release").unwrap_or_default();
    let system =
        system.lines().find_map(|line| Some(line.strip_prefix("PRETTY_NAME=")?.trim_matches('"').to_owned()));
    MachineInfo {
        host: sources.text("proc/sys/kernel/hostname").unwrap_or_default(),
        processor: cpuinfo.field("model name").unwrap_or("unknown").to_owned(),
        cpus: cpus.to_owned(),
        memory_mib: memory.unwrap_or(0) >> 20,
        hardware: (!dmi.is_empty()).then(|| dmi.join(", ")),
        kernel: short(&sources.text("proc/version").unwrap_or_default()),
        command_line: sources.text("proc/cmdline").unwrap_or_default(),
        system,
        hypervisor: super::processor::hypervisor(sources, &cpuinfo),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{tree, verdict_of};
    use super::*;

    #[test]
    fn a_real_time_kernel_is_recognized_by_its_name_or_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let version = "Linux version 6.1.0-rt (x@y) (gcc (Debian) 12) #1 SMP PREEMPT_RT Debian 6.1";
        let sources = tree(directory.path(), &[("proc/version", version)]);
        let lines = lines(&sources, None, Ok(&[]));
        assert_eq!(verdict_of(&lines, "preemption"), "PASS PREEMPT_RT");
        assert_eq!(verdict_of(&lines, "kernel"), "INFO 6.1.0-rt #1 SMP PREEMPT_RT Debian 6.1");
        let older =
            tree(directory.path(), &[("sys/kernel/realtime", "1\n"), ("proc/version", "Linux version 5.10")]);
        assert_eq!(preemption(&older).verdict, Verdict::Pass);
    }

    #[test]
    fn another_kernel_has_its_mode_of_preemption() {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            ("proc/version", "Linux version 6.18 #1 SMP PREEMPT_DYNAMIC @0\n"),
            ("sys/kernel/debug/sched/preempt", "none voluntary (full)\n"),
        ];
        let line = preemption(&tree(directory.path(), &files));
        assert_eq!((line.verdict, line.value.as_str()), (Verdict::Warn, "PREEMPT_DYNAMIC, full"));
        assert!(line.remedy.is_some());
    }

    #[test]
    fn options_are_the_configuration_s_and_unknown_without_one() {
        let directory = tempfile::tempdir().unwrap();
        let config =
            "CONFIG_HZ=250\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_HIGH_RES_TIMERS=y\nCONFIG_HZ_250=y\n";
        let sources = tree(directory.path(), &[]);
        let with = lines(&sources, Some(config), Ok(&["hwlat".to_owned(), "nop".to_owned()]));
        assert_eq!(
            verdict_of(&with, "tick"),
            "INFO CONFIG_HZ=250, no CONFIG_NO_HZ_FULL, no CONFIG_NO_HZ_IDLE"
        );
        assert_eq!(verdict_of(&with, "high-resolution timers"), "PASS built in");
        assert_eq!(verdict_of(&with, "tracing"), "INFO events; of hwlat, osnoise, timerlat: hwlat");
        let without = lines(&sources, None, Err(&"lockdown".to_owned()));
        for name in ["tick", "RCU", "high-resolution timers", "tracing", "command line"] {
            assert!(verdict_of(&without, name).starts_with("NOT MEASURED unknown: "), "{name}");
        }
    }

    #[test]
    fn a_machine_is_described() {
        let directory = tempfile::tempdir().unwrap();
        let sources = tree(
            directory.path(),
            &[
                ("proc/cpuinfo", "processor : 0\nmodel name\t: A Fast One\nflags : tsc hypervisor\n"),
                ("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n"),
                ("sys/class/dmi/id/sys_vendor", "Maker\n"),
                ("etc/os-release", "ID=x\nPRETTY_NAME=\"An OS 12\"\n"),
            ],
        );
        let info = machine_info(&sources, "0-1");
        assert_eq!((info.processor.as_str(), info.memory_mib, info.cpus.as_str()), ("A Fast One", 2, "0-1"));
        assert_eq!(info.hardware.as_deref(), Some("Maker"));
        assert_eq!(info.system.as_deref(), Some("An OS 12"));
        assert_eq!(info.hypervisor.as_deref(), Some("unknown"));
    }
}
