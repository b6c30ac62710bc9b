//! Planned page faults, as known disturbances.

/// Bursts of page faults at planned times.
pub(crate) struct Bursts {
    /// Time of the next burst in cycles after the first loop; `u64::MAX` if there is none.
    pub(crate) next: u64,
    /// Times of the bursts after the next, the last first.
    later: Vec<u64>,
    /// Memory of earlier bursts. It is kept because freed memory would be present already at the next burst.
    touched: Vec<Vec<u8>>,
}

impl Bursts {
    /// Size of a burst's memory in bytes: 256 pages.
    const SIZE: usize = 1 << 20;
    /// Size of an allocation, most of which is never touched. It exceeds the greatest size for which malloc reuses
    /// memory (mallopt(3), `M_MMAP_THRESHOLD`: at most 32 MiB), so each burst gets new pages.
    const ROOM: usize = 33 << 20;

    pub(crate) fn new(at: impl Iterator<Item = u64>) -> Self {
        let mut later: Vec<u64> = at.collect();
        later.sort_unstable_by(|a, b| b.cmp(a));
        let touched = Vec::with_capacity(later.len());
        Self { next: later.pop().unwrap_or(u64::MAX), later, touched }
    }

    /// Touches absent memory, page by page.
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
            let stat = sordino_proc::file::text("/proc/thread-self/stat").unwrap();
            // The field is the number of minor faults.
            sordino_proc::stat::Stat::parse(&stat).unwrap().number::<u64>(10).unwrap()
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
