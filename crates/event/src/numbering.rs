//! The numbers that a trace of the kernel gives to priorities.

/// The numbering of threads' priorities in a trace of the kernel. In each of them, a smaller number means a higher
/// priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityNumbering {
    /// The kernel's numbering, which counts from the highest real-time priority: an ordinary thread has 120.
    Kernel,
    /// The numbering of LTTng and sordino, which counts from the highest priority that is not real-time: an ordinary
    /// thread has 20.
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

    /// Returns the difference between the kernel's number of a priority and this numbering's. LTTng subtracts the
    /// kernel's `MAX_RT_PRIO`.
    pub const fn offset(self) -> i32 {
        match self {
            Self::Kernel => 0,
            Self::Lttng => 100,
        }
    }
}
