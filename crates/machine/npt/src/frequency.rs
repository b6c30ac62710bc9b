//! Processor frequency as the kernel reports it.

use serde::Serialize;
use sordino_proc::SystemFiles;
use sordino_proc::machine::{CpuInfo, turbo};

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
        Self { cpuinfo_mhz: cpuinfo_mhz(&cpuinfo, cpu), turbo: turbo(&SystemFiles::new("/")) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_is_that_of_its_cpu() {
        let text = "processor\t: 0\n\nprocessor\t: 1\ncpu MHz\t\t: 800.5\n\n";
        let cpuinfo = CpuInfo::from_text(text.to_owned());
        assert_eq!([0, 1, 2].map(|cpu| cpuinfo_mhz(&cpuinfo, cpu)), [None, Some(800.5), None]);
    }
}
