//! Settings of an instance. Each is read back after setting: the kernel rounds values, and some kernels lack some
//! settings.

use crate::{Error, Instance};
use sordino_event::{Cpu, Tid};
use std::fmt::Write;

/// Trace clock of the CPU's time-stamp counter, which programs read as well.
pub const CLOCK_TSC: &str = "x86-tsc";
/// Trace clock of `CLOCK_MONOTONIC`; every kernel and architecture has it.
pub const CLOCK_MONOTONIC: &str = "mono";

/// Trace clocks of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Names of all clocks.
    pub available: Vec<String>,
    /// Name of the clock in use.
    pub current: String,
}

impl Clocks {
    /// Returns true if there is a clock called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.available.iter().any(|clock| clock == name)
    }
}

impl Instance {
    /// Returns this kernel's trace clocks, and the one for this instance's timestamps.
    ///
    /// # Errors
    /// Returns an error if the kernel's list cannot be read or marks none.
    pub fn clocks(&self) -> Result<Clocks, Error> {
        let text = self.dir.read("trace_clock")?;
        parse_clocks(&text).ok_or_else(|| Error::Unexpected {
            path: self.dir.path("trace_clock"),
            expected: "clocks, one of them in brackets",
            found: text.trim().to_owned(),
        })
    }

    /// Sets the clock for timestamps, and empties the buffer.
    ///
    /// # Errors
    /// Returns an error if there is no such clock, or if another one reads back.
    pub fn set_clock(&self, name: &str) -> Result<(), Error> {
        self.dir.write("trace_clock", name)?;
        let got = self.clocks()?.current;
        if got == name {
            return Ok(());
        }
        Err(Error::NotTaken { path: self.dir.path("trace_clock"), requested: name.to_owned(), got })
    }

    /// Sets the size of each CPU's buffer in KiB, and returns the actual size: the kernel rounds up to whole
    /// sub-buffers. Empties the buffer.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or if the CPUs' sizes differ.
    pub fn set_buffer_kib(&self, kib: u64) -> Result<u64, Error> {
        self.dir.write("buffer_size_kb", &kib.to_string())?;
        self.buffer_kib()
    }

    /// Returns the size of each CPU's buffer in KiB, even if it is allocated only when the first event is enabled.
    ///
    /// # Errors
    /// Returns an error if the CPUs' buffers have different sizes.
    pub fn buffer_kib(&self) -> Result<u64, Error> {
        let text = self.dir.read("buffer_size_kb")?;
        parse_size(&text).ok_or_else(|| Error::Unexpected {
            path: self.dir.path("buffer_size_kb"),
            expected: "one size for all CPUs",
            found: text.trim().to_owned(),
        })
    }

    /// Sets the size of a sub-buffer, which is one page by default, and returns the actual size; Linux 6.8 and later
    /// can. To be set before the buffer's size, which it changes.
    ///
    /// # Errors
    /// [`Error::Missing`] on an older kernel.
    pub fn set_subbuffer_kib(&self, kib: u64) -> Result<u64, Error> {
        self.dir.write("buffer_subbuf_size_kb", &kib.to_string())?;
        self.dir.number("buffer_subbuf_size_kb")
    }

    /// Starts or stops recording. While stopped, enabled events keep their cost but leave no record.
    ///
    /// # Errors
    /// Returns an error if the kernel does not accept the value.
    pub fn set_tracing(&self, on: bool) -> Result<(), Error> {
        self.dir.set("tracing_on", digit(on))
    }

    /// Selects the behaviour of a full buffer: to overwrite the oldest events (flight recorder), or to discard the
    /// newest.
    ///
    /// # Errors
    /// Returns an error if the kernel does not accept the value.
    pub fn set_overwrite(&self, on: bool) -> Result<(), Error> {
        self.dir.set("options/overwrite", digit(on))
    }

    /// Traces on these CPUs only; an empty list traces on none.
    ///
    /// # Errors
    /// Returns an error if the machine lacks one of them.
    pub fn set_cpus(&self, cpus: &[Cpu]) -> Result<(), Error> {
        let requested = mask(cpus);
        self.dir.write("tracing_cpumask", &requested)?;
        let got = self.dir.read("tracing_cpumask")?;
        if significant(&got) == significant(&requested) {
            return Ok(());
        }
        let got = got.trim().to_owned();
        Err(Error::NotTaken { path: self.dir.path("tracing_cpumask"), requested, got })
    }

    /// Traces events of these threads only and, if `follow` is set, of those that they fork from now on. An empty list
    /// traces all threads.
    ///
    /// Once set, the instance stays slower until it is removed: by about 90 ns for a pair of events.
    ///
    /// # Errors
    /// Returns an error if one of the ids is not a thread's.
    pub fn set_threads(&self, threads: &[Tid], follow: bool) -> Result<(), Error> {
        self.dir.set("options/event-fork", digit(follow))?;
        let mut list = String::new();
        for Tid(tid) in threads {
            let _ = writeln!(list, "{tid}");
        }
        self.dir.write("set_event_pid", &list)?;
        let got = self.dir.read("set_event_pid")?;
        let sorted = |text: &str| {
            let mut numbers: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        };
        let (has, requested) = (sorted(&got), sorted(&list));
        // Threads that they have forked meanwhile are included already.
        let is_taken = if follow { requested.iter().all(|tid| has.contains(tid)) } else { has == requested };
        if is_taken {
            return Ok(());
        }
        let join = |text: &str| sorted(text).join(" ");
        Err(Error::NotTaken { path: self.dir.path("set_event_pid"), requested: join(&list), got: join(&got) })
    }
}

pub(crate) fn digit(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

/// Parses `local [global] x86-tsc`.
fn parse_clocks(text: &str) -> Option<Clocks> {
    let current = text.split(['[', ']']).nth(1)?.to_owned();
    let available = text.split_whitespace().map(|clock| clock.trim_matches(['[', ']']).to_owned());
    Some(Clocks { available: available.collect(), current })
}

/// Parses `1408` or `7 (expanded: 1408)`.
fn parse_size(text: &str) -> Option<u64> {
    text.trim().trim_end_matches(')').rsplit(' ').next()?.parse().ok()
}

/// Formats a set of CPUs as the kernel does: groups of eight hexadecimal digits, the highest first.
fn mask(cpus: &[Cpu]) -> String {
    let groups = cpus.iter().map(|cpu| cpu.0 / 32 + 1).max().unwrap_or(1);
    let group = |group: u32| {
        let bits =
            cpus.iter().filter(|cpu| cpu.0 / 32 == group).fold(0u32, |bits, cpu| bits | 1 << (cpu.0 % 32));
        format!("{bits:08x}")
    };
    (0..groups).rev().map(group).collect::<Vec<_>>().join(",")
}

/// Normalises a mask: removes commas and leading zeros.
fn significant(mask: &str) -> String {
    let digits: String = mask.trim().chars().filter(|&c| c != ',').collect();
    digits.trim_start_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_in_brackets_is_the_current_one() {
        let clocks = parse_clocks("local [global] x86-tsc\n").unwrap();
        assert_eq!((clocks.current.as_str(), clocks.has("x86-tsc")), ("global", true));
        assert_eq!(clocks.available, ["local", "global", "x86-tsc"]);
        assert_eq!(parse_clocks("local global"), None);
    }

    #[test]
    fn the_size_is_the_one_the_buffer_will_have() {
        assert_eq!(parse_size("7 (expanded: 1408)\n"), Some(1408));
        assert_eq!(parse_size("103\n"), Some(103));
        assert_eq!(parse_size("X\n"), None);
    }

    #[test]
    fn sets_of_cpus_are_written_in_groups() {
        assert_eq!(mask(&[Cpu(0), Cpu(1)]), "00000003");
        assert_eq!(mask(&[Cpu(33), Cpu(4)]), "00000002,00000010");
        assert_eq!(mask(&[]), "00000000");
        assert_eq!(significant("3\n"), significant("00000000,00000003"));
        assert_ne!(significant("3,00000000"), significant("3"));
    }
}
