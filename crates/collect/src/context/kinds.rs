//! What a session wants to be told of threads.

use std::str::FromStr;

/// What a recording is to tell of the programs' threads besides their events.
///
/// ```
/// use sordino_collect::Contexts;
/// let contexts: Contexts = "comm,priority".parse()?;
/// assert!(contexts.comm && contexts.priority && !contexts.cgroup);
/// assert!("com".parse::<Contexts>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// Their names.
    pub comm: bool,
    /// Their ids and their processes', in the recorder's pid namespace and in their own.
    pub ids: bool,
    /// How they are scheduled: policy, real-time priority, nice value.
    pub priority: bool,
    /// Their cgroups.
    pub cgroup: bool,
    /// What they say of themselves.
    pub values: bool,
    /// What their performance counters say.
    pub counters: bool,
}

const NAMES: &str = "comm, ids, priority, cgroup, values, counters, all";

impl Contexts {
    /// Everything.
    pub const ALL: Self =
        Self { comm: true, ids: true, priority: true, cgroup: true, values: true, counters: true };

    /// Whether nothing is wanted for which the recorder has to look at threads: counters come with their events.
    pub(crate) fn needs_no_look(self) -> bool {
        Self { counters: false, ..self } == Self::default()
    }
}

impl FromStr for Contexts {
    type Err = String;

    /// Reads names with commas between them.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut contexts = Self::default();
        for name in text.split(',').map(str::trim) {
            match name {
                "comm" => contexts.comm = true,
                "ids" => contexts.ids = true,
                "priority" => contexts.priority = true,
                "cgroup" => contexts.cgroup = true,
                "values" => contexts.values = true,
                "counters" => contexts.counters = true,
                "all" => contexts = Self::ALL,
                _ => return Err(format!("there is no context '{name}': there are {NAMES}")),
            }
        }
        Ok(contexts)
    }
}
