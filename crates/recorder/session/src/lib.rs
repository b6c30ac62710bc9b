//! Recordings from start to end: one recording with [`record`], or several with [`keep_session`].
//!
//! A session starts the command, attaches to programs, and leads the threads that empty rings and write traces, until
//! it is stopped. One that is kept answers [requests](Request) meanwhile: snapshots, the next chunk, other tracepoints,
//! its status.
//!
//! | module | contents |
//! |---|---|
//! | `options` | the options of a session |
//! | `session` | the loop, and everything that it does in turn |
//! | `command` | the command that a recording starts |
//! | `coverage` | matches of rules |
//! | `exit` | how programs ended |
#![forbid(unsafe_code)]

mod command;
mod coverage;
mod exit;
mod options;
mod session;

pub use options::{
    CommandLine, ProgramEnd, Programs, Rotation, SeriesOptions, SessionOptions, Snapshots, Worst,
};
pub use session::{
    FinishedRecording, LIVE_PATIENCE, MemoryStatus, ProgramStatus, RecordingStatus, Reply, Request,
    RingStatus, SessionResult, Status, keep_session, record, send_request,
};
