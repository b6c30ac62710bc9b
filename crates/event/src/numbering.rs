//! The numbers that a trace of the kernel gives to priorities.

/// The numbering of threads' priorities in a trace of the kernel. A smaller number goes first in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityNumbering {
    /// The kernel's, from the highest real-time priority on: an ordinary thread has 120.
    Kernel,
    /// LTTng's and sordino's, from the highest of the other priorities on: an ordinary thread has 20.
    Lttng,
}

impl PriorityNumbering {
    /// The entry of a trace's environment that holds the numbering's [`name`](Self::name).
    pub const ENTRY: &str = "priority_numbering";

    /// The name under which a trace states this numbering.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Lttng => "lttng",
        }
    }

    /// Returns the numbering of this name; `None` for a name that is not known here.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Kernel, Self::Lttng].into_iter().find(|numbering| numbering.name() == name)
    }

    /// The difference between the kernel's number of a priority and this one's. LTTng takes off the kernel's
    /// `MAX_RT_PRIO`.
    pub const fn offset(self) -> i32 {
        match self {
            Self::Kernel => 0,
            Self::Lttng => 100,
        }
    }
}
