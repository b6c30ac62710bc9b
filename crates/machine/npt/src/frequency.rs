//! Processor frequency as the kernel reports it.

use serde::Serialize;
use sordino_proc::machine::CpuInfo;
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
        let cpuinfo = CpuInfo::read().unwrap_or_default();
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

fn cpuinfo_mhz(cpuinfo: &CpuInfo, cpu: u32) -> Option<f64> {
    let own = cpuinfo.entries().find(|entry| entry.cpu() == Some(cpu))?;
    own.field("cpu MHz")?.parse().ok()
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
    fn a_frequency_is_that_of_its_cpu() {
        let text = "processor\t: 0\n\nprocessor\t: 1\ncpu MHz\t\t: 800.5\n\n";
        let cpuinfo = CpuInfo::from_text(text.to_owned());
        assert_eq!([0, 1, 2].map(|cpu| cpuinfo_mhz(&cpuinfo, cpu)), [None, Some(800.5), None]);
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
