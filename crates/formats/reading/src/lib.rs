//! Recordings that are opened for reading: all traces in their directories, of any tracer, are read as one.
//!
//! | module | contents |
//! |---|---|
//! | `recording` | an open recording, and passes over its events |
//! | `demand` | the events and fields that a pass shows |
//! | `ahead` | decoding by threads, ahead of the merge |
//! | `absent` | files that are missing |
//! | `addresses` | names of addresses in processes |
//! | `clocks` | the relation of several recordings' clocks |
//! | `gaps` | times of a host that no recording covers, or two |
//! | `several` | the traces that belong to one recording |
//! | `error` | errors |
#![forbid(unsafe_code)]

mod absent;
mod addresses;
mod ahead;
mod clocks;
mod demand;
mod error;
mod gaps;
mod recording;
mod several;

pub use addresses::{AddressNames, Symbols};
pub use clocks::{ClockRelation, PairContradiction, PairedOffset, RecordingClock};
pub use demand::{Demand, Rejects};
pub use error::Error;
pub use recording::{MergedRecording, OpenRecording, describes_state};
