//! The knobs, each with the values that it plans for a machine.

pub(crate) mod cpuset;
pub(crate) mod hotplug;
pub(crate) mod interrupts;
pub(crate) mod power;
pub(crate) mod system;
pub(crate) mod threads;
