//! Errors and damage, with their places in the trace.

use std::io;

/// The reason why a trace can't be imported at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not begin as a trace does.
    #[error("no execution trace of Go: it begins with '{begin}', expected 'go 1.N trace'")]
    NoTrace {
        /// The first bytes, escaped.
        begin: String,
    },
    /// The format's version is not known.
    #[error("a trace of Go's format 1.{minor}: expected {}; {}", crate::format::KNOWN, crate::format::remedy(*minor))]
    UnknownVersion {
        /// The second number of the version.
        minor: u32,
    },
    /// The first generation is damaged or missing, so that there is nothing to import.
    #[error("the first generation of the trace is not whole")]
    Nothing(#[source] TraceDamage),
    /// The file can't be read.
    #[error("reading the trace")]
    Read(#[source] io::Error),
    /// The recording can't be written.
    #[error("writing the recording")]
    Write(#[source] sordino_ctf::Error),
}

/// A place in a trace from which on nothing is imported, and the fault there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}, generation {generation}: {fault}")]
pub struct TraceDamage {
    /// The offset in bytes from the start of the file.
    pub offset: u64,
    /// The number of the generation, 0 if there is none yet.
    pub generation: u64,
    /// The fault at this place.
    pub fault: TraceFault,
}

/// A fault in a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFault {
    /// The file ends inside a batch.
    #[error("the file ends here, inside a batch")]
    CutInside,
    /// The file ends before its generation does.
    #[error("the file ends here, before the end of the generation")]
    CutBehind,
    /// A batch has a type that no batch has.
    #[error("event type {found}: expected a batch")]
    NoBatch {
        /// The number of the type.
        found: u8,
    },
    /// A batch is larger than the runtime makes any.
    #[error("a batch of {bytes} bytes: expected at most {}", crate::batch::MAX_BYTES)]
    LargeBatch {
        /// The number of bytes that it claims.
        bytes: u64,
    },
    /// An event has a type that the version does not have in this place.
    #[error("event type {found}: not one of this version in this place")]
    NoEvent {
        /// The number of the type.
        found: u8,
    },
    /// An event lacks arguments, or one of them is no integer of at most 64 bits.
    #[error("an event that is not whole")]
    Arguments,
    /// A time is later than 2^63 ns.
    #[error("time {time}: beyond 2^63 ns")]
    Time {
        /// The time in units of the trace, or the difference that makes it too late.
        time: u64,
    },
    /// A generation does not have the number that has to follow.
    #[error("generation {found}: out of sequence")]
    Sequence {
        /// The number that stands there.
        found: u64,
    },
    /// A batch has a thread that Linux can't have.
    #[error("thread {thread}: expected a thread's id of Linux, 1 to {}", crate::batch::MAX_THREAD)]
    Thread {
        /// The number of the thread.
        thread: u64,
    },
    /// The clock has another frequency than Go uses on Linux.
    #[error("a clock of {hertz} Hz: expected {}, as on Linux", crate::generation::HERTZ)]
    Frequency {
        /// Ticks per second; 0 if the generation has no frequency.
        hertz: u64,
    },
    /// A clock snapshot is missing, or does not show `CLOCK_MONOTONIC`.
    #[error("no clock snapshot that shows CLOCK_MONOTONIC: expected one, as on Linux")]
    Snapshot,
    /// The generation needs more memory than is allowed.
    #[error("a generation that needs more than {} MiB", crate::generation::MAX_BYTES >> 20)]
    LargeGeneration,
    /// More goroutines live at once than are followed.
    #[error("more than {} goroutines at once", crate::scheduler::MAX_GOROUTINES)]
    Goroutines,
}
