//! The user's request for a shield.

use crate::{Error, Machine};
use serde::{Deserialize, Serialize};
use sordino_sched::CpuList;
use std::fmt;

/// Extent of a shield's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShieldLevel {
    /// Moves threads, interrupts and unbound work away from the CPUs.
    Basic,
    /// Besides, changes settings of the whole machine: throttling, timers, statistics, power.
    Full,
}

/// Prints the level's name in lower case.
impl fmt::Display for ShieldLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic => "basic",
            Self::Full => "full",
        })
    }
}

/// CPUs to shield, and the extent of the changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShieldRequest {
    /// CPUs that are to be shielded.
    #[serde(with = "as_text")]
    pub cpus: CpuList,
    /// Extent of the changes.
    pub level: ShieldLevel,
    /// True to take each CPU down and up first, which clears it of timers and moves interrupts for good.
    pub hotplug: bool,
}

impl ShieldRequest {
    /// Returns the CPUs that are left for everything else.
    pub fn rest(&self, machine: &Machine) -> CpuList {
        machine.online.without(&self.cpus)
    }

    /// Removes the shielded CPUs from `cpus`. If none is left, returns all CPUs that are not shielded.
    pub(crate) fn leave(&self, machine: &Machine, cpus: &CpuList) -> CpuList {
        let left = cpus.without(&self.cpus);
        if left.is_empty() && !cpus.is_empty() { self.rest(machine) } else { left }
    }

    /// Checks that this machine can give those CPUs.
    ///
    /// # Errors
    /// [`Error::NotOnline`], [`Error::NothingLeft`].
    pub fn check(&self, machine: &Machine) -> Result<(), Error> {
        let missing = self.cpus.without(&machine.online);
        if !missing.is_empty() {
            return Err(Error::NotOnline { missing, online: machine.online.clone() });
        }
        if self.rest(machine).is_empty() {
            return Err(Error::NothingLeft { online: machine.online.clone() });
        }
        Ok(())
    }
}

/// Serializes lists of CPUs as text such as `0-3,5`.
pub(crate) mod as_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use sordino_sched::CpuList;

    pub(crate) fn serialize<S: Serializer>(cpus: &CpuList, serializer: S) -> Result<S::Ok, S::Error> {
        cpus.to_string().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CpuList, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() { Ok(CpuList::default()) } else { text.parse().map_err(D::Error::custom) }
    }
}
