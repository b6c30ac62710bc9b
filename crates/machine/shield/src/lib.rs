//! Gives CPUs to real-time work: moves everything else away from them, reads back the result, and undoes it.
//!
//! * A [`ShieldRequest`] names the CPUs and the level.
//! * The [`Machine`] is the present state: CPUs, control groups, threads.
//! * A [`Knob`] is a group of kernel settings; [`KNOBS`] has all, in the order of setting them. A knob computes the
//!   [`Change`]s of [`Place`]s that a machine needs; applying, reading back and restoring are the same for all.
//! * [`plan()`] computes what would be changed; [`boot`] has the settings that only the kernel's command line can make.
//! * A [`Store`] keeps the data to undo a shield as long as it is up, which is longer than any process: [`Store::up`],
//!   [`Store::down`], [`Store::status`]. [`text`] and [`json`] are the reports on all of them.
//! * Other work leaves the shield's CPUs or moves to them: [`keep_off`], [`go_to`].
//!
//! | module | content |
//! |---|---|
//! | `request` | the user's request for a shield |
//! | `machine` | the state of the machine: CPUs, control groups, threads |
//! | `knob`, `knobs`, `place` | groups of kernel settings, the values that each needs, and how one is read and written |
//! | `plan` | pure: the changes for a request |
//! | `apply`, `restore` | the changes made, each journalled before and read back after, and undone |
//! | `shield`, `store`, `status` | a shield that is up, its persistent data, and its present state |
//! | `around` | other work: it leaves the shield's CPUs, or moves to them |
//! | `boot`, `advice` | settings of the kernel's command line, and conditions that a shield does not change |
//! | `json`, `text` | reports |
//! | `error` | errors of planning, raising and lowering shields |
//!
//! ```no_run
//! use sordino_shield::{Machine, ShieldLevel, ShieldRequest, Silent, Store};
//! let request = ShieldRequest { cpus: "2-3".parse()?, level: ShieldLevel::Basic, hotplug: false };
//! let mut store = Store::default();
//! let raised = store.up(&request, &mut Silent)?;
//! println!("{} things refused", raised.shield.refused.len());
//! // ... any time later, in any process ...
//! store.down()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources of the settings and their order: the kernel's `Documentation/admin-guide/cpu-isolation.rst`, and tuned's
//! profile `realtime`.
#![forbid(unsafe_code)]

pub mod advice;
mod apply;
mod around;
pub mod boot;
mod error;
pub mod json;
mod knob;
mod knobs;
mod machine;
mod place;
mod plan;
mod request;
mod restore;
mod shield;
mod status;
mod store;
pub mod text;

pub use apply::{ChangeObserver, ChangeOutcome, Done, Silent};
pub use around::{go_to, keep_off, measured_cpu};
pub use error::Error;
pub use knob::{Change, KNOBS, Knob, KnobPlan, KnobUse};
pub use machine::{Cpusets, Machine, RunningThread};
pub use place::Place;
pub use plan::{Planned, plan};
pub use request::{ShieldLevel, ShieldRequest};
pub use restore::{Lowered, Remaining, restore};
pub use shield::{Refused, Shield};
pub use status::{Drift, ShieldStatus, Unfinished};
pub use store::{Raised, Store, current};
