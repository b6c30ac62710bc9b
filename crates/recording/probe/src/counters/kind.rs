//! The performance counters, under the names that perf gives them.

use super::NoCounters;
use crate::point::Label;

/// A kind of performance counter.
#[derive(Debug)]
pub(super) struct CounterKind {
    pub(super) name: &'static str,
    /// The type of the event for perf_event_open(2).
    pub(super) ty: u32,
    pub(super) config: u64,
    pub(super) of: Of,
}

/// The code that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The thread's code and, if permitted, the kernel's on its behalf.
    Both,
    /// Only the kernel's: without it, nothing is left.
    Kernel,
    /// The time of both, which the kernel reports whatever else is permitted.
    Time,
}

/// A counter that was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestedCounter {
    number: u8,
    /// True if the kernel's part is left out.
    pub(super) user_only: bool,
}

/// The most counters that one thread may have.
pub(super) const MOST: usize = 8;
/// The number added for a counter that counts only user space.
const USER_ONLY: u8 = 128;

/// The event types `PERF_TYPE_HARDWARE` and `PERF_TYPE_SOFTWARE`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

macro_rules! kinds {
    ($($number:literal $name:literal $ty:ident $config:literal $of:ident;)*) => {
        const KINDS: &[CounterKind] = &[$(CounterKind { name: $name, ty: $ty, config: $config, of: Of::$of }),*];
        /// The names of the counters' numbers in records.
        pub(super) static LABELS: &[Label] = &[$(
            label($number, concat!($name, "\0")),
            label($number + USER_ONLY, concat!($name, ":u\0")),
        )*];
        const _: () = {
            let mut next = 0;
            $(assert!($number == next); next += 1;)*
            assert!(next == KINDS.len());
        };
    };
}

// The configurations are `enum perf_hw_id` and `enum perf_sw_ids`.
kinds! {
    0 "cycles" HARDWARE 0 Both;
    1 "instructions" HARDWARE 1 Both;
    2 "cache-references" HARDWARE 2 Both;
    3 "cache-misses" HARDWARE 3 Both;
    4 "branches" HARDWARE 4 Both;
    5 "branch-misses" HARDWARE 5 Both;
    6 "bus-cycles" HARDWARE 6 Both;
    7 "stalled-cycles-frontend" HARDWARE 7 Both;
    8 "stalled-cycles-backend" HARDWARE 8 Both;
    9 "ref-cycles" HARDWARE 9 Both;
    10 "page-faults" SOFTWARE 2 Both;
    11 "minor-faults" SOFTWARE 5 Both;
    12 "major-faults" SOFTWARE 6 Both;
    13 "context-switches" SOFTWARE 3 Kernel;
    14 "cpu-migrations" SOFTWARE 4 Kernel;
    15 "task-clock" SOFTWARE 1 Time;
}

const fn label(number: u8, text: &'static str) -> Label {
    Label { low: number as i64, high: number as i64, text: text.as_ptr().cast() }
}

impl RequestedCounter {
    pub(super) fn kind(self) -> &'static CounterKind {
        &KINDS[usize::from(self.number)]
    }

    /// The same counter without the kernel's part, if anything is left then.
    pub(super) fn without_kernel(self) -> Option<Self> {
        (self.kind().of == Of::Both && !self.user_only).then_some(Self { user_only: true, ..self })
    }

    /// The counter's number in records.
    pub(super) fn number(self) -> u8 {
        self.number + if self.user_only { USER_ONLY } else { 0 }
    }

    /// The counter's name in a request.
    pub(super) fn name(self) -> String {
        format!("{}{}", self.kind().name, if self.user_only { ":u" } else { "" })
    }

    fn named(name: &str) -> Option<Self> {
        let (base, user_only) = name.strip_suffix(":u").map_or((name, false), |base| (base, true));
        let number = KINDS.iter().position(|kind| kind.name == base)?;
        let asked = Self { number: number as u8, user_only: false };
        if user_only { asked.without_kernel() } else { Some(asked) }
    }
}

/// Parses names that are separated by commas.
pub(super) fn parse(names: &str) -> Result<Vec<RequestedCounter>, NoCounters> {
    let named =
        |name: &str| RequestedCounter::named(name).ok_or_else(|| NoCounters::Unknown(name.to_owned()));
    let asked: Vec<_> = names.split(',').map(|name| named(name.trim())).collect::<Result<_, _>>()?;
    if asked.len() > MOST { Err(NoCounters::TooMany(asked.len())) } else { Ok(asked) }
}

/// The names of all counters.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn names_are_read_and_what_is_none_is_said() {
        let asked = parse(" cycles, page-faults:u,task-clock ").unwrap();
        let names: Vec<_> = asked.iter().map(|asked| asked.name()).collect();
        assert_eq!(names, ["cycles", "page-faults:u", "task-clock"]);
        for (names, wrong) in [
            ("cycels", "cycels"),
            ("cycles,", ""),
            ("cycles instructions", "cycles instructions"),
            ("cycles:k", "cycles:k"),
            ("context-switches:u", "context-switches:u"),
            ("task-clock:u", "task-clock:u"),
        ] {
            assert_eq!(parse(names), Err(NoCounters::Unknown(wrong.to_owned())));
        }
        assert_eq!(parse(&["cycles"; 9].join(",")), Err(NoCounters::TooMany(9)));
    }

    #[test]
    fn a_number_in_a_record_has_the_label_of_what_was_asked_for() {
        let kinds = 0..KINDS.len() as u8;
        for asked in
            kinds.flat_map(|number| [false, true].map(|user_only| RequestedCounter { number, user_only }))
        {
            let label = LABELS.iter().find(|label| label.low == i64::from(asked.number())).unwrap();
            // SAFETY: the label's text is a constant that ends with a zero byte.
            let text = unsafe { CStr::from_ptr(label.text) };
            assert_eq!(text.to_str(), Ok(&*asked.name()));
        }
    }
}
