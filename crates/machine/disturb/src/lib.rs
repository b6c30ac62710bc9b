//! Disturbances of a CPU at known times, to test whether tools find their cause.
//!
//! [`disturb`] plants one; the tracepoints `disturb:begin` and `disturb:end` mark the actual times. The demo records
//! npt's loop beside them, and load on the machine ([`run_demo_load`], on [`DemoCpus`]).
//!
//! | module | contents |
//! |---|---|
//! | `disturbance` | a thread, timers or packets |
//! | `packets` | the network that floods a CPU with softirqs |
//! | `load` | the programs that run while the demo records |
//! | `planted` | the search for planted disturbances in a recording, and the verdict |
//! | `error` | errors |
#![forbid(unsafe_code)]

mod disturbance;
mod error;
mod load;
mod packets;
mod planted;

pub use disturbance::{Disturbance, DisturbanceKind, disturb};
pub use error::Error;
pub use load::{DemoCpus, LENGTH, run_demo_load};
pub use planted::{Planted, PlantedFinder, judge};
