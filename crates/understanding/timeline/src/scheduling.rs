//! A thread's scheduling policy as text.

use std::fmt;

/// A thread's scheduling policy and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// The policy by the kernel's number.
    pub policy: i64,
    /// The priority of a real-time thread, 1 to 99.
    pub priority: i64,
    /// The nice value of a thread that is not real-time.
    pub nice: i64,
}

impl Scheduling {
    /// Returns the policy's name without `SCHED_`, if the number is known.
    pub fn policy_name(self) -> Option<&'static str> {
        const NAMES: [Option<&str>; 8] = [
            Some("OTHER"),
            Some("FIFO"),
            Some("RR"),
            Some("BATCH"),
            None,
            Some("IDLE"),
            Some("DEADLINE"),
            Some("EXT"),
        ];
        NAMES.get(usize::try_from(self.policy).ok()?).copied().flatten()
    }
}

/// Prints `FIFO 90`, `OTHER nice 0` or `DEADLINE`.
impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.policy_name() {
            Some(name @ ("FIFO" | "RR")) => write!(f, "{name} {}", self.priority),
            Some(name @ ("DEADLINE" | "IDLE")) => f.write_str(name),
            Some(name) => write!(f, "{name} nice {}", self.nice),
            None => write!(f, "policy {}", self.policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduling_is_told_as_users_set_it() {
        let text = |policy| Scheduling { policy, priority: 90, nice: -5 }.to_string();
        let texts = [0, 1, 2, 3, 4, 5, 6, 99, -1].map(text);
        let expected = [
            "OTHER nice -5",
            "FIFO 90",
            "RR 90",
            "BATCH nice -5",
            "policy 4",
            "IDLE",
            "DEADLINE",
            "policy 99",
            "policy -1",
        ];
        assert_eq!(texts, expected);
    }
}
