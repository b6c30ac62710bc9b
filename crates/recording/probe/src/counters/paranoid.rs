//! The limit of `/proc/sys/kernel/perf_event_paranoid` for unprivileged users.

use std::fmt;
use std::fs;

/// The kernel's limit for users without `CAP_PERFMON`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paranoid {
    /// The value of `/proc/sys/kernel/perf_event_paranoid`, if it can be read.
    pub now: Option<i32>,
    /// The largest value that would permit the counter.
    pub needed: i32,
}

impl Paranoid {
    pub(super) fn read(needed: i32) -> Self {
        let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        Self { now: text.ok().and_then(|text| text.trim().parse().ok()), needed }
    }
}

impl fmt::Display for Paranoid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now, needed } = self;
        match now {
            Some(now) if now > needed => write!(
                f,
                "/proc/sys/kernel/perf_event_paranoid is {now}: it has to be {needed}, or the program needs CAP_PERFMON"
            ),
            _ => f.write_str(
                "/proc/sys/kernel/perf_event_paranoid is not why: a container's filter of system calls may be, or a security module",
            ),
        }
    }
}
