//! A session or a recording, read while it grows: each event once, in order of time, beside other readers.
//!
//! | module | contents |
//! |---|---|
//! | `source` | the session or directory, and its stretches |
//! | `session` | a session's pieces, shared among its readers |
//! | `reader` | the events of a piece that are new |
//! | `beside` | replies, snapshots and explanations, made in a thread beside a reader |
//! | `costs` | the CPU time of the recorder's threads and of this process |
//! | `error` | errors |
#![forbid(unsafe_code)]

mod beside;
mod costs;
mod error;
mod reader;
mod session;
mod source;

pub use beside::{Aside, Beside, RecorderId, SelectedWait};
pub use costs::Costs;
pub use error::Error;
pub use session::{LiveSession, hand_on_in};
pub use source::{GrowingRecording, ReadingProgress};
