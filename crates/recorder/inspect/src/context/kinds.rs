//! The kinds of thread context that a session records.

use std::str::FromStr;

/// The thread contexts that a recording includes beside the programs' events.
///
/// ```
/// use sordino_inspect::context::Contexts;
/// let contexts: Contexts = "comm,priority".parse()?;
/// assert!(contexts.comm && contexts.priority && !contexts.cgroup);
/// assert!("com".parse::<Contexts>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// Names of the threads (`comm`).
    pub comm: bool,
    /// Ids of threads and processes, in the recorder's pid namespace and in their own.
    pub ids: bool,
    /// Scheduling of the threads: policy, real-time priority, nice value.
    pub priority: bool,
    /// Cgroups of the threads.
    pub cgroup: bool,
    /// Annotations that threads set themselves.
    pub annotations: bool,
    /// Performance counters of the threads.
    pub counters: bool,
}

const NAMES: &str = "comm, ids, priority, cgroup, annotations, counters, all";

impl Contexts {
    /// All contexts are enabled.
    pub const ALL: Self =
        Self { comm: true, ids: true, priority: true, cgroup: true, annotations: true, counters: true };

    /// Returns true if no enabled context requires the recorder to read `/proc`. Counters do not: events carry them.
    pub fn needs_no_look(self) -> bool {
        Self { counters: false, ..self } == Self::default()
    }
}

impl FromStr for Contexts {
    type Err = String;

    /// Parses names separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut contexts = Self::default();
        for name in text.split(',').map(str::trim) {
            match name {
                "comm" => contexts.comm = true,
                "ids" => contexts.ids = true,
                "priority" => contexts.priority = true,
                "cgroup" => contexts.cgroup = true,
                "annotations" => contexts.annotations = true,
                "counters" => contexts.counters = true,
                "all" => contexts = Self::ALL,
                _ => return Err(format!("there is no context '{name}': there are {NAMES}")),
            }
        }
        Ok(contexts)
    }
}
