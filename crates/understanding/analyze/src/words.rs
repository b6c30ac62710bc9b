//! The words for a cause: phrases with placeholders, and the choice among the phrases of the table.

use crate::cause::Cause;
use crate::findings::Part;

/// A phrase: words that follow one another without spaces between them.
pub type Phrase = &'static [Word];

/// A word of a phrase: text, or a placeholder for a detail of the cause.
///
/// The placeholders below [`SentBy`](Word::SentBy) stand for details of a part. A row of a table has a cause alone, so
/// its phrase has none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// Text that is printed as it is.
    Text(&'static str),
    /// The name of the system call, the signal or the interrupt.
    Name,
    /// The number of the interrupt.
    Number,
    /// The state in which the thread slept: `asleep`.
    State,
    /// The groups of the events that are not recorded: `raw_syscalls,irq`.
    Unrecorded,
    /// The thread that had the CPU: `hog/5 (RT 95)`.
    Behind,
    /// The fiber that had the thread: `8(work/6)`.
    Fiber,
    /// The thing that the fiber waited for, if its library names it: ` on a lock`.
    On,
    /// The system call or the page fault that the thread was in, if any: ` in read`.
    Within,
    /// The sender of the signal, or of most of the interrupts, if it is known: `, sent by hog/5 (RT 95)`.
    SentBy,
    /// The part's time: `4.90 ms`.
    Time,
    /// The part's time beyond the usual one, if that made the interval long: `2.00 ms longer than usual`; otherwise
    /// `Time` and `Longer`.
    Took,
    /// A comparison with the usual time, if that is more than a tenth of the part's: `, 2.00 ms longer than usual`,
    /// ` (usually 5.00 ms)`.
    Longer,
    /// The number of occurrences before a noun: `a`, `2`.
    Count,
    /// The ending of a noun behind `Count`: `s`, or nothing after `a`.
    Plural,
    /// The quota that is used up: `20.0 ms in each 50.0 ms`.
    Quota,
    /// The quota that may be used up while the thread waits, if it has one:
    /// `, or throttled: its control group /dist has 20.0 ms in each 50.0 ms (cpu.max)`.
    OrThrottled,
    /// The control group that has the quota.
    Group,
    /// The thread that had the CPU for half of the time or more, if there is one: `; hog/5 (RT 95) had its CPU`.
    Beside,
    /// The thread or the interrupt that ended the sleep: `hog/5 (RT 95)`.
    Waker,
    /// The file whose pages the sleep was for: `inode 123 of device 254:0, read by worker/5`.
    File,
    /// The other parts of the kind, if any, by the threads or interrupts that took them: `, and 20.0 us by 1 other`.
    ByOthers,
    /// The other parts of the kind, if any, by the threads before this one: `, and 20.0 us behind 1 other`.
    BehindOthers,
    /// The other parts of the kind, if any, such as other system calls: `, and 20.0 us in 1 other`.
    InOthers,
    /// The other parts of the kind, if any, where all of them wait: `, and 20.0 us in 1 other wait`.
    InOtherWaits,
}

/// The phrases for a cause.
#[derive(Clone, Copy, Debug)]
pub struct Phrases {
    /// The cause in a row of a table.
    pub row: Phrase,
    /// The headline of an interval that is explained by it.
    pub sentence: Phrase,
    /// Headlines for parts with more evidence; the first one whose condition holds replaces `sentence`.
    pub detailed: Cases<Part, Phrase>,
    /// The paragraph below all intervals if one of them has such a part.
    pub note: Option<&'static str>,
}

/// Conditions, each with its value; the first condition that holds decides.
pub type Cases<T, V> = &'static [(fn(&T) -> bool, V)];

fn first<T, V>(cases: Cases<T, V>, of: &T) -> Option<&'static V> {
    cases.iter().find(|(holds, _)| holds(of)).map(|(_, value)| value)
}

impl Cause {
    /// Returns the phrase for a row of a table.
    pub fn row(&self) -> Phrase {
        self.phrases().row
    }

    /// Returns the paragraph below all intervals that have this cause, if there is one.
    pub fn note(&self) -> Option<&'static str> {
        self.phrases().note
    }

    fn phrases(&self) -> &'static Phrases {
        let entry = self.entry();
        first(entry.cases, self).unwrap_or(&entry.otherwise)
    }
}

impl Part {
    /// Returns the phrase for the headline of an interval that this part explains.
    pub fn sentence(&self) -> Phrase {
        let phrases = self.cause.phrases();
        first(phrases.detailed, self).unwrap_or(&phrases.sentence)
    }
}
