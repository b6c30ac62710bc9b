//! Drains rings and kernel pages into a directory of CTF traces while recording runs.
//!
//! [`record`] performs a whole recording: it creates the directory, attaches to programs, starts the command, empties
//! the rings and the kernel's buffers until it is stopped, and leaves a directory that any reader of CTF can read.
//!
//! | file | contents |
//! |---|---|
//! | `options`, `error`, `command` | the settings of a recording, its errors, the command that it starts |
//! | `directory`, `series`, `chunk` | the layout of a recording, numbered recordings, the one that is being written |
//! | `summary`, `count`, `unanswered`, `exit` | `recording.json`: counts of events, unrecorded hits, how programs ended |
//! | `session` | a recording from its first second to its last |
//! | `program` | one program: its rings, its tracepoints, its trace |
//! | `coverage`, `shortfall`, `similar` | matches of rules; missing events and the reasons; suggestions for names |
//! | `drain`, `output` | the thread that empties rings into files |
//! | `history` | the kernel's events that a flight recorder keeps between snapshots |
//! | `kernel`, `convert` | the kernel's tracer: its pages while recording, its trace afterwards |
//! | `context` | attributes of threads beside their events: names, priorities, annotations |
//! | `why`, `rank` | the reason that a program gave for a snapshot; the value by which snapshots are ranked |
//! | `place`, `placement` | the CPUs of the recorder's own threads |
//! | `missing` | data that could not be written |
//! | `recover`, `received`, `cut` | finishes a recording whose recorder was killed, or of which a part did not arrive |
//! | `watch` | the progress of a recording, as its caller sees it |
#![forbid(unsafe_code)]

mod chunk;
pub mod command;
mod context;
mod convert;
mod count;
mod coverage;
mod cut;
mod directory;
mod drain;
mod error;
mod exit;
mod history;
mod kernel;
mod missing;
mod options;
mod output;
mod place;
mod placement;
mod program;
mod rank;
mod received;
mod recover;
mod series;
mod session;
mod shortfall;
mod similar;
mod summary;
mod unanswered;
mod watch;
mod why;

pub use context::Contexts;
pub use count::user_events_so_far;
pub use directory::{Directory, PREFIX};
pub use error::Error;
pub use missing::Missing;
pub use options::{
    CommandLine, End, Keep, Options, Polling, Programs, Rotation, SessionOptions, Snapshots, UserEvents,
    Worst,
};
pub use placement::RecorderCpus;
pub use rank::Rank;
pub use received::expect_recording;
pub use recover::recover;
pub use series::{Kind, recordings};
pub use session::{
    Kept, MemoryStatus, ProgramStatus, Recorded, RecordingStatus, Reply, Request, RingStatus, Status, ask,
    keep_session, record,
};
pub use shortfall::{
    NoEvents, NoEventsReason, ProcessFound, ProcessState, RuleCause, RuleProblem, Shortfall, TracepointFields,
};
pub use similar::similar;
pub use summary::{ClockSummary, KernelStream, ProgramSummary, State, StreamSummary, Summary};
pub use unanswered::{Unanswered, Unrecorded, unanswered_lines};
pub use watch::Watch;
