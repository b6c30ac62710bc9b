//! One thing of the kernel's that can be set.

use crate::knobs;
use crate::{Error, Level, Machine, Place, Request};
use serde::Serialize;

/// Something that keeps a CPU from being disturbed, once it is set right.
///
/// Knobs differ in what they want of a machine alone. Reading, applying, reading back and restoring are those of the
/// [`Place`]s that they name.
#[derive(Debug)]
pub struct Knob {
    /// Its name, one word.
    pub name: &'static str,
    /// What it is for.
    pub why: &'static str,
    /// What a request has to ask for.
    pub asked: Asked,
    /// Whether nothing is shielded without it.
    pub essential: bool,
    pub(crate) wants: WantsOf,
}

/// What a knob wants of a machine.
type WantsOf = fn(&Machine, &Request) -> Result<Wants, Error>;

/// What a request has to ask for, so that a knob is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Any.
    Always,
    /// [`Level::Full`].
    Full,
    /// CPUs that go down and up.
    Hotplug,
}

/// All, in the order in which they are set.
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
    // Last, so that it is undone first: threads that the kernel makes when it gets back the others are not confined.
    knobs::threads::THREADS,
];

impl Knob {
    /// One that every shield turns.
    pub(crate) const fn basic(name: &'static str, why: &'static str, wants: WantsOf) -> Self {
        Self { name, why, asked: Asked::Always, essential: false, wants }
    }

    /// One that a full shield turns.
    pub(crate) const fn full(name: &'static str, why: &'static str, wants: WantsOf) -> Self {
        Self { asked: Asked::Full, ..Self::basic(name, why, wants) }
    }

    /// Whether the request leaves it out.
    pub(crate) fn is_left_out(&self, request: &Request) -> bool {
        match self.asked {
            Asked::Always => false,
            Asked::Full => request.level < Level::Full,
            Asked::Hotplug => !request.hotplug,
        }
    }

    /// What is to be different on this machine, and what it does not have or give.
    ///
    /// # Errors
    /// If the request can't be met: then nothing may be changed.
    pub fn plan(&self, machine: &Machine, request: &Request) -> Result<Wants, Error> {
        (self.wants)(machine, request)
    }
}

/// What a knob wants of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wants {
    /// What is not as it should be, in the order in which it is to be set.
    pub changes: Vec<Change>,
    /// What this machine does not have, and why that may be.
    pub missing: Vec<String>,
    /// What stays on the CPUs whatever is done.
    pub stays: Vec<String>,
}

/// One value that is to be another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Change {
    /// What it is, for people.
    pub what: String,
    /// Where.
    pub place: Place,
    /// What holds now.
    pub from: String,
    /// What is to hold. `None`: the same, but something else may change it, and it is to be given back.
    pub to: Option<String>,
}

impl Wants {
    /// `place` is to hold `value`. One that this machine lacks is not here; one that does is nothing to do.
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

    /// The same for what a change before it makes, and what can't be read until then.
    pub(crate) fn set_later(&mut self, what: impl Into<String>, place: Place, value: impl Into<String>) {
        let value = value.into();
        let from = place.read().unwrap_or_else(|_| "none".to_owned());
        if from != value {
            self.changes.push(Change { what: what.into(), place, from, to: Some(value) });
        }
    }

    /// What `place` holds is to be given back: other changes disturb it.
    pub(crate) fn keep(&mut self, what: impl Into<String>, place: Place) {
        if let Ok(from) = place.read() {
            self.changes.push(Change { what: what.into(), place, from, to: None });
        }
    }
}
