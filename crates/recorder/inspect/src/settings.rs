//! The settings of the machine that decide how late a thread runs, for the summary of a recording.
//!
//! Only files of the kernel's in `/proc` and `/sys` are read, each up to a limit. `/proc/cpuinfo` is not among them:
//! some kernels interrupt each CPU to fill it in.

use sordino_proc::SystemFiles;
use sordino_proc::machine::{
    IdleState, PreemptionModel, deepest_idle_state, memory_in, short_version, turbo,
};
use std::collections::BTreeMap;
use std::path::Path;

/// The names of all settings, in the order in which people read them.
pub const SETTINGS: [&str; 17] = [
    "kernel",
    "preemption",
    "command line",
    "CPUs online",
    "isolated CPUs",
    "CPUs without a tick",
    "SMT",
    "frequency governor",
    "turbo",
    "C-states",
    "microcode",
    "clock source",
    "limit on real-time threads",
    "transparent huge pages",
    "NMI watchdog",
    "timer migration",
    "memory",
];

/// Maximum number of bytes that are read of a file.
const MOST_BYTES: u64 = 4096;
/// Maximum number of CPUs whose files are read.
const MOST_CPUS: usize = 256;

/// Returns the settings of this machine by name, those of [`SETTINGS`] that could be read.
pub fn machine_settings() -> BTreeMap<String, String> {
    settings(Path::new("/"))
}

/// Returns the settings by the files below `root`.
fn settings(root: &Path) -> BTreeMap<String, String> {
    let files = SystemFiles::new(root).at_most(MOST_BYTES);
    let cpu = |name: &str| files.text(&format!("sys/devices/system/cpu/{name}"));
    let sysctl = |name: &str| files.text(&format!("proc/sys/kernel/{name}"));
    let version = files.text("proc/version").unwrap_or_default();
    let values = [
        ("kernel", short_version(&version)),
        ("preemption", preemption(&files, &version)),
        ("command line", files.text("proc/cmdline")),
        ("CPUs online", cpu("online")),
        ("isolated CPUs", cpu("isolated").map(or_none)),
        ("CPUs without a tick", cpu("nohz_full").map(|cpus| or_none(cpus.replace("(null)", "")))),
        ("SMT", cpu("smt/control")),
        ("frequency governor", by_cpu(&files, "cpufreq/scaling_governor")),
        ("turbo", turbo(&files).map(|is_on| if is_on { "on" } else { "off" }.to_owned())),
        ("C-states", idle_states(&files)),
        ("microcode", cpu("cpu0/microcode/version")),
        ("clock source", files.text("sys/devices/system/clocksource/clocksource0/current_clocksource")),
        (
            "limit on real-time threads",
            sysctl("sched_rt_runtime_us").map(|time| limit(&time, sysctl("sched_rt_period_us"))),
        ),
        ("transparent huge pages", files.text("sys/kernel/mm/transparent_hugepage/enabled").map(chosen)),
        ("NMI watchdog", sysctl("nmi_watchdog").map(on_or_off)),
        ("timer migration", sysctl("timer_migration").map(on_or_off)),
        ("memory", files.text("proc/meminfo").and_then(memory)),
    ];
    values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns the first CPUs that the kernel knows.
fn cpus(files: &SystemFiles) -> impl Iterator<Item = u32> {
    files.numbered("sys/devices/system/cpu", "cpu").into_iter().take(MOST_CPUS)
}

/// Returns the values of a file of each CPU: the value, or each with the CPUs that have it.
fn by_cpu(files: &SystemFiles, file: &str) -> Option<String> {
    let mut by_value: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for cpu in cpus(files) {
        if let Some(value) = files.text(&format!("sys/devices/system/cpu/cpu{cpu}/{file}")) {
            by_value.entry(value).or_default().push(cpu.to_string());
        }
    }
    match by_value.len() {
        0 => None,
        1 => by_value.into_keys().next(),
        _ => {
            let each = by_value.into_iter().map(|(value, cpus)| format!("{value} (CPU {})", cpus.join(",")));
            Some(each.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Returns the kernel's model of preemption, and the mode that is chosen, if it can be chosen and read.
fn preemption(files: &SystemFiles, version: &str) -> Option<String> {
    let PreemptionModel { name, mode } = PreemptionModel::read(files);
    let model = match name {
        Some(name) => name,
        None if version.is_empty() => return None,
        None => "none".to_owned(),
    };
    Some(mode.map_or(model.clone(), |mode| format!("{model}, {mode}")))
}

/// Returns the deepest idle state of all CPUs that is enabled, with its time to wake up, and the kernel's choosers.
fn idle_states(files: &SystemFiles) -> Option<String> {
    let chooser = |name: &str| files.text(&format!("sys/devices/system/cpu/cpuidle/{name}"));
    let choosers: Vec<String> =
        ["current_driver", "current_governor"].into_iter().filter_map(chooser).collect();
    let by = if choosers.is_empty() { String::new() } else { format!(" ({})", choosers.join(", ")) };
    match deepest_idle_state(files, cpus(files)) {
        Some(IdleState { name, latency_us }) => Some(format!("down to {name}, {latency_us} us to wake{by}")),
        None if choosers.is_empty() => None,
        None => Some(format!("no states of the kernel's{by}")),
    }
}

fn limit(time: &str, period: Option<String>) -> String {
    match time {
        "-1" => "none".to_owned(),
        time => format!("{time} us of {} us", period.as_deref().unwrap_or("?")),
    }
}

/// Returns the value in brackets: `always [madvise] never`.
fn chosen(values: String) -> String {
    let bracketed = values.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map(|(chosen, _)| chosen.to_owned()).unwrap_or(values)
}

fn on_or_off(number: String) -> String {
    match number.as_str() {
        "0" => "off".to_owned(),
        "1" => "on".to_owned(),
        _ => number,
    }
}

fn or_none(cpus: String) -> String {
    if cpus.is_empty() { "none".to_owned() } else { cpus }
}

fn memory(meminfo: String) -> Option<String> {
    Some(format!("{} MiB", memory_in(&meminfo, "MemTotal")? >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        settings(root.path())
    }

    #[test]
    fn values_are_those_of_the_kernels_files_in_words() {
        let cpu = "sys/devices/system/cpu";
        let found = tree(&[
            ("proc/version", "Linux version 6.1.0-rt (x@y) (gcc (Debian) 12) #1 SMP PREEMPT_RT Debian\n"),
            (&format!("{cpu}/isolated"), "\n"),
            (&format!("{cpu}/cpu0/cpufreq/scaling_governor"), "performance\n"),
            (&format!("{cpu}/cpu1/cpufreq/scaling_governor"), "powersave\n"),
            (&format!("{cpu}/cpu1/cpuidle/state0/latency"), "2\n"),
            (&format!("{cpu}/cpu1/cpuidle/state1/latency"), "80\n"),
            (&format!("{cpu}/cpu1/cpuidle/state1/name"), "C6\n"),
            (&format!("{cpu}/cpu1/cpuidle/state2/latency"), "500\n"),
            (&format!("{cpu}/cpu1/cpuidle/state2/disable"), "1\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("proc/meminfo", "MemTotal: 2048 kB\n"),
        ]);
        let expected = [
            ("C-states", "down to C6, 80 us to wake"),
            ("frequency governor", "performance (CPU 0); powersave (CPU 1)"),
            ("isolated CPUs", "none"),
            ("kernel", "6.1.0-rt #1 SMP PREEMPT_RT Debian"),
            ("limit on real-time threads", "950000 us of 1000000 us"),
            ("memory", "2 MiB"),
            ("preemption", "PREEMPT_RT"),
            ("transparent huge pages", "madvise"),
        ];
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_machine_without_these_files_has_no_settings_and_a_long_file_is_cut() {
        assert!(tree(&[]).is_empty());
        let found = tree(&[("proc/cmdline", &"x".repeat(100_000))]);
        assert_eq!(found["command line"].len() as u64, MOST_BYTES);
    }

    #[test]
    fn this_machine_has_settings_with_known_names() {
        let found = machine_settings();
        assert!(found.contains_key("kernel") && found.contains_key("CPUs online"), "{found:?}");
        assert!(found.keys().all(|name| SETTINGS.contains(&name.as_str())), "{found:?}");
    }
}
