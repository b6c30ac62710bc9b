//! The whole machine: its memory in `/proc/meminfo`, and the times of its CPUs in `/proc/stat`.

use std::str::SplitAsciiWhitespace;

/// Returns an entry of `/proc/meminfo`, such as `MemTotal`, in bytes; `None` if there is none. Allocates.
///
/// ```
/// use sordino_proc::machine::memory;
/// assert!(memory("MemTotal") >= memory("MemAvailable"));
/// ```
pub fn memory(entry: &str) -> Option<u64> {
    entry_of(&std::fs::read_to_string("/proc/meminfo").ok()?, entry)
}

fn entry_of(meminfo: &str, entry: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(entry)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the CPUs of the text of `/proc/stat`, which are those online, each with its times in hundredths of a second.
///
/// ```
/// use sordino_proc::machine::cpus;
/// let numbers = |stat| cpus(stat).map(|(cpu, _)| cpu).collect::<Vec<_>>();
/// assert_eq!(numbers("cpu  3 0\ncpu0 1 0\ncpu2 2 0\nintr 7"), [0, 2]);
/// ```
pub fn cpus(stat: &str) -> impl Iterator<Item = (u32, SplitAsciiWhitespace<'_>)> {
    stat.lines().take_while(|line| line.starts_with("cpu")).filter_map(|line| {
        let (cpu, times) = line.strip_prefix("cpu")?.split_once(' ')?;
        Some((cpu.parse().ok()?, times.split_ascii_whitespace()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_that_of_the_whole_name_and_a_number() {
        let text = "Buffers: 1 kB\nMemTotal:       2048 kB\nMemTotalHuge: 1 kB\n";
        assert_eq!((entry_of(text, "MemTotal"), entry_of(text, "Mem")), (Some(2 << 20), None));
        assert_eq!(entry_of("MemTotal: x kB", "MemTotal"), None);
    }
}
