//! Under which conditions a report's figures were measured.

use serde::{Deserialize, Serialize};

/// Which machine was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineInfo {
    /// Its host name.
    pub host: String,
    /// Its processor's name.
    pub processor: String,
    /// The CPUs that are online.
    pub cpus: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Maker, model and firmware, where the machine tells.
    pub hardware: Option<String>,
    /// The kernel's release and version.
    pub kernel: String,
    /// The kernel's command line.
    pub command_line: String,
    /// The distribution.
    pub system: Option<String>,
    /// The hypervisor's name, if there is one: `KVM`, or `unknown`.
    pub hypervisor: Option<String>,
}

/// How it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The command as it was typed.
    pub command: String,
    /// The CPUs that were measured.
    pub cpus: String,
    /// How long each measurement was to take, in seconds.
    pub duration_s: f64,
    /// The load's name.
    pub load: String,
    /// Limits, as they were asked for.
    pub limits: Vec<String>,
    /// Steps that have to be measured.
    pub required: Vec<String>,
    /// What was changed on the machine while it was measured.
    pub held: Vec<Held>,
    /// What should have been held and could not be, and what follows from that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_held: Vec<String>,
}

/// Something of the machine's that was held otherwise while it was measured, and was given back. A product that is to do as well has
/// to set it, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The kernel's file.
    pub place: String,
    /// What it held before.
    pub was: String,
    /// What it held meanwhile.
    pub held: String,
    /// Why.
    pub why: String,
}
