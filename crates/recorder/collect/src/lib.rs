//! Drains rings and kernel pages into a directory of CTF traces while recording runs.
//!
//! A [`Chunk`](chunk::Chunk) is a recording that is being put together, a [`Traced`](program::Traced) program one part
//! of it, the [`KernelRecorder`](kernel::KernelRecorder) another. `sordino-session` leads them. The result is a
//! [`Directory`] that any reader of CTF can read.
//!
//! | file | contents |
//! |---|---|
//! | `options`, `error` | the settings of a recording, and its errors |
//! | `directory`, `series`, `chunk` | the layout of a recording, numbered recordings, the one that is being written |
//! | `summary`, `count`, `unanswered` | `recording.json`: counts of events, unrecorded hits |
//! | `files` | the files that a summary lists |
//! | `number` | the number of a program in its session |
//! | `program` | one program: its rings, its tracepoints, its trace |
//! | `shortfall`, `similar`, `names` | missing events and the reasons; similar names, and suggestions for a reader |
//! | `drain`, `output` | the thread that empties rings into files |
//! | `history` | the kernel's events that a flight recorder keeps between snapshots |
//! | `kernel`, `convert` | the kernel's tracer: its pages while recording, its trace afterwards |
//! | `context` | attributes of threads beside their events: names, priorities, annotations |
//! | `why`, `rank` | the reason that a program gave for a snapshot; the value by which snapshots are ranked |
//! | `place`, `placement` | the CPUs of the recorder's own threads |
//! | `missing` | data that could not be written |
//! | `recover`, `received`, `cut` | finishes a recording whose recorder was killed, or of which a part did not arrive |
//! | `text` | summaries as text |
//! | `watch` | the progress of a recording, as its caller sees it |
#![forbid(unsafe_code)]

pub mod chunk;
pub mod context;
pub mod convert;
mod count;
mod cut;
pub mod directory;
pub mod drain;
mod error;
mod files;
pub mod history;
pub mod kernel;
pub mod missing;
pub mod names;
pub mod number;
pub mod options;
pub mod output;
pub mod place;
pub mod placement;
pub mod program;
pub mod rank;
mod received;
pub mod recover;
pub mod series;
pub mod shortfall;
pub mod similar;
pub mod summary;
pub mod text;
pub mod unanswered;
pub mod watch;
pub mod why;

pub use count::user_events_so_far;
pub use directory::{Directory, PREFIX};
pub use error::Error;
pub use missing::UnwrittenData;
pub use options::{Keep, Polling, RecordingOptions, UserEvents};
pub use placement::RecorderCpus;
pub use rank::Rank;
pub use received::expect_recording;
pub use recover::recover;
pub use series::{Kind, recordings};
pub use shortfall::{
    NoEvents, NoEventsReason, ProcessFound, ProcessState, RuleCause, RuleProblem, Shortfall, TracepointFields,
};
pub use similar::similar;
pub use summary::{ClockSummary, KernelStream, OffsetSummary, ProgramSummary, State, StreamSummary, Summary};
pub use unanswered::{Unanswered, UnrecordedPrograms, unanswered_lines};
pub use watch::Watch;
