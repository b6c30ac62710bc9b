//! A recording that is opened for reading: the traces of its directory, whoever wrote them, as one.
//!
//! | module | contents |
//! |---|---|
//! | `recording` | an open recording, and passes over its events |
//! | `several` | the traces that belong to one recording |
//! | `error` | errors |
#![forbid(unsafe_code)]

mod error;
mod recording;
mod several;

pub use error::Error;
pub use recording::{OpenRecording, describes_state};
