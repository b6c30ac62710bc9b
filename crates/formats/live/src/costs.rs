//! The CPU time of the recorder's threads and of this process.

use rustix::time::{ClockId, clock_gettime};
use sordino_proc::file::of_thread;
use sordino_proc::list::tids;
use sordino_watch::{Cost, ThreadCost};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The CPU times at the last measurement.
pub struct Costs {
    at: Instant,
    own: Duration,
    /// The times of the recorder's threads, by id, with their names.
    threads: BTreeMap<u32, (String, Duration)>,
}

impl Costs {
    /// Creates the costs, with the present times.
    pub fn begin(recorder: Option<u32>) -> Self {
        Self { at: Instant::now(), own: own(), threads: recorder.map(threads).unwrap_or_default() }
    }

    /// Returns the shares of a CPU since the last call. They are 0 for a recorder that the last call did not name.
    pub fn since(&mut self, recorder: Option<u32>) -> Cost {
        let mut before = std::mem::replace(self, Self::begin(recorder));
        if before.threads.is_empty() {
            before.threads.clone_from(&self.threads);
        }
        let elapsed = before.at.elapsed().as_secs_f64().max(1e-9);
        let share = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / elapsed;
        let threads = self.threads.iter().map(|(tid, (name, time))| {
            let before = before.threads.get(tid).map_or(Duration::ZERO, |(_, time)| *time);
            ThreadCost { name: name.clone(), share: share(*time, before) }
        });
        let mut threads: Vec<ThreadCost> = threads.collect();
        threads.sort_by(|a, b| b.share.total_cmp(&a.share));
        Cost {
            recorder_share: recorder.map(|_| threads.iter().map(|thread| thread.share).sum()),
            threads,
            reader_share: Some(share(self.own, before.own)),
        }
    }
}

fn own() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0).cast_unsigned(), time.tv_nsec.max(0) as u32)
}

/// Returns the CPU time of each thread of a process, to the nanosecond where the kernel counts it.
fn threads(pid: u32) -> BTreeMap<u32, (String, Duration)> {
    let thread = |tid: i32| {
        let read = |file: &str| of_thread(pid.cast_signed(), tid, file).ok();
        let name = read("comm")?.trim().to_owned();
        let nanos = read("schedstat")?.split_whitespace().next()?.parse().ok()?;
        Some((tid.cast_unsigned(), (name, Duration::from_nanos(nanos))))
    };
    tids(pid.cast_signed()).filter_map(thread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_this_process_is_that_of_its_threads() {
        let mut costs = Costs::begin(Some(std::process::id()));
        let begin = own();
        while own() < begin + Duration::from_millis(30) {}
        let cost = costs.since(Some(std::process::id()));
        let [whole, own] = [cost.recorder_share, cost.reader_share].map(Option::unwrap);
        assert!(own > 0.0 && whole > 0.0, "{cost:?}");
        assert!(cost.threads.is_sorted_by(|a, b| a.share >= b.share));
        assert_eq!(Costs::begin(None).since(None).recorder_share, None);
    }
}
