//! Time that the hypervisor took from CPUs, as reported to the kernel.
//!
//! `/proc/stat` counts it by CPU, in hundredths of a second. Without a hypervisor, or if it does not report it, the
//! count never changes.

use sordino_event::{Cpu, Ticks};
use sordino_proc::machine::{self, CpuInfo};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Time that the hypervisor took from a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StolenTime {
    /// The end of the window, in the recording's clock.
    pub at: Ticks,
    /// The CPU from which it was taken.
    pub cpu: Cpu,
    /// The stolen time in nanoseconds.
    pub(crate) time_ns: u64,
    /// Length of the window before `at`, in nanoseconds.
    pub(crate) window_ns: u64,
}

/// Reads the counts of stolen time.
#[derive(Debug, Default)]
pub struct Steal {
    /// The open `/proc/stat`; `None` without a hypervisor.
    stat: Option<File>,
    /// A buffer for the file's text.
    text: Vec<u8>,
    /// Time that the last reading took.
    cost: Duration,
    /// The counts of the last reading: CPU, hundredths of a second.
    last: Vec<(Cpu, u64)>,
    stolen: Vec<StolenTime>,
}

/// Maximum number of entries: a day of ten a second. At the limit the older half is dropped.
const MOST: usize = 864_000;
const NANOSECONDS_PER_TICK: u64 = 10_000_000;
/// Reading takes at most this fraction (1/500) of a CPU's time: the kernel adds up the interrupts of all CPUs for it.
const SHARE: u32 = 500;
/// Longest time between two readings.
const LONGEST: Duration = Duration::from_secs(1);

impl Steal {
    /// Creates a reader of this machine's steal time, which reads nothing without a hypervisor.
    pub fn here() -> Self {
        let cpuinfo = CpuInfo::read_first().unwrap_or_default();
        let stat = if may_have_hypervisor(&cpuinfo) { File::open("/proc/stat").ok() } else { None };
        Self { stat, text: vec![0; 4 << 10], ..Self::default() }
    }

    /// Returns true if the times are due to be read again, `since` the last reading, of which `shortest` has to pass.
    pub fn is_due(&self, since: Duration, shortest: Duration) -> bool {
        // An interrupted reading may have appeared to take long.
        self.stat.is_some() && since >= (self.cost * SHARE).clamp(shortest, LONGEST)
    }

    /// Reads the counts, at the time `at` in the recording's clock and `window_ns` after the last reading.
    pub fn look(&mut self, at: Ticks, window_ns: u64) {
        let begin = Instant::now();
        let Some(stat) = &self.stat else { return };
        // The kernel generates the whole text for each read, so that a single one must suffice.
        let mut length = stat.read_at(&mut self.text, 0).unwrap_or(0);
        while length == self.text.len() {
            self.text.resize(2 * length, 0);
            length = stat.read_at(&mut self.text, 0).unwrap_or(0);
        }
        let text = String::from_utf8_lossy(&self.text[..length]).into_owned();
        self.take(&text, at, window_ns);
        self.cost = begin.elapsed();
    }

    fn take(&mut self, stat: &str, at: Ticks, window_ns: u64) {
        let now: Vec<(Cpu, u64)> = machine::stolen(stat).map(|(cpu, ticks)| (Cpu(cpu), ticks)).collect();
        for &(cpu, ticks) in &now {
            let before = self.last.iter().find(|(known, _)| *known == cpu);
            let more = before.map_or(0, |(_, before)| ticks.saturating_sub(*before));
            if more > 0 {
                if self.stolen.len() >= MOST {
                    self.stolen.drain(..MOST / 2);
                }
                let time_ns = more * NANOSECONDS_PER_TICK;
                self.stolen.push(StolenTime { at, cpu, time_ns, window_ns });
            }
        }
        self.last = now;
    }

    /// Returns the entries since the last call, in order of time.
    pub fn take_stolen(&mut self) -> Vec<StolenTime> {
        std::mem::take(&mut self.stolen)
    }

    /// Returns the entries since `timestamp`.
    pub fn stolen_since(&self, timestamp: Ticks) -> Vec<StolenTime> {
        self.stolen.iter().filter(|stolen| stolen.at >= timestamp).copied().collect()
    }
}

/// Returns true if the processor's flags name a hypervisor, or if no flags are listed.
fn may_have_hypervisor(cpuinfo: &CpuInfo) -> bool {
    cpuinfo.has_flag("hypervisor") != Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_between_two_looks_was_stolen() {
        let mut steal = Steal::default();
        steal.take(
            "cpu  9 9 9 9 9 9 9 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 50 0 0\nintr 1",
            Ticks(5),
            0,
        );
        steal.take(
            "cpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 53 0 0\ncpu2 1 2 3 4 5 6 7 53 0 0\n",
            Ticks(7),
            100,
        );
        steal.take("cpu1 1\ncpux 1 2 3 4 5 6 7 8\nnonsense", Ticks(9), 100);
        assert_eq!(
            steal.take_stolen(),
            [StolenTime { at: Ticks(7), cpu: Cpu(1), time_ns: 30_000_000, window_ns: 100 }]
        );
    }

    #[test]
    fn nothing_is_read_where_no_hypervisor_can_steal() {
        let may_have = |text: &str| may_have_hypervisor(&CpuInfo::from_text(text.to_owned()));
        assert!(may_have("processor : 0\nflags\t\t: fpu hypervisor sse\n") && may_have(""));
        assert!(!may_have("processor : 0\nflags\t\t: fpu sse\n"));
        assert!(!Steal::default().is_due(Duration::MAX, Duration::ZERO));
    }

    #[test]
    fn all_cpus_of_this_machine_are_seen_however_little_room_there_is() {
        let mut steal = Steal { stat: File::open("/proc/stat").ok(), text: vec![0; 8], ..Steal::default() };
        steal.look(Ticks(1), 1);
        let online = sordino_sched::CpuList::online().unwrap();
        assert_eq!(steal.last.iter().map(|(cpu, _)| cpu.0).collect::<Vec<_>>(), online.as_slice());
        let shortest = Duration::from_millis(100);
        assert!(steal.cost > Duration::ZERO && steal.is_due(shortest + SHARE * steal.cost, shortest));
        assert!(!steal.is_due(shortest / 2, shortest) && !steal.is_due(steal.cost, shortest));
    }
}
