//! Lists of CPUs, as the kernel and its tools write them.

use std::fmt;
use std::str::FromStr;
use std::{fs, io};

/// CPUs in ascending order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

/// A text is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCpuList {
    /// There is nothing in it.
    #[error("no CPU in the list")]
    Empty,
    /// A part is no number and no range of numbers.
    #[error("'{0}' is no CPU and no range of CPUs, such as 0-3,5")]
    Part(String),
    /// A CPU's number is larger than any machine's.
    #[error("there is no CPU {0}")]
    TooLarge(u32),
}

/// No machine has more; a typing error must not fill the memory.
const MOST: u32 = 1 << 16;

impl CpuList {
    /// Of these CPUs, in any order.
    pub fn new(cpus: impl IntoIterator<Item = u32>) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }

    /// The CPUs that are online now.
    ///
    /// # Errors
    /// If sysfs can't be read.
    pub fn online() -> io::Result<Self> {
        Self::from_sysfs("/sys/devices/system/cpu/online")
    }

    /// The CPUs that could ever be online.
    ///
    /// # Errors
    /// If sysfs can't be read.
    pub fn possible() -> io::Result<Self> {
        Self::from_sysfs("/sys/devices/system/cpu/possible")
    }

    fn from_sysfs(path: &str) -> io::Result<Self> {
        fs::read_to_string(path)?
            .trim()
            .parse()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// In ascending order.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is one of them.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// Those that are not in `others`.
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
    fn this_machine_has_cpus() {
        let online = CpuList::online().unwrap();
        assert!(!online.is_empty());
        assert!(online.without(&CpuList::possible().unwrap()).is_empty());
    }
}
