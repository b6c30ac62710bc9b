//! What a user asks for.

use crate::{Error, Machine};
use serde::{Deserialize, Serialize};
use sordino_sched::CpuList;
use std::fmt;

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Move what runs on the CPUs away: threads, interrupts, unbound work.
    Basic,
    /// Besides, set what the whole machine shares: throttling, timers, statistics, power.
    Full,
}

/// The level's name.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Basic => "basic",
            Self::Full => "full",
        })
    }
}

/// Which CPUs to shield, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The CPUs.
    #[serde(with = "as_text")]
    pub cpus: CpuList,
    /// How far to go.
    pub level: Level,
    /// Take each CPU down and up first, which clears it of timers and moves interrupts for good.
    pub hotplug: bool,
}

impl Request {
    /// The CPUs that are left for everything else.
    pub fn rest(&self, machine: &Machine) -> CpuList {
        machine.online.without(&self.cpus)
    }

    /// What `cpus` are to be: without those of the shield or, if none is left, the others.
    pub(crate) fn leave(&self, machine: &Machine, cpus: &CpuList) -> CpuList {
        let left = cpus.without(&self.cpus);
        if left.is_empty() && !cpus.is_empty() { self.rest(machine) } else { left }
    }

    /// Whether this machine can give those CPUs.
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

/// Lists of CPUs as people write them.
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
