//! Checks that this machine's cycle counter can serve as a clock.

use std::fmt;
use std::fs;

/// Reason why the cycle counter is unusable as a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The processor lacks this flag, so it does not guarantee that the counter runs evenly.
    Flag(&'static str),
    /// The kernel has found the counter unstable and removed it from the list of clock sources.
    Distrusted,
    /// The processor's flags or the list of clock sources could not be read.
    Unknown,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "the processor lacks {flag}"),
            Self::Distrusted => f.write_str("the kernel found it unstable"),
            Self::Unknown => f.write_str("/proc/cpuinfo or the list of clock sources can't be read"),
        }
    }
}

/// Checks that the cycle counter runs at a constant rate, never stops, and agrees on all CPUs.
///
/// # Errors
/// Returns the reason why the counter is unusable.
pub fn cycles_usable() -> Result<(), Unusable> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").map_err(|_| Unusable::Unknown)?;
    let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let sources = fs::read_to_string(sources).map_err(|_| Unusable::Unknown)?;
    judge(&cpuinfo, &sources)
}

fn judge(cpuinfo: &str, sources: &str) -> Result<(), Unusable> {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).ok_or(Unusable::Unknown)?;
    for flag in ["constant_tsc", "nonstop_tsc"] {
        if !flags.split_whitespace().any(|word| word == flag) {
            return Err(Unusable::Flag(flag));
        }
    }
    if sources.split_whitespace().any(|source| source == "tsc") { Ok(()) } else { Err(Unusable::Distrusted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_must_be_even_and_trusted() {
        let good = "processor: 0\nflags\t\t: fpu constant_tsc rep_good nonstop_tsc\n";
        assert_eq!(judge(good, "tsc hpet acpi_pm\n"), Ok(()));
        assert_eq!(judge(good, "hpet acpi_pm\n"), Err(Unusable::Distrusted));
        assert_eq!(judge("flags : fpu constant_tsc\n", "tsc"), Err(Unusable::Flag("nonstop_tsc")));
        assert_eq!(judge("flags : xnonstop_tsc\n", "tsc"), Err(Unusable::Flag("constant_tsc")));
        assert_eq!(judge("", "tsc"), Err(Unusable::Unknown));
    }
}
