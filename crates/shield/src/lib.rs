//! Gives CPUs to real-time work: moves everything else away from them, reads back what came of it, and undoes it.
//!
//! * A [`Request`] says which CPUs, and how far to go.
//! * The [`Machine`] is what is there now: CPUs, control groups, threads.
//! * A [`Knob`] is one thing of the kernel's that can be set; [`KNOBS`] are all, in the order in which they are. A knob knows what it
//!   wants of a machine, as [`Change`]s of [`Place`]s; applying, reading back and restoring are the same for all.
//! * [`plan()`] is what would be done, [`boot`] what only the kernel's command line can do.
//! * A [`Store`] keeps what is needed to undo a shield for as long as it is up, which is longer than any process: [`Store::up`],
//!   [`Store::down`], [`Store::status`].
//!
//! ```no_run
//! use sordino_shield::{Level, Machine, Request, Silent, Store};
//! let request = Request { cpus: "2-3".parse()?, level: Level::Basic, hotplug: false };
//! let mut store = Store::default();
//! let raised = store.up(&request, &mut Silent)?;
//! println!("{} things refused", raised.shield.refused.len());
//! // ... any time later, in any process ...
//! store.down()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The steps and their order: the kernel's `Documentation/admin-guide/cpu-isolation.rst`, and what tuned's profile `realtime` sets.
#![forbid(unsafe_code)]

pub mod advice;
mod apply;
pub mod boot;
mod error;
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

pub use apply::{Done, Outcome, Silent, Watch};
pub use error::Error;
pub use knob::{Asked, Change, KNOBS, Knob, Wants};
pub use machine::{Cpusets, Machine, Task};
pub use place::Place;
pub use plan::{Planned, plan};
pub use request::{Level, Request};
pub use restore::{Lowered, Remaining, restore};
pub use shield::{Refused, Shield};
pub use status::{Drift, Status, Unfinished};
pub use store::{Raised, Store};
