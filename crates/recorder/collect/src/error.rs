//! The errors of starting and finishing recordings.

use sordino_dirfd::{WriteError, lacks_descriptors};
use sordino_inspect::system::SystemError;
use sordino_tracefs as tracefs;
use std::io;
use std::path::{Path, PathBuf};

/// The reason that a recording did not start, or could not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The output directory is not empty.
    #[error("the directory {} is not empty: name another one with -o", .0.display())]
    NotEmpty(PathBuf),
    /// Another user could have put something into a directory or a file, or still can.
    #[error("{} is not ours alone ({reason}): {next}", path.display())]
    NotOurs {
        /// Path of the directory or the file.
        path: PathBuf,
        /// A description of the problem.
        reason: String,
        /// The remedy for the user.
        next: &'static str,
    },
    /// The output directory can't be created or written to.
    #[error(transparent)]
    Output(#[from] WriteError),
    /// The directory is not a recording.
    #[error("{} is no recording of sordino: {reason}", path.display())]
    NoRecording {
        /// Path of the directory.
        path: PathBuf,
        /// A description of the missing file.
        reason: String,
    },
    /// The trace has another byte order than this machine: it can be read here but not be finished.
    #[error("{} is in another byte order than this machine's: recover it on the machine that recorded it", path.display())]
    OtherOrder {
        /// Path of the trace.
        path: PathBuf,
    },
    /// A recorder is still writing to the directory.
    #[error("{} is being recorded by process {pid}: stop it first", path.display())]
    StillRecording {
        /// Path of the directory.
        path: PathBuf,
        /// Process id of the recorder.
        pid: u32,
    },
    /// A recording left by an earlier recorder can't be finished.
    #[error("an earlier recording is not finished: {0}")]
    Earlier(Box<Self>),
    /// The kernel's tracer can't be used as requested.
    #[error(transparent)]
    Kernel(#[from] tracefs::Error),
    /// The guardian that removes the kernel's instance can't be started.
    #[error(transparent)]
    Undo(#[from] sordino_undo::Error),
    /// A trace can't be written.
    #[error(transparent)]
    Trace(#[from] sordino_ctf::Error),
    /// A program that was named can't be recorded.
    #[error("can't record process {pid}: {reason}")]
    Program {
        /// Process id of the program.
        pid: i32,
        /// A description of the reason.
        reason: String,
    },
    /// Programs can't register with the session.
    #[error(transparent)]
    Intake(#[from] sordino_intake::Error),
    /// The requested CPUs or scheduling of the collector's thread can't be set.
    #[error("the collector: {0}")]
    Collector(String),
    /// The command can't be started.
    #[error("can't start {}: {source}", command.display())]
    Command {
        /// Path of the command.
        command: PathBuf,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// A chunk was requested from a flight recorder, or a snapshot from a session that writes to disk.
    #[error("'{0}' has no recordings of that kind")]
    Kind(String),
    /// A session does not answer requests.
    #[error("nobody answers in {}: {source}", session.display())]
    Silent {
        /// Path of the session's directory.
        session: PathBuf,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// An operation that the recorder itself needs failed.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl Error {
    /// Returns true if the same may succeed a moment later: there was no descriptor for a file.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Output(error) if lacks_descriptors(&error.source))
    }

    /// Returns a function that wraps an error in writing to `path`.
    pub fn output(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Output(WriteError { path: path.as_ref().to_owned(), source })
    }

    /// Returns a function that wraps an error of an operation that the recorder needs.
    pub fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System(SystemError { what, source: source.into() })
    }
}
