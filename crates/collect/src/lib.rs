//! Drain rings and kernel pages into a directory of CTF traces while recording runs.
//!
//! [`record`] does it all: makes the directory, takes hold of programs, starts the command, empties the rings and the
//! kernel's buffers until it is told to stop, and leaves a directory that every reader of CTF can read.
//!
//! | file | what it does |
//! |---|---|
//! | `session` | a recording from its first second to its last |
//! | `discover`, `listen`, `backlog` | finds programs: by `/proc`, or because they say that they are there; whether there was room for all |
//! | `process_events` | which processes are new, so that `/proc` is not read for nothing |
//! | `intake` | takes programs up beside the session's loop, each user's by a thread of its own |
//! | `limits`, `refused` | what a recorder may use; who was sent away |
//! | `runtime` | the directories in which sessions meet programs |
//! | `program` | one program: its rings, its tracepoints, its trace |
//! | `coverage`, `shortfall`, `similar` | which rules have chosen something; what was to be recorded and is not; names that were meant |
//! | `drain`, `output` | the thread that empties rings into files |
//! | `kernel`, `convert` | the kernel's tracer: its pages while recording, a trace of them afterwards |
//! | `dump`, `symbols`, `steal`, `interrupted` | the state at the start, names of the kernel's functions, what the hypervisor took, what interrupts cost |
//! | `quota` | the CPU time that a control group allows a program |
//! | `context`, `stat` | what is said of threads besides their events: names, priorities, values of their own |
//! | `why`, `rank` | what a program said that asked for a snapshot; how bad it is what one was taken for |
//! | `threads`, `rights` | the recorder's own threads, and what they may do |
//! | `place`, `placement` | on which CPUs they run |
//! | `missing` | what could not be written |
//! | `recover`, `received` | finishes a recording whose recorder was killed, or of which a part did not arrive |
//! | `list` | what could be recorded |
#![forbid(unsafe_code)]

mod backlog;
mod chunk;
mod clock;
pub mod command;
mod context;
mod convert;
mod count;
mod coverage;
mod directory;
pub mod discover;
mod drain;
mod dump;
mod error;
mod exit;
mod history;
mod intake;
mod interrupted;
mod kernel;
mod limits;
mod list;
mod listen;
mod missing;
mod options;
mod output;
mod place;
mod placement;
mod proc;
mod process_events;
mod program;
mod quota;
mod rank;
mod received;
mod recover;
mod refused;
mod rights;
mod runtime;
mod series;
mod session;
mod shortfall;
mod similar;
mod steal;
mod summary;
mod supply;
mod symbols;
mod threads;
mod unanswered;
mod why;

pub use context::Contexts;
pub use count::user_events_so_far;
pub use directory::{Directory, PREFIX};
pub use error::Error;
pub use list::{Listed, Listing, list};
pub use listen::{Announced, Listener};
pub use missing::Missing;
pub use options::{
    CommandLine, End, Keep, Options, Polling, Programs, Rotation, SessionOptions, Snapshots, UserEvents,
    Worst,
};
pub use placement::RecorderCpus;
pub use rank::Rank;
pub use received::expect_recording;
pub use recover::recover;
pub use rights::keep_needed_rights;
pub use runtime::{
    RUNTIME_DIR, find_session_dir, is_session_name, remove_session_dir, runtime_dir, session_dir,
};
pub use series::{Kind, recordings};
pub use session::{
    Kept, MemoryStatus, ProgramStatus, Recorded, RecordingStatus, Reply, Request, RingStatus, Status, Watch,
    ask, keep_session, record,
};
pub use shortfall::{
    NoEvents, NoEventsReason, ProcessFound, ProcessState, RuleCause, RuleProblem, Shortfall, TracepointFields,
};
pub use similar::similar;
pub use summary::{ClockSummary, KernelStream, ProgramSummary, State, StreamSummary, Summary};
pub use unanswered::{Unanswered, Unrecorded, unanswered_lines};

use rustix::rand::{GetRandomFlags, getrandom};
use sordino_ctf::Uuid;

/// A random one (version 4 of RFC 9562).
fn uuid() -> Uuid {
    let mut bytes = [0; 16];
    // Fails only on kernels without getrandom, before Linux 3.17; identities then are all the same.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid(bytes)
}
