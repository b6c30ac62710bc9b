//! Sources that interrupt a CPU, from the kernel's own counters and without tracing.

use serde::Serialize;
use sordino_proc::file::text;
use sordino_proc::machine::{InterruptCounts, interrupts, stolen};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Number of interruptions of each CPU by each source since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    sources: BTreeMap<String, BTreeMap<u32, u64>>,
    /// Time that the hypervisor took from each CPU, in [`TICK`]s.
    stolen: BTreeMap<u32, u64>,
}

/// Unit of times in `/proc/stat` on all supported architectures.
const TICK: Duration = Duration::from_millis(10);

/// A source of interruptions with their number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupter {
    /// Name of the source.
    pub name: String,
    /// Number of its interruptions.
    pub count: u64,
}

impl Counts {
    /// Reads the present counts of interrupts and softirqs, and the time taken by a hypervisor. Takes less than a
    /// millisecond, and interrupts no CPU.
    ///
    /// # Errors
    /// Returns an error if `/proc` cannot be read.
    pub fn now() -> io::Result<Self> {
        let read = |name| {
            let path = format!("/proc/{name}");
            text(&path).map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
        };
        let [interrupts, softirqs, stat] = ["interrupts", "softirqs", "stat"].map(read);
        Ok(Self { stolen: stolen(&stat?).collect(), ..Self::parse(&interrupts?, &softirqs?) })
    }

    /// Parses the texts of `/proc/interrupts` and `/proc/softirqs`.
    ///
    /// ```
    /// use sordino_npt::Counts;
    /// let texts = |count| (format!("  CPU0 CPU1\n 24: 7 {count} IO-APIC 5-edge virtio\n"), "  CPU0 CPU1\nRCU: 1 2\n");
    /// let [before, after] = [1, 4].map(texts).map(|(interrupts, softirqs)| Counts::parse(&interrupts, softirqs));
    /// let interrupters = after.since(&before, 1);
    /// assert_eq!((interrupters[0].name.as_str(), interrupters[0].count), ("interrupt 24 virtio", 3));
    /// assert_eq!(interrupters.len(), 1);
    /// ```
    pub fn parse(interrupts: &str, softirqs: &str) -> Self {
        let mut counts = Self::default();
        counts.read(interrupts, |label, what| match label.parse::<u32>() {
            Ok(number) => {
                format!("interrupt {number} {}", what.split_whitespace().last().unwrap_or_default())
            }
            Err(_) if what.is_empty() => format!("interrupt {label}"),
            Err(_) => format!("{what} ({label})"),
        });
        counts.read(softirqs, |label, _| format!("softirq {label}"));
        counts
    }

    /// Parses a table that has a column for each online CPU, followed by a description.
    fn read(&mut self, table: &str, name: impl Fn(&str, &str) -> String) {
        for InterruptCounts { label, counts, description } in interrupts(table) {
            if !counts.is_empty() {
                self.sources.insert(name(label, &description.join(" ")), counts.into_iter().collect());
            }
        }
    }

    /// Returns the sources that interrupted `cpu` since `earlier`, the most frequent first.
    pub fn since(&self, earlier: &Self, cpu: u32) -> Vec<Interrupter> {
        let count = |counts: &Self, name: &str| counts.sources.get(name)?.get(&cpu).copied();
        let interrupters = self.sources.keys().filter_map(|name| {
            let count = more(count(self, name)?, count(earlier, name).unwrap_or(0))?;
            (count > 0).then(|| Interrupter { name: name.clone(), count })
        });
        let mut interrupters: Vec<_> = interrupters.collect();
        interrupters.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        interrupters
    }

    /// Returns for how long a hypervisor kept `cpu` from running although it was ready to, since `earlier`, with a
    /// resolution of 10 ms; `None` if the CPU was offline. Zero if the hypervisor does not report it.
    pub fn stolen_since(&self, earlier: &Self, cpu: u32) -> Option<Duration> {
        let ticks = self.stolen.get(&cpu)?.saturating_sub(*earlier.stolen.get(&cpu)?);
        Some(TICK * u32::try_from(ticks).unwrap_or(u32::MAX))
    }
}

/// Difference of two counts. The kernel's counters have 32 bits, which a timer exceeds in weeks. `None` if the count
/// decreased, as it can if the CPU was offline in between.
fn more(now: u64, earlier: u64) -> Option<u64> {
    now.checked_sub(earlier).or_else(|| (now + (1 << 32)).checked_sub(earlier).filter(|more| *more < 1 << 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruptions_have_names_and_the_most_frequent_is_first() {
        let before = "           CPU0       CPU2
  0:         10          0   IO-APIC   2-edge      timer
NMI:          0          0   Non-maskable interrupts
LOC:        100        200   Local timer interrupts
ERR:          5
MIS:          0
";
        let after = "           CPU0       CPU2
  0:         10          1   IO-APIC   2-edge      timer
 30:          0          2   PCI-MSIX-0000:00:03.0 0-edge   virtio1-req.0, eth0
NMI:          0          0   Non-maskable interrupts
LOC:        100        207   Local timer interrupts
ERR:          9
";
        let softirqs = |count| format!("      CPU0 CPU2\n  TIMER: 3 {count}\n");
        let interrupters = Counts::parse(after, &softirqs(12)).since(&Counts::parse(before, &softirqs(9)), 2);
        let counts: Vec<_> = interrupters.iter().map(|who| (who.name.as_str(), who.count)).collect();
        assert_eq!(
            counts,
            [
                ("Local timer interrupts (LOC)", 7),
                ("softirq TIMER", 3),
                ("interrupt 30 eth0", 2),
                ("interrupt 0 timer", 1)
            ]
        );
    }

    #[test]
    fn a_cpu_that_went_meanwhile_and_nonsense_are_nobodys_interruptions() {
        let (two, one) = ("CPU0 CPU1\nLOC: 5 5 x\n", "CPU0\nLOC: 4 x\n");
        assert_eq!(Counts::parse(one, "").since(&Counts::parse(two, ""), 1), []);
        assert_eq!(Counts::parse(one, "").since(&Counts::parse(two, ""), 0), []);
        assert_eq!(Counts::parse("", "x: y\n:::").since(&Counts::default(), 0), []);
    }

    #[test]
    fn a_count_that_has_begun_again_goes_on() {
        let almost_full = (1 << 32) - 3;
        assert_eq!([more(9, 4), more(2, almost_full), more(4, 5)], [Some(5), Some(5), None]);
    }

    #[test]
    fn what_the_hypervisor_took_is_each_cpus_own() {
        let stat = |stolen| {
            let text = format!(
                "cpu  1 2 3 4 5 6 7 999 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu3 1 2 3 4 5 6 7 {stolen} 9 10\nintr 5\n"
            );
            Counts { stolen: super::stolen(&text).collect(), ..Counts::default() }
        };
        let (before, after) = (stat(20), stat(25));
        assert_eq!(after.stolen_since(&before, 3), Some(Duration::from_millis(50)));
        assert_eq!(after.stolen_since(&before, 0), Some(Duration::ZERO));
        assert_eq!(before.stolen_since(&after, 3), Some(Duration::ZERO));
        assert_eq!(after.stolen_since(&before, 1), None);
    }

    #[test]
    fn this_machine_has_a_timer() {
        let before = Counts::now().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let after = Counts::now().unwrap();
        let ours = sordino_sched::affinity().unwrap();
        assert!(ours.as_slice().iter().any(|&cpu| !after.since(&before, cpu).is_empty()));
    }
}
