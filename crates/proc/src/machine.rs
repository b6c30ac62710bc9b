//! The whole machine: its memory in `/proc/meminfo`, its CPUs in `/proc/cpuinfo` and their times in `/proc/stat`, its
//! interrupts in `/proc/interrupts`, its idle states, its kernel's release, settings and model of preemption.

mod cpuinfo;
mod idle;
mod interrupts;
mod preemption;
mod turbo;

pub use cpuinfo::{CpuEntry, CpuInfo};
pub use idle::{IdleState, deepest_idle_state};
pub use interrupts::{InterruptCounts, interrupts};
pub use preemption::{PreemptionModel, short_version};
pub use turbo::turbo;

use crate::file;
use std::path::Path;
use std::str::SplitAsciiWhitespace;

/// Returns an entry of `/proc/meminfo`, such as `MemTotal`, in bytes; `None` if there is none. Allocates.
///
/// ```
/// use sordino_proc::machine::memory;
/// assert!(memory("MemTotal") >= memory("MemAvailable"));
/// ```
pub fn memory(entry: &str) -> Option<u64> {
    memory_in(&file::text("/proc/meminfo").ok()?, entry)
}

/// Returns an entry in the text of `/proc/meminfo`, in bytes; `None` if there is none.
pub fn memory_in(meminfo: &str, entry: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(entry)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns a setting of the kernel's below `/proc/sys`, such as `kernel/osrelease`, without white space around it;
/// `None` if it can't be read.
///
/// ```
/// use sordino_proc::machine::sysctl;
/// assert_eq!(sysctl("kernel/ostype").as_deref(), Some("Linux"));
/// assert_eq!(sysctl("kernel/nothing"), None);
/// ```
pub fn sysctl(name: &str) -> Option<String> {
    Some(file::text(format!("/proc/sys/{name}")).ok()?.trim().to_owned())
}

/// Returns the release of the running kernel, such as `6.1.0-31-amd64`; empty if it can't be read.
pub fn kernel_release() -> String {
    kernel_release_below(Path::new("/"))
}

/// Returns the release of the kernel whose `proc` is in the directory `root`; empty if it can't be read.
pub fn kernel_release_below(root: &Path) -> String {
    let path = root.join("proc/sys/kernel/osrelease");
    file::text(path).unwrap_or_default().trim().to_owned()
}

/// Returns the major and the minor number of a release.
///
/// ```
/// use sordino_proc::machine::{kernel_release, version};
/// assert_eq!(["6.12.0-rc1", "6.1", "6", ""].map(version), [Some((6, 12)), Some((6, 1)), None, None]);
/// assert!(version(&kernel_release()) > Some((3, 0)));
/// ```
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
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

/// Returns the time of each CPU in the text of `/proc/stat` in which a hypervisor kept it from running although it was
/// ready to, in hundredths of a second.
///
/// ```
/// use sordino_proc::machine::stolen;
/// assert_eq!(stolen("cpu0 1 2 3 4 5 6 7 8 9\n").collect::<Vec<_>>(), [(0, 8)]);
/// ```
pub fn stolen(stat: &str) -> impl Iterator<Item = (u32, u64)> {
    cpus(stat).filter_map(|(cpu, mut times)| Some((cpu, times.nth(7)?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_that_of_the_whole_name_and_a_number() {
        let text = "Buffers: 1 kB\nMemTotal:       2048 kB\nMemTotalHuge: 1 kB\n";
        assert_eq!((memory_in(text, "MemTotal"), memory_in(text, "Mem")), (Some(2 << 20), None));
        assert_eq!(memory_in("MemTotal: x kB", "MemTotal"), None);
    }
}
