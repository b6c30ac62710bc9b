//! Lines on the user's rights to lock memory and to set real-time priorities.

use super::{Line, good};
use sordino_proc::SystemFiles;

/// `CAP_IPC_LOCK` in `linux/capability.h`: the right to lock memory beyond the limit.
const IPC_LOCK: u32 = 14;
/// `CAP_SYS_NICE`: the right to set any priority.
const SYS_NICE: u32 = 23;

pub(super) fn lines(sources: &SystemFiles) -> Vec<Line> {
    let status = sources.text("proc/self/status").unwrap_or_default();
    let limits = sources.text("proc/self/limits").unwrap_or_default();
    let has = |capability: u32| {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).map(|set| set >> capability & 1 == 1)
    };
    vec![
        right(
            "locked memory",
            has(IPC_LOCK),
            soft_limit(&limits, "Max locked memory"),
            |limit| limit == "unlimited",
            "memory that is not locked can be missing when it is needed: a page fault",
            "ulimit -l unlimited, or memlock in /etc/security/limits.conf",
        ),
        right(
            "real-time priority",
            has(SYS_NICE),
            soft_limit(&limits, "Max realtime priority"),
            |limit| limit.parse::<u32>().is_ok_and(|limit| limit > 0),
            "an ordinary thread waits for all others",
            "ulimit -r 99, or rtprio in /etc/security/limits.conf",
        ),
    ]
}

/// Returns the soft limit, the first word behind the name: names contain single spaces.
fn soft_limit<'a>(limits: &'a str, name: &str) -> Option<&'a str> {
    limits.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
}

fn right(
    name: &str,
    capable: Option<bool>,
    limit: Option<&str>,
    suffices: impl Fn(&str) -> bool,
    why: &str,
    remedy: &str,
) -> Line {
    match (capable, limit) {
        (Some(true), _) => Line::new(name, "as much as there is (a capability)", good(true), why),
        (_, None) => Line::unknown(name, "no /proc/self/limits", why),
        (_, Some(limit)) if suffices(limit) => Line::new(name, format!("limit {limit}"), good(true), why),
        (_, Some(limit)) => Line::new(name, format!("limit {limit}"), good(false), why).remedy(remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{tree, verdict_of};
    use super::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units
Max locked memory         8388608              8388608              bytes
Max realtime priority     0                    0
";

    #[test]
    fn a_capability_is_worth_more_than_a_limit() {
        let directory = tempfile::tempdir().unwrap();
        let sources = tree(
            directory.path(),
            &[("proc/self/limits", LIMITS), ("proc/self/status", "CapEff:\t0000000000000000\n")],
        );
        assert_eq!(verdict_of(&lines(&sources), "locked memory"), "WARN limit 8388608");
        assert_eq!(verdict_of(&lines(&sources), "real-time priority"), "WARN limit 0");
        tree(directory.path(), &[("proc/self/status", "CapEff:\t0000000000004000\n")]);
        assert!(verdict_of(&lines(&sources), "locked memory").starts_with("PASS"));
        assert_eq!(verdict_of(&lines(&sources), "real-time priority"), "WARN limit 0");
    }
}
