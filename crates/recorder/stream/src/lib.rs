//! A recording as a stream: a tar archive of chunks, each with its summary last.
//!
//! A [`StreamSender`] sends the chunks of a session as they are finished, and removes them. A [`StreamReceiver`] makes
//! each a recording again. The sender chose the names in the archive, so the receiver trusts none of them.
//!
//! | module | contents |
//! |---|---|
//! | `send` | the sending end |
//! | `receive` | the receiving end |
#![forbid(unsafe_code)]

mod receive;
mod send;

pub use receive::StreamReceiver;
pub use send::StreamSender;

/// The file that completes a chunk.
const LAST: &str = "recording.json";
/// A copy of the summary that is sent ahead of the chunk.
const ANNOUNCED: &str = "announced.json";
