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
//! | `clock` | the clock of a recording, and its relation to the time of day |
//! | `session` | a recording from its first second to its last |
//! | `discover`, `listen`, `backlog` | finds programs in `/proc` or by registration; detects a full queue |
//! | `process_events` | detects new processes, so that `/proc` is not read needlessly |
//! | `intake` | attaches to programs beside the session's loop, each user's by a thread of its own |
//! | `limits`, `refused` | the recorder's limits; programs that were refused |
//! | `runtime` | the directories in which programs register with sessions |
//! | `program`, `detachment` | one program: its rings, its tracepoints, its trace; the end of that |
//! | `coverage`, `shortfall`, `similar` | matches of rules; missing events and the reasons; suggestions for names |
//! | `drain`, `output`, `supply` | the threads that empty rings into files, and that give rings their pages |
//! | `history` | the kernel's events that a flight recorder keeps between snapshots |
//! | `kernel`, `convert` | the kernel's tracer: its pages while recording, its trace afterwards |
//! | `dump`, `symbols`, `steal`, `interrupted` | the state dump, kernel functions, stolen time, cost of interrupts |
//! | `quota` | the CPU time that a cgroup allows a program |
//! | `context`, `proc` | attributes of threads beside their events: names, priorities, annotations |
//! | `why`, `rank` | the reason that a program gave for a snapshot; the value by which snapshots are ranked |
//! | `threads`, `rights` | the recorder's own threads, and their rights |
//! | `place`, `placement` | the CPUs of these threads |
//! | `missing` | data that could not be written |
//! | `recover`, `received`, `cut` | finishes a recording whose recorder was killed, or of which a part did not arrive |
//! | `list` | the programs that could be recorded |
//! | `watch` | the progress of a recording, as its caller sees it |
#![forbid(unsafe_code)]

mod backlog;
mod chunk;
mod clock;
pub mod command;
mod context;
mod convert;
mod count;
mod coverage;
mod cut;
mod detachment;
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
mod watch;
mod why;

pub use context::Contexts;
pub use count::user_events_so_far;
pub use directory::{Directory, PREFIX};
pub use error::Error;
pub use list::{Listed, ProgramList, list};
pub use listen::{Listener, Registration};
pub use missing::UnwrittenData;
pub use options::{
    CommandLine, End, Keep, Options, Polling, Programs, Rotation, SessionOptions, Snapshots, UserEvents,
    Worst,
};
pub use placement::RecorderCpus;
pub use rank::Rank;
pub use received::expect_recording;
pub use recover::recover;
pub use rights::keep_needed_rights;
pub use runtime::{find_session_dir, is_session_name, remove_session_dir, runtime_dir, session_dir};
pub use series::{Kind, recordings};
pub use session::{
    EndedSession, FinishedRecording, MemoryStatus, ProgramStatus, RecordingStatus, Reply, Request,
    RingStatus, Status, ask, keep_session, record,
};
pub use shortfall::{
    NoEvents, NoEventsReason, ProcessFound, ProcessState, RuleCause, RuleProblem, Shortfall, TracepointFields,
};
pub use similar::similar;
pub use summary::{ClockSummary, KernelStream, ProgramSummary, State, StreamSummary, Summary};
pub use unanswered::{Unanswered, UnrecordedPrograms, unanswered_lines};
pub use watch::Watch;

use rustix::rand::{GetRandomFlags, getrandom};
use sordino_ctf::Uuid;

/// Returns a random UUID (version 4 of RFC 9562).
fn uuid() -> Uuid {
    let mut bytes = [0; 16];
    // Fails only on kernels without getrandom, before Linux 3.17; all UUIDs are equal there.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid(bytes)
}
