//! `/proc/cpuinfo`: an entry of named fields for each CPU that is online.

use crate::file;
use std::io;

/// Path of the file.
const PATH: &str = "/proc/cpuinfo";
/// Bytes that include the first CPU's flags.
const FIRST: u64 = 8 << 10;

/// The text of `/proc/cpuinfo`.
///
/// ```
/// use sordino_proc::machine::CpuInfo;
/// let info = CpuInfo::from_text("processor\t: 0\nflags\t\t: fpu tsc\n\nprocessor\t: 2\n".to_owned());
/// assert_eq!(info.entries().filter_map(|entry| entry.cpu()).collect::<Vec<_>>(), [0, 2]);
/// assert_eq!([info.has_flag("tsc"), info.has_flag("ht")], [Some(true), Some(false)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuInfo(String);

/// The entry of one CPU in `/proc/cpuinfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuEntry<'a>(&'a str);

impl CpuInfo {
    /// Reads the entries of all CPUs, of which some kernels interrupt each one for its frequency.
    ///
    /// # Errors
    /// The kernel's error, if the file can't be read.
    pub fn read() -> io::Result<Self> {
        file::text(PATH).map(Self)
    }

    /// Reads the first CPU's entry, which has the flags; entries behind it may be there, the last one in part.
    ///
    /// # Errors
    /// The kernel's error, if the file can't be read.
    pub fn read_first() -> io::Result<Self> {
        Ok(Self(String::from_utf8_lossy(&file::bytes_at_most(PATH, FIRST)?).into_owned()))
    }

    /// Uses a text that was read elsewhere.
    pub fn from_text(text: String) -> Self {
        Self(text)
    }

    /// Returns true if there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the entries of all CPUs, and any others that the kernel adds.
    pub fn entries(&self) -> impl Iterator<Item = CpuEntry<'_>> {
        self.0.split("\n\n").map(CpuEntry)
    }

    /// Returns the first value of a field, such as `model name`.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.entries().find_map(|entry| entry.field(name))
    }

    /// Returns true if the first CPU has this flag; `None` if no flags are listed.
    pub fn has_flag(&self, flag: &str) -> Option<bool> {
        Some(self.field("flags")?.split_whitespace().any(|word| word == flag))
    }
}

impl<'a> CpuEntry<'a> {
    /// Returns the value of a field.
    pub fn field(self, name: &str) -> Option<&'a str> {
        let mut fields = self.0.lines().filter_map(|line| line.split_once(':'));
        fields.find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
    }

    /// Returns the CPU's number; `None` in an entry about something else.
    pub fn cpu(self) -> Option<u32> {
        self.field("processor")?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_has_its_own_entry() {
        let text =
            "processor\t: 0\ncpu MHz\t\t: 2596.136\n\nprocessor\t: 1\nflags: x y\ncpu MHz\t\t: 800.5\n\n";
        let info = CpuInfo::from_text(text.to_owned());
        let entries: Vec<_> = info.entries().filter(|entry| entry.cpu().is_some()).collect();
        let frequencies: Vec<_> = entries.iter().map(|entry| entry.field("cpu MHz")).collect();
        assert_eq!(frequencies, [Some("2596.136"), Some("800.5")]);
        assert_eq!((info.field("cpu MHz"), info.field("cpu")), (Some("2596.136"), None));
    }

    #[test]
    fn a_flag_is_a_whole_word_of_its_line() {
        let has = |text: &str| CpuInfo::from_text(text.to_owned()).has_flag("hypervisor");
        assert_eq!(has("processor : 0\nflags\t\t: fpu hypervisor sse\n"), Some(true));
        assert_eq!(has("processor : 0\nflags\t\t: xhypervisor sse\nbugs : hypervisor\n"), Some(false));
        assert_eq!([has(""), has("bugs : hypervisor\n")], [None, None]);
    }

    #[test]
    fn this_machine_has_a_cpu() {
        for info in [CpuInfo::read().unwrap(), CpuInfo::read_first().unwrap()] {
            assert!(!info.is_empty() && info.entries().any(|entry| entry.cpu().is_some()));
        }
    }
}
