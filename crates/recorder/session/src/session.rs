//! A recording from its first second to its last: one that ends with its command, or a session that continues until it
//! is stopped.
//!
//! Files use only files above them in this table, and those beside them that do not use them.
//!
//! | module | contents |
//! |---|---|
//! | `bell`, `collector`, `writer` | wakes the loop; the handles of the threads that read rings and write recordings |
//! | `status`, `control` | a session's status; requests and their replies |
//! | `summarise`, `misses`, `sightings`, `skipped` | programs in summaries; those that could not be recorded |
//! | `memory`, `contents` | a flight recorder's memory; a snapshot that is being written |
//! | `live` | the state of a live reader |
//! | `outlet`, `recordings` | the series of recordings; the destination of the records |
//! | `kernel`, `machine`, `placing`, `search` | the kernel's tracer, stolen time, the recorder's CPUs, unregistered programs |
//! | `state` | the session: all of the above as its parts |
//! | `shortfall`, `answers`, `detach` | missing events; answers to programs; detaching |
//! | `programs`, `named`, `scan`, `arrivals` | recorded programs; those named, found and registered |
//! | `snapshots`, `show`, `chunks` | a flight recorder's snapshots, records for a live reader, the next chunk |
//! | `describe`, `requests`, `signals`, `reports` | answers to people, and to the collector's thread |
//! | `prepare`, `start`, `run`, `finish` | the session from its beginning to its end |

mod answers;
mod arrivals;
mod bell;
mod chunks;
mod collector;
mod contents;
mod control;
mod describe;
mod detach;
mod finish;
mod kernel;
mod live;
mod machine;
mod memory;
mod misses;
mod named;
mod outlet;
mod placing;
mod prepare;
mod programs;
mod recordings;
mod reports;
mod requests;
mod run;
mod scan;
mod search;
mod shortfall;
mod show;
mod sightings;
mod signals;
mod skipped;
mod snapshots;
mod start;
mod state;
mod status;
mod summarise;
mod writer;

pub use control::{Reply, Request, send_request};
pub use show::LIVE_PATIENCE;
pub use status::{MemoryStatus, ProgramStatus, RecordingStatus, RingStatus, Status};

use crate::options::SessionOptions;
use finish::SessionOutcome;
use sordino_collect::Error;
use sordino_collect::directory::Directory;
use sordino_collect::missing::UnwrittenData;
use sordino_collect::series::Ground;
use sordino_collect::shortfall::Shortfall;
use sordino_collect::summary::Summary;
use sordino_collect::watch::{Nobody, Watch};
use sordino_undo::Guardian;
use state::RecordingSession;
use std::os::fd::BorrowedFd;
use std::process::ExitStatus;

/// The result of a recording.
#[derive(Debug)]
pub struct FinishedRecording {
    /// The directory of the recording.
    pub directory: Directory,
    /// The summary of the recording.
    pub summary: Summary,
    /// The exit status of the command; `None` if there was none, or it is still running.
    pub status: Option<ExitStatus>,
    /// The command's process id, if it is still running.
    pub running: Option<u32>,
}

/// Records with these options until the command ends, the duration is over, or `stop` becomes readable.
///
/// # Errors
/// If recording could not start, or could not be completed. No change to the machine is left then.
pub fn record(
    options: &SessionOptions,
    guardian: Option<&mut Guardian>,
    stop: BorrowedFd<'_>,
    watch: &mut dyn Watch,
) -> Result<FinishedRecording, Error> {
    let directory = Directory::create(&options.output)?;
    let begun = RecordingSession::prepare(options, guardian, Some(directory.clone()), None)
        .and_then(|session| session.begun(watch));
    let mut session = begun.inspect_err(|_| directory.remove())?;
    let result = session.run(stop, watch);
    // After an error as well: the rest of the rings belongs to the trace, and programs must be detached from.
    let recorded = session.finish(watch)?;
    result?;
    let (directory, summary) = recorded.chunk.ok_or(Error::Kind(options.recording.name.clone()))?;
    options.reader.into_iter().for_each(|(user, group)| directory.dir().give(user, group));
    Ok(FinishedRecording { directory, summary, status: recorded.status, running: recorded.running })
}

/// The result of a session.
#[derive(Debug)]
pub struct SessionResult {
    /// The exit status of the command; `None` if there was none, or it is still running.
    pub status: Option<ExitStatus>,
    /// The reasons that the last recordings could not be completed, if any.
    pub problems: Vec<String>,
    /// The data that could not be written.
    pub missing: UnwrittenData,
    /// Missing events, with the reasons.
    pub shortfall: Shortfall,
}

/// Runs a session until its command ends, the duration is over, a request stops it, or `stop` becomes readable. `ready`
/// is called when it records. From then on it answers [requests](Request), and signals from `write_now`, a non-blocking
/// signalfd(2): each one requests a snapshot from a flight recorder, or another chunk from a session that writes to
/// disk.
///
/// # Errors
/// If recording could not start, in which case nothing is left behind; or the reason that it ended.
pub fn keep_session<'a>(
    options: &'a SessionOptions,
    guardian: Option<&'a mut Guardian>,
    stop: BorrowedFd<'_>,
    write_now: Option<BorrowedFd<'a>>,
    ready: impl FnOnce(),
) -> Result<SessionResult, Error> {
    let ground = Ground::take(&options.output, options.reader)?;
    let session = RecordingSession::prepare(options, guardian, None, Some(&ground));
    let session = session.and_then(|session| session.begun(&mut Nobody));
    let mut session = session.inspect_err(|_| ground.abandon(options.reader))?;
    session.progress.write_now = write_now;
    ready();
    let result = session.run(stop, &mut Nobody);
    let ended = session.finish(&mut Nobody);
    // After an error as well: there may be other recordings.
    options.reader.into_iter().for_each(|reader| ground.give(reader));
    let SessionOutcome { status, problems, missing, shortfall, .. } = ended?;
    result.map(|()| SessionResult { status, problems, missing, shortfall })
}
