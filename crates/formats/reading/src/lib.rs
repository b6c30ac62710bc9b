//! A recording that is opened for reading: the traces of its directory, whoever wrote them, as one.
//!
//! | module | contents |
//! |---|---|
//! | `recording` | an open recording, and passes over its events |
//! | `demand` | the events and fields that a pass shows |
//! | `ahead` | decoding by threads, ahead of the merge |
//! | `absent` | files that are missing |
//! | `addresses` | names of addresses in processes |
//! | `several` | the traces that belong to one recording |
//! | `error` | errors |
#![forbid(unsafe_code)]

mod absent;
mod addresses;
mod ahead;
mod demand;
mod error;
mod recording;
mod several;

pub use addresses::{AddressNames, Symbols};
pub use demand::{Demand, Rejects};
pub use error::Error;
pub use recording::{OpenRecording, describes_state};
