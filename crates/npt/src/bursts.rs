//! The planned page faults.

/// Bursts of page faults, each at its time.
pub(crate) struct Bursts {
    /// When the next comes, in cycles after the first loop; never: `u64::MAX`.
    pub(crate) next: u64,
    /// When those after it come, the last first.
    later: Vec<u64>,
    /// What was touched. Given back, it would be there already for the next burst.
    touched: Vec<Vec<u8>>,
}

impl Bursts {
    /// What each burst touches: 256 pages.
    const SIZE: usize = 1 << 20;
    /// Room that is asked for, of which the rest is never touched: more than malloc ever takes from memory that it has
    /// (mallopt(3), `M_MMAP_THRESHOLD`: at most 32 MiB).
    const ROOM: usize = 33 << 20;

    pub(crate) fn new(at: impl Iterator<Item = u64>) -> Self {
        let mut later: Vec<u64> = at.collect();
        later.sort_unstable_by(|a, b| b.cmp(a));
        let touched = Vec::with_capacity(later.len());
        Self { next: later.pop().unwrap_or(u64::MAX), later, touched }
    }

    /// Touches memory that is not there, page by page.
    #[cold]
    #[inline(never)]
    pub(crate) fn fault(&mut self) {
        sordino::tracepoint!(npt:faults_begin);
        let mut memory: Vec<u8> = Vec::with_capacity(Self::ROOM);
        memory.resize(Self::SIZE, 1);
        self.touched.push(memory);
        sordino::tracepoint!(npt:faults_end);
        self.next = self.later.pop().unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_burst_finds_its_memory_missing() {
        let faults = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            // proc(5): minflt is field 10, the third after the comm's parenthesis is field 5.
            fields[7].parse::<u64>().unwrap()
        };
        let mut bursts = Bursts::new([1, 2, 3].into_iter());
        for next in [2, 3, u64::MAX] {
            let before = faults();
            bursts.fault();
            assert!(faults() - before >= 256, "{} faults", faults() - before);
            assert_eq!(bursts.next, next);
        }
    }
}
