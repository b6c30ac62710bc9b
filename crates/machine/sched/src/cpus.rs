//! Lists of CPUs in the format of the kernel and its tools.

use sordino_proc::{file, machine};
use std::fmt;
use std::str::FromStr;
use std::{fs, io};

/// A set of CPUs in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuList(Vec<u32>);

/// The text is not a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCpuList {
    /// The text names no CPU.
    #[error("no CPU in the list")]
    Empty,
    /// A part is neither a number nor a range.
    #[error("'{0}' is no CPU and no range of CPUs, such as 0-3,5")]
    Part(String),
    /// A CPU's number exceeds those of all machines.
    #[error("there is no CPU {0}")]
    TooLarge(u32),
}

/// Limit of a CPU's number: no machine has more, and a typing error must not exhaust the memory.
const MOST: u32 = 1 << 16;

impl CpuList {
    /// Creates a list of CPUs that are given in any order.
    pub fn new(cpus: impl IntoIterator<Item = u32>) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }

    /// Returns the CPUs that are online now: from sysfs or, if that is not mounted, from `/proc/stat`.
    ///
    /// # Errors
    /// Returns an error if neither can be read.
    pub fn online() -> io::Result<Self> {
        Self::from_sysfs("/sys/devices/system/cpu/online").or_else(|error| {
            let stat = file::text("/proc/stat").unwrap_or_default();
            let cpus = Self::in_stat(&stat);
            let remedy = "and /proc/stat does not tell which CPUs are online either: mount /sys or /proc";
            let neither = || io::Error::new(error.kind(), format!("{error}, {remedy}"));
            if cpus.is_empty() { Err(neither()) } else { Ok(cpus) }
        })
    }

    fn in_stat(stat: &str) -> Self {
        Self::new(machine::cpus(stat).map(|(cpu, _)| cpu))
    }

    /// Returns the CPUs that could ever be online.
    ///
    /// # Errors
    /// Returns an error if sysfs cannot be read.
    pub fn possible() -> io::Result<Self> {
        Self::from_sysfs("/sys/devices/system/cpu/possible")
    }

    /// Parses a mask as the kernel prints it: groups of at most eight hexadecimal digits, the highest CPUs first.
    ///
    /// ```
    /// # use sordino_sched::CpuList;
    /// let cpus = CpuList::from_mask("1,00000006")?;
    /// assert_eq!(cpus.to_string(), "1-2,32");
    /// assert_eq!(cpus.to_mask(), "1,00000006");
    /// # Ok::<(), sordino_sched::BadCpuList>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the text is not a mask.
    pub fn from_mask(mask: &str) -> Result<Self, BadCpuList> {
        let mut cpus = Vec::new();
        for (index, group) in (0..).zip(mask.trim().rsplit(',')) {
            let digits = group.len() <= 8 && group.bytes().all(|byte| byte.is_ascii_hexdigit());
            let bits = u32::from_str_radix(group, 16).ok().filter(|_| digits);
            let bits = bits.ok_or_else(|| BadCpuList::Part(mask.trim().to_owned()))?;
            let first = 32 * index;
            if first >= MOST {
                return Err(BadCpuList::TooLarge(first));
            }
            cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit));
        }
        Ok(Self::new(cpus))
    }

    /// Formats a mask as the kernel parses it.
    pub fn to_mask(&self) -> String {
        let groups = self.0.last().map_or(0, |cpu| cpu / 32) + 1;
        let mut words = vec![0u32; groups as usize];
        for cpu in &self.0 {
            words[(cpu / 32) as usize] |= 1 << (cpu % 32);
        }
        let mut mask = String::new();
        for word in words.iter().rev() {
            mask += &if mask.is_empty() { format!("{word:x}") } else { format!(",{word:08x}") };
        }
        mask
    }

    fn from_sysfs(path: &str) -> io::Result<Self> {
        let named = |kind, error: &dyn fmt::Display| io::Error::new(kind, format!("{path}: {error}"));
        let text = fs::read_to_string(path).map_err(|error| named(error.kind(), &error))?;
        text.trim().parse().map_err(|error: BadCpuList| named(io::ErrorKind::InvalidData, &error))
    }

    /// The CPUs' numbers in ascending order.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Returns true if the list has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the list contains `cpu`.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// Returns true if the lists have a CPU in common.
    pub fn overlaps(&self, others: &Self) -> bool {
        self.0.iter().any(|&cpu| others.contains(cpu))
    }

    /// Returns the CPUs that are in both lists.
    pub fn intersection(&self, others: &Self) -> Self {
        Self(self.0.iter().copied().filter(|&cpu| others.contains(cpu)).collect())
    }

    /// Returns the CPUs that are not in `others`.
    pub fn without(&self, others: &Self) -> Self {
        Self(self.0.iter().copied().filter(|&cpu| !others.contains(cpu)).collect())
    }
}

impl FromStr for CpuList {
    type Err = BadCpuList;
    fn from_str(text: &str) -> Result<Self, BadCpuList> {
        let mut cpus = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let bad = || BadCpuList::Part(part.to_owned());
            let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad());
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last >= MOST {
                return Err(BadCpuList::TooLarge(last));
            }
            if first > last {
                return Err(bad());
            }
            cpus.extend(first..=last);
        }
        if cpus.is_empty() { Err(BadCpuList::Empty) } else { Ok(Self::new(cpus)) }
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &self.0[..];
        let mut separator = "";
        while let Some(&first) = rest.first() {
            let run = (first..).zip(rest).take_while(|(number, cpu)| number == *cpu).count();
            let last = rest[run - 1];
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            (rest, separator) = (&rest[run..], ",");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for (text, cpus, written) in [
            ("0", vec![0], "0"),
            ("3,1,2,1", vec![1, 2, 3], "1-3"),
            ("0-1, 4-6,9", vec![0, 1, 4, 5, 6, 9], "0-1,4-6,9"),
        ] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!((list.as_slice(), list.to_string().as_str()), (&cpus[..], written));
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let parse = |text: &str| text.parse::<CpuList>().unwrap_err();
        assert_eq!(parse(""), BadCpuList::Empty);
        assert_eq!(parse(" , "), BadCpuList::Empty);
        for text in ["a", "1-", "-1", "3-1", "1-2-3", "0x1", "1;2"] {
            assert_eq!(parse(text), BadCpuList::Part(text.to_owned()));
        }
        assert_eq!(parse("0-4294967295"), BadCpuList::TooLarge(u32::MAX));
    }

    #[test]
    fn masks_are_read_and_written_as_the_kernel_does() {
        for (mask, list, written) in [
            ("3", "0-1", "3"),
            ("00000000,00000002\n", "1", "2"),
            ("80000000,00000001", "0,63", "80000000,00000001"),
            ("0", "", "0"),
        ] {
            let cpus = CpuList::from_mask(mask).unwrap();
            assert_eq!((cpus.to_string().as_str(), cpus.to_mask().as_str()), (list, written));
        }
        for mask in ["", "x", "1,", "+1", "123456789"] {
            assert!(CpuList::from_mask(mask).is_err(), "{mask}");
        }
        assert_eq!(CpuList::from_mask(&"1,".repeat(5000)[..9999]), Err(BadCpuList::TooLarge(MOST)));
    }

    #[test]
    fn this_machine_has_cpus() {
        let online = CpuList::online().unwrap();
        assert!(!online.is_empty());
        assert!(online.without(&CpuList::possible().unwrap()).is_empty());
        assert_eq!(CpuList::in_stat(&fs::read_to_string("/proc/stat").unwrap()), online);
    }
}
