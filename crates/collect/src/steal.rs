//! How long the hypervisor kept CPUs to itself, as far as it tells the kernel.
//!
//! `/proc/stat` counts that by CPU, in hundredths of a second; where there is no hypervisor, or it does not tell, the count
//! stands still.

use std::fs;

/// Time that was stolen from a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stolen {
    /// Until when, in the recording's clock.
    pub(crate) at: u64,
    /// From which CPU.
    pub(crate) cpu: u32,
    /// How long.
    pub(crate) time_ns: u64,
    /// Within how much time before `at`.
    pub(crate) window_ns: u64,
}

/// Watches the counts.
#[derive(Debug, Default)]
pub(crate) struct Steal {
    /// As of the last look: CPU, hundredths of a second.
    last: Vec<(u32, u64)>,
    stolen: Vec<Stolen>,
}

/// As many are kept, a day of them, ten a second; then the older half is forgotten.
const MOST: usize = 864_000;
const NANOSECONDS_PER_TICK: u64 = 10_000_000;

impl Steal {
    /// Looks now, which is `at` in the recording's clock; `window_ns` after the last look.
    pub(crate) fn look(&mut self, at: u64, window_ns: u64) {
        self.take(&fs::read_to_string("/proc/stat").unwrap_or_default(), at, window_ns);
    }

    fn take(&mut self, stat: &str, at: u64, window_ns: u64) {
        let now: Vec<(u32, u64)> = stat.lines().filter_map(line).collect();
        for &(cpu, ticks) in &now {
            let before = self.last.iter().find(|(known, _)| *known == cpu);
            let more = before.map_or(0, |(_, before)| ticks.saturating_sub(*before));
            if more > 0 {
                if self.stolen.len() >= MOST {
                    self.stolen.drain(..MOST / 2);
                }
                let time_ns = more * NANOSECONDS_PER_TICK;
                self.stolen.push(Stolen { at, cpu, time_ns, window_ns });
            }
        }
        self.last = now;
    }

    /// All that was seen since this was asked last, in the order of time.
    pub(crate) fn take_stolen(&mut self) -> Vec<Stolen> {
        std::mem::take(&mut self.stolen)
    }

    /// What was seen since `stamp`.
    pub(crate) fn stolen_since(&self, stamp: u64) -> Vec<Stolen> {
        self.stolen.iter().filter(|stolen| stolen.at >= stamp).copied().collect()
    }
}

/// Reads `cpu1 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...`.
fn line(line: &str) -> Option<(u32, u64)> {
    let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
    let cpu = words.next()?.parse().ok().filter(|_| !line.starts_with("cpu "))?;
    Some((cpu, words.nth(7)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_between_two_looks_was_stolen() {
        let mut steal = Steal::default();
        steal.take(
            "cpu  9 9 9 9 9 9 9 99 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 50 0 0\nintr 1",
            5,
            0,
        );
        steal.take(
            "cpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 53 0 0\ncpu2 1 2 3 4 5 6 7 53 0 0\n",
            7,
            100,
        );
        steal.take("nonsense\ncpu1 1\ncpux 1 2 3 4 5 6 7 8", 9, 100);
        assert_eq!(steal.take_stolen(), [Stolen { at: 7, cpu: 1, time_ns: 30_000_000, window_ns: 100 }]);
    }
}
