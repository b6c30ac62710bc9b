//! Knobs: groups of related kernel settings.

use crate::knobs;
use crate::{Error, Machine, Place, ShieldLevel, ShieldRequest};
use serde::Serialize;

/// A group of kernel settings that keep disturbances from a CPU.
///
/// Knobs differ only in the values that they plan for a machine. Reading, applying, reading back and restoring are
/// operations of the [`Place`]s.
#[derive(Debug)]
pub struct Knob {
    /// Name of the knob, one word.
    pub name: &'static str,
    /// Purpose of the knob.
    pub why: &'static str,
    /// Requests that use the knob.
    pub used: KnobUse,
    /// True if the CPUs are not shielded without it.
    pub essential: bool,
    pub(crate) plan: PlanFunction,
}

/// Function that computes a knob's changes for a machine.
type PlanFunction = fn(&Machine, &ShieldRequest) -> Result<KnobPlan, Error>;

/// Condition under which a request uses a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobUse {
    /// Every request uses it.
    Always,
    /// Requests with [`ShieldLevel::Full`] use it.
    Full,
    /// Requests that take CPUs down and up use it.
    Hotplug,
}

/// All knobs in the order in which they are set.
pub const KNOBS: &[Knob] = &[
    knobs::hotplug::HOTPLUG,
    knobs::cpuset::CPUSET,
    knobs::interrupts::INTERRUPTS,
    knobs::system::WORKQUEUES,
    knobs::system::NETWORK,
    knobs::system::RCU,
    knobs::system::TIMERS,
    knobs::system::STATISTICS,
    knobs::system::WATCHDOGS,
    knobs::system::THROTTLING,
    knobs::system::FAIR_SERVER,
    knobs::system::MEMORY,
    knobs::power::IDLE,
    knobs::power::FREQUENCY,
    // Last, so that it is undone first: threads that the kernel creates while the other settings are restored are then
    // not restricted.
    knobs::threads::THREADS,
];

impl Knob {
    /// Creates a knob that every request uses.
    pub(crate) const fn basic(name: &'static str, why: &'static str, plan: PlanFunction) -> Self {
        Self { name, why, used: KnobUse::Always, essential: false, plan }
    }

    /// Creates a knob that requests with [`ShieldLevel::Full`] use.
    pub(crate) const fn full(name: &'static str, why: &'static str, plan: PlanFunction) -> Self {
        Self { used: KnobUse::Full, ..Self::basic(name, why, plan) }
    }

    /// Returns true if the request does not use the knob.
    pub(crate) fn is_left_out(&self, request: &ShieldRequest) -> bool {
        match self.used {
            KnobUse::Always => false,
            KnobUse::Full => request.level < ShieldLevel::Full,
            KnobUse::Hotplug => !request.hotplug,
        }
    }

    /// Computes the changes for this machine, and the settings that it lacks or does not permit.
    ///
    /// # Errors
    /// Returns an error if the request cannot be met: then nothing may be changed.
    pub fn plan(&self, machine: &Machine, request: &ShieldRequest) -> Result<KnobPlan, Error> {
        (self.plan)(machine, request)
    }
}

/// A knob's result for a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KnobPlan {
    /// Changes in the order in which they are to be made.
    pub changes: Vec<Change>,
    /// Settings that the machine lacks, with the possible reason.
    pub missing: Vec<String>,
    /// Disturbances that remain on the CPUs in any case.
    pub stays: Vec<String>,
}

/// A change of one value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Change {
    /// Name of the value, for people.
    pub what: String,
    /// Place of the value.
    pub place: Place,
    /// Present value of the place.
    pub from: String,
    /// New value. `None` keeps the present value, but restores it later, because other changes may affect it.
    pub to: Option<String>,
}

impl KnobPlan {
    /// Adds a change of `place` to `value`, unless it has that value. A missing, read-only or unreadable place is
    /// recorded as such.
    pub(crate) fn set(&mut self, what: impl Into<String>, place: Place, value: impl Into<String>) {
        let (what, value) = (what.into(), value.into());
        match place.read() {
            Ok(from) if from == value => {}
            Ok(_) if place.is_read_only() => {
                self.stays.push(format!("{what}: {place} is on a read-only file system"))
            }
            Ok(from) => self.changes.push(Change { what, place, from, to: Some(value) }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.missing.push(format!("{what}: no {place}"));
            }
            Err(error) => self.stays.push(format!("{what}: {place} can't be read: {error}")),
        }
    }

    /// Adds a change like [`set`](Self::set) for a place that an earlier change creates, and that cannot be read until
    /// then.
    pub(crate) fn set_later(&mut self, what: impl Into<String>, place: Place, value: impl Into<String>) {
        let value = value.into();
        let from = place.read().unwrap_or_else(|_| "none".to_owned());
        if from != value {
            self.changes.push(Change { what: what.into(), place, from, to: Some(value) });
        }
    }

    /// Journals the value of `place`, which other changes may affect, so that it is restored.
    pub(crate) fn keep(&mut self, what: impl Into<String>, place: Place) {
        if let Ok(from) = place.read() {
            self.changes.push(Change { what: what.into(), place, from, to: None });
        }
    }
}
