//! The cost of a dump: each user's share of it, and the time that a thread has used.

use rustix::process::Pid;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use sordino_proc::file::text;
use std::time::Duration;

/// Maximum time for one user's processes and files: CPU time for reading `/proc`, elapsed time for files.
const USER_TIME: Duration = Duration::from_millis(400);
/// Maximum size of one user's threads and mappings in a dump, in bytes: some 60,000 of them.
const USER_BYTES: usize = 8 << 20;

/// Time and memory that a user's processes have used so far.
#[derive(Debug, Default)]
pub(super) struct Share {
    pub(super) time: Duration,
    pub(super) bytes: usize,
}

impl Share {
    pub(super) fn is_used_up(&self) -> bool {
        self.time >= USER_TIME || self.bytes >= USER_BYTES
    }
}

/// Returns the time during which a thread was runnable and did not run.
pub(super) fn waited_for_a_cpu(thread: Pid) -> Duration {
    let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
    let statistics = text(&path).unwrap_or_default();
    let nanoseconds = statistics.split_whitespace().nth(1).and_then(|waited| waited.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Returns the time that this thread has used: CPU time, or, with `blocked`, elapsed time without that of waiting for a
/// CPU.
pub(super) fn spent(blocked: bool) -> Duration {
    let clock = if blocked { ClockId::Monotonic } else { ClockId::ThreadCPUTime };
    let time = clock_gettime(clock);
    let waited = if blocked { waited_for_a_cpu(gettid()) } else { Duration::ZERO };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).saturating_sub(waited)
}
