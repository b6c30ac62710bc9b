//! The machine's limits for a recorder: descriptors and memory.

use crate::headroom::Headroom;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sordino_proc::machine;
use std::fs;

/// Maximum number of descriptors that a recorder uses.
const MOST_DESCRIPTORS: u64 = 1 << 20;
/// The number of descriptors that every system allows.
const FEW_DESCRIPTORS: u64 = 1024;

/// Raises this process's limit of descriptors: each program takes several. With `CAP_SYS_RESOURCE`, the hard limit is
/// raised, too. Fails silently: there is then room for fewer programs. Returns the previous limit, which [`with`]
/// restores for children.
pub fn raise_descriptors() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let most = fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse().ok());
    let most = most.unwrap_or(MOST_DESCRIPTORS).min(MOST_DESCRIPTORS);
    let is_less = before.maximum.is_some_and(|maximum| maximum < most);
    let raised =
        is_less && setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) }).is_ok();
    if !raised {
        let maximum = before.maximum;
        let current = Some(maximum.unwrap_or(most).min(most.max(before.current.unwrap_or(0))));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
    before
}

/// Calls `call`, which starts a child, with this limit of descriptors, so that a recorded program has its usual limit.
/// This process has few descriptors open that early.
pub fn with<T>(descriptors: Rlimit, call: impl FnOnce() -> T) -> T {
    let ours = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, descriptors);
    let result = call();
    let _ = setrlimit(Resource::Nofile, ours);
    result
}

/// Returns this process's limit of descriptors.
pub fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(MOST_DESCRIPTORS).max(FEW_DESCRIPTORS)
}

/// Returns the number of programs that may wait for an answer at a time: each keeps a connection, and a quarter of the
/// descriptors is reserved for these. The others are for what programs need when they are recorded.
pub fn most_waiting() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(MOST_DESCRIPTORS);
    usize::try_from(descriptors / 4).unwrap_or(usize::MAX).max(1)
}

/// Returns the memory that this process may use, in bytes: the machine's, or less if its control groups limit it; and
/// what these have left.
pub(crate) fn memory() -> (u64, Headroom) {
    let all = machine::memory("MemTotal").unwrap_or(u64::MAX);
    let headroom = Headroom::of_this_process(all);
    (headroom.limit().unwrap_or(all), headroom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_read() {
        assert!(memory().0 >= 64 << 20);
    }

    #[test]
    fn a_child_has_the_limit_that_was_before() {
        let before = getrlimit(Resource::Nofile);
        let few = Rlimit { current: Some(200), maximum: before.maximum };
        let child = || std::process::Command::new("sh").args(["-c", "ulimit -Sn"]).output().unwrap();
        assert_eq!(with(few, child).stdout, b"200\n");
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
