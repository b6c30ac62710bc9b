//! The kernel's ranking of threads, and the states in which they leave a CPU.

use std::fmt;

/// The kernel's priority of a thread; smaller numbers run first.
///
/// -1 is `SCHED_DEADLINE`, 0 to 98 are the real-time priorities 99 to 1, 100 to 139 are nice -20 to 19.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// Returns true if a thread of this priority runs before one of `other`. Nice values are shares of the CPU, not an
    /// order: no nice value precedes another.
    pub fn outranks(self, other: Self) -> bool {
        self < other && self.is_real_time()
    }

    /// Returns true for a thread of `SCHED_DEADLINE`.
    pub fn is_deadline(self) -> bool {
        self.0 < 0
    }

    /// Returns the first priority of the next lower scheduling class: `SCHED_DEADLINE`, then `SCHED_FIFO` and
    /// `SCHED_RR`, then all others.
    pub fn class_end(self) -> Self {
        match self {
            own if own.is_deadline() => Self(0),
            own if own.is_real_time() => Self(100),
            _ => Self(i32::MAX),
        }
    }

    /// Returns true if the thread is one of `SCHED_DEADLINE`, `SCHED_FIFO` or `SCHED_RR`.
    pub fn is_real_time(self) -> bool {
        self.0 < 100
    }
}

/// Prints the priority as `chrt` and `nice` number it: `deadline`, `RT 95`, `nice -5`. A trace does not distinguish
/// FIFO and RR.
impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            -1 => f.write_str("deadline"),
            number @ 0..=98 => write!(f, "RT {}", 99 - number),
            number @ 100..=139 => write!(f, "nice {}", number - 120),
            number => write!(f, "prio {number}"),
        }
    }
}

/// The state in which a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskState {
    /// The thread could have continued: it was preempted, or it yielded.
    Runnable,
    /// Asleep until something happens or a signal comes (`S`).
    Interruptible,
    /// Asleep until something happens, usually a device or a kernel lock (`D`).
    Uninterruptible,
    /// Stopped by a signal (`T`).
    Stopped,
    /// Stopped by a debugger or tracer (`t`).
    Traced,
    /// A kernel thread that is parked (`P`).
    Parked,
    /// A kernel thread without work (`I`).
    Idle,
    /// The thread exited (`X`, `Z`).
    Dead,
}

impl TaskState {
    /// Reads the `prev_state` of a `sched_switch` event.
    ///
    /// A preempted thread has only a flag above the states: 0x100 since Linux 4.14, one of 0x200 to 0x1000 before.
    pub fn from_bits(bits: i64) -> Self {
        // TASK_UNINTERRUPTIBLE | TASK_NOLOAD: the state of idle kernel threads before they got one of their own.
        const OLD_IDLE: i64 = 0x402;
        let states = [
            (0x01, Self::Interruptible),
            (0x02, Self::Uninterruptible),
            (0x04, Self::Stopped),
            (0x08, Self::Traced),
            (0x10, Self::Dead),
            (0x20, Self::Dead),
            (0x40, Self::Parked),
            (0x80, Self::Idle),
        ];
        if bits & OLD_IDLE == OLD_IDLE {
            return Self::Idle;
        }
        let found = states.into_iter().find(|(bit, _)| bits & bit != 0);
        found.map_or(Self::Runnable, |(_, state)| state)
    }

    /// Reads a state from its text: the letters of `ps`, or the kernel's names.
    pub fn from_label(label: &[u8]) -> Option<Self> {
        Some(match label {
            b"R" | b"R+" | b"TASK_RUNNING" => Self::Runnable,
            b"S" | b"TASK_INTERRUPTIBLE" => Self::Interruptible,
            b"D" | b"DK" | b"TASK_UNINTERRUPTIBLE" => Self::Uninterruptible,
            b"T" | b"TASK_STOPPED" => Self::Stopped,
            b"t" | b"TASK_TRACED" => Self::Traced,
            b"P" | b"TASK_PARKED" => Self::Parked,
            b"I" | b"TASK_IDLE" => Self::Idle,
            b"X" | b"Z" | b"x" | b"EXIT_DEAD" | b"EXIT_ZOMBIE" | b"TASK_DEAD" => Self::Dead,
            _ => return None,
        })
    }

    /// Returns the letter that `ps` shows.
    pub fn letter(self) -> char {
        match self {
            Self::Runnable => 'R',
            Self::Interruptible => 'S',
            Self::Uninterruptible => 'D',
            Self::Stopped => 'T',
            Self::Traced => 't',
            Self::Parked => 'P',
            Self::Idle => 'I',
            Self::Dead => 'X',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_printed_as_users_set_them() {
        let cases = [
            (-1, "deadline"),
            (0, "RT 99"),
            (4, "RT 95"),
            (98, "RT 1"),
            (99, "prio 99"),
            (100, "nice -20"),
            (120, "nice 0"),
            (139, "nice 19"),
            (140, "prio 140"),
        ];
        for (number, text) in cases {
            assert_eq!(Priority(number).to_string(), text);
        }
    }

    #[test]
    fn only_real_time_priorities_outrank() {
        let [deadline, rt95, rt1, nice_minus_20, nice_0] = [-1, 4, 98, 100, 120].map(Priority);
        assert!(deadline.outranks(rt95) && rt95.outranks(rt1) && rt1.outranks(nice_minus_20));
        assert!(!nice_minus_20.outranks(nice_0) && !rt95.outranks(rt95) && !nice_0.outranks(rt1));
    }

    #[test]
    fn states_are_read_as_kernels_of_all_ages_write_them() {
        use TaskState::*;
        let cases = [
            (0, Runnable),
            (0x100, Runnable),
            (0x400, Runnable),
            (0x1000, Runnable),
            (1, Interruptible),
            (2, Uninterruptible),
            (0x82, Uninterruptible),
            (0x402, Idle),
            (0x80, Idle),
            (0x40, Parked),
            (4, Stopped),
            (8, Traced),
            (0x10, Dead),
            (0x20, Dead),
        ];
        for (bits, state) in cases {
            assert_eq!(TaskState::from_bits(bits), state, "{bits:#x}");
        }
    }

    #[test]
    fn a_letter_is_read_back() {
        use TaskState::*;
        for state in [Runnable, Interruptible, Uninterruptible, Stopped, Traced, Parked, Idle, Dead] {
            assert_eq!(TaskState::from_label(state.letter().to_string().as_bytes()), Some(state));
        }
        assert_eq!(TaskState::from_label(b"nonsense"), None);
    }
}
