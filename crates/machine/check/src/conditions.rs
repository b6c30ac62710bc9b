//! Conditions under which a report's figures were measured.

use serde::{Deserialize, Serialize};
use sordino_quantity::typed;
use std::time::Duration;

/// The machine that was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineInfo {
    /// The machine's host name.
    pub host: String,
    /// The processor's model name.
    pub processor: String,
    /// CPUs that are online, as a list.
    pub cpus: String,
    /// Size of the memory in MiB.
    pub memory_mib: u64,
    /// Vendor, model and firmware, if the machine reports them.
    pub hardware: Option<String>,
    /// The kernel's release and version.
    pub kernel: String,
    /// The kernel's command line.
    pub command_line: String,
    /// Name of the distribution.
    pub system: Option<String>,
    /// Name of the hypervisor: `KVM`, or `unknown`. `None` on bare metal.
    pub hypervisor: Option<String>,
}

/// Settings of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The command line as typed.
    pub command: String,
    /// CPUs that were measured, as a list.
    pub cpus: String,
    /// Requested time of each measurement in seconds.
    pub duration_s: f64,
    /// Name of the load.
    pub load: String,
    /// Limits as they were requested.
    pub limits: Vec<String>,
    /// Names of the steps that must be measured.
    pub required: Vec<String>,
    /// Kernel settings that were changed during the measurement.
    pub held: Vec<Held>,
    /// Settings that could not be changed, and the consequence of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_held: Vec<String>,
}

impl Settings {
    /// Returns the requested time of each measurement as text. The report may be another program's.
    pub fn duration(&self) -> String {
        let duration = Duration::try_from_secs_f64(self.duration_s);
        duration.map_or_else(|_| format!("{} s", self.duration_s), typed)
    }
}

/// A kernel setting that was changed during the measurement and restored afterwards. A product has to make the same
/// setting to reach the same figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Path of the kernel's file.
    pub place: String,
    /// Value before the measurement.
    pub was: String,
    /// Value during the measurement.
    pub held: String,
    /// Reason for the change.
    pub why: String,
}
