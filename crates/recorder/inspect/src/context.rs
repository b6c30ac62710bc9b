//! Observed attributes of threads: the contents of the stream that a recorder writes beside the events.

mod kinds;
mod visit;

pub use kinds::Contexts;
pub use visit::{ThreadAttributes, Visit};

use sordino_event::Ticks;

/// An observed attribute of a thread, with its time in the recording's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Time of the observation, in ticks of the recording's clock.
    pub at: Ticks,
    /// The thread that has the attribute.
    pub thread: ThreadIds,
    /// The attribute and its value.
    pub attribute: Attribute,
}

/// A thread of a traced program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadIds {
    /// Process id, in the recorder's pid namespace.
    pub pid: i32,
    /// The thread's id, in the recorder's pid namespace.
    pub tid: i32,
    /// The thread's id in its own pid namespace, as in its events.
    pub vtid: i32,
}

/// An attribute of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each attribute describes its parts")]
pub enum Attribute {
    /// The process id in the process's own pid namespace.
    Ids { vpid: i32 },
    /// The thread's name (`comm`).
    Comm(String),
    /// The scheduling policy in the kernel's numbering, the real-time priority and the nice value.
    Priority { policy: u32, priority: u32, nice: i32 },
    /// The thread's cgroups, separated by commas.
    Cgroup(String),
    /// An annotation: its name and its text.
    Annotation { name: String, text: String },
    /// The thread has ended.
    End,
}
