//! Processor frequency as the kernel reports it.

use serde::Serialize;
use std::fs;
use std::path::Path;

/// Frequency of a CPU as the kernel reports it. It is only printed, never used for measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Frequency {
    /// `cpu MHz` in `/proc/cpuinfo` in MHz: the CPU's recent or nominal frequency, not that of its cycle counter.
    pub cpuinfo_mhz: Option<f64>,
    /// True if the CPU may temporarily exceed its sustained frequency (turbo, boost); `None` if unknown.
    pub turbo: Option<bool>,
}

impl Frequency {
    /// Reads the present values for `cpu`. An unreadable value is `None`.
    pub fn of(cpu: u32) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self { cpuinfo_mhz: cpuinfo_mhz(&cpuinfo, cpu), turbo: turbo(Path::new("/sys/devices/system/cpu")) }
    }

    /// Describes the state of turbo in words.
    pub fn turbo_text(&self) -> &'static str {
        match self.turbo {
            Some(true) => "on: how much a loop takes follows temperature and load",
            Some(false) => "off",
            None => "not known here",
        }
    }
}

/// Parses the text of `/proc/cpuinfo`.
fn cpuinfo_mhz(text: &str, cpu: u32) -> Option<f64> {
    let value = |line: &str, name: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    };
    let is_processor = |line: &&str| value(line, "processor").is_some_and(|number| number.parse() == Ok(cpu));
    let mut own =
        text.lines().skip_while(|line| !is_processor(line)).take_while(|line| !line.trim().is_empty());
    own.find_map(|line| value(line, "cpu MHz")?.parse().ok())
}

/// Reads the driver's setting: `intel_pstate` has a file that is 1 if turbo is off, other drivers one that is 1 if
/// boost is on.
fn turbo(cpus: &Path) -> Option<bool> {
    let read = |name| match fs::read_to_string(cpus.join(name)).ok()?.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    read("intel_pstate/no_turbo").map(|no| !no).or_else(|| read("cpufreq/boost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_its_own_entry() {
        let text =
            "processor\t: 0\ncpu MHz\t\t: 2596.136\n\nprocessor\t: 1\nflags: x\ncpu MHz\t\t: 800.5\n\n";
        assert_eq!([0, 1, 2].map(|cpu| cpuinfo_mhz(text, cpu)), [Some(2596.136), Some(800.5), None]);
        assert_eq!(cpuinfo_mhz("processor : 0\n\nprocessor : 1\ncpu MHz : 5\n", 0), None);
    }

    #[test]
    fn turbo_is_known_where_a_driver_says_it() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_owned();
        let write = |name: &str, text: &str| {
            let file = place.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert_eq!(turbo(&place), None);
        write("cpufreq/boost", "1\n");
        assert_eq!(turbo(&place), Some(true));
        write("intel_pstate/no_turbo", "1\n");
        assert_eq!(turbo(&place), Some(false));
        write("intel_pstate/no_turbo", "?\n");
        assert_eq!(turbo(&place), Some(true));
    }
}
