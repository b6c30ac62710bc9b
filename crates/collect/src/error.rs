//! Why nothing is recorded.

use sordino_dirfd::remedy;
use sordino_tracefs as tracefs;
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording did not start, or could not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is something in the output directory.
    #[error("the directory {} is not empty: name another one with -o", .0.display())]
    NotEmpty(PathBuf),
    /// Others than we could have put something into a directory or a file, or still can.
    #[error("{} is not ours alone ({reason}): {next}", path.display())]
    NotOurs {
        /// The directory or the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do about it.
        next: &'static str,
    },
    /// The output directory can't be made or written to.
    #[error("can't write to {}: {source}{}", path.display(), remedy(source))]
    Output {
        /// The directory or a file in it.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The directory is no recording.
    #[error("{} is no recording of sordino: {reason}", path.display())]
    NoRecording {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// It can be read here, and not be finished.
    #[error("{} is in another byte order than this machine's: recover it on the machine that recorded it", path.display())]
    OtherOrder {
        /// The trace.
        path: PathBuf,
    },
    /// A recorder is still writing there.
    #[error("{} is being recorded by process {pid}: stop it first", path.display())]
    StillRecording {
        /// The directory.
        path: PathBuf,
        /// The recorder.
        pid: u32,
    },
    /// What an earlier recorder left can't be finished.
    #[error("an earlier recording is not finished: {0}")]
    Earlier(Box<Self>),
    /// The kernel's tracer can't be used as asked.
    #[error(transparent)]
    Kernel(#[from] tracefs::Error),
    /// The guardian that would remove the kernel's instance is not to be had.
    #[error(transparent)]
    Undo(#[from] sordino_undo::Error),
    /// A trace can't be written.
    #[error(transparent)]
    Trace(#[from] sordino_ctf::Error),
    /// A program that was named can't be recorded.
    #[error("can't record process {pid}: {reason}")]
    Program {
        /// The program.
        pid: i32,
        /// Why.
        reason: String,
    },
    /// What a session was to be called is no name for one.
    #[error(
        "'{0}' is no name for a session: 1 to 48 of A-Z a-z 0-9 . _ -, with neither . nor - at the start"
    )]
    SessionName(String),
    /// A directory can't be where programs meet sessions.
    #[error("can't meet programs in {}: {reason}", path.display())]
    RuntimeDir {
        /// The directory.
        path: PathBuf,
        /// Why not, and what to do about it.
        reason: String,
    },
    /// The collector's thread can't have what it was to have.
    #[error("the collector: {0}")]
    Collector(String),
    /// The command can't be started.
    #[error("can't start {}: {source}", command.display())]
    Command {
        /// The command.
        command: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A chunk is asked of a flight recorder, or a snapshot of what goes to disk.
    #[error("'{0}' has no recordings of that kind")]
    Kind(String),
    /// A session does not answer.
    #[error("nobody answers in {}: {source}", session.display())]
    Silent {
        /// The session's directory.
        session: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// Something that the recorder itself needs failed.
    #[error("{what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn output(path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Output { path: path.as_ref().to_owned(), source }
    }

    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}
