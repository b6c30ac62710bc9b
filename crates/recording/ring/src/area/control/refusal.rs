//! Reasons for which a program cannot be recorded.

use crate::layout::{SLOTS, VERSION};
use std::{fmt, io};

/// A reason for which a program cannot be recorded.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// A system call failed.
    Io(io::Error),
    /// The file could shrink under its mappings: sordino did not make it.
    Unsealed,
    /// The owner holds a lease on the file, which delays each process that opens it.
    Leased,
    /// Another collector, or the program, keeps the lock that orders collectors.
    Locked,
    /// The program has not finished starting, or the file is no area.
    NoArea,
    /// The program was built with a sordino of another layout.
    Version(u32),
    /// The sizes and offsets in its header contradict each other.
    Nonsense,
    /// All slots are taken by sessions.
    NoSlot,
    /// The rings need more bytes than the program has left.
    NoRoom {
        /// Bytes that the rings need.
        needed: u64,
        /// Bytes of address space that the program reserved and no session uses.
        left: u64,
    },
    /// The session makes threads wait for room, and the program does not allow that.
    NoBlocking,
    /// There is no memory for the rings.
    NoMemory(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                write!(f, "{error}: raise the recorder's limit of descriptors (ulimit -n)")
            }
            Self::Io(error) => write!(f, "{error}"),
            Self::Unsealed => f.write_str("its file is not sealed: not made by sordino"),
            Self::Leased => f.write_str("it holds a lease on its area's file"),
            Self::Locked => f.write_str("somebody keeps its area locked"),
            Self::NoArea => f.write_str("it has no complete area: still starting, or not made by sordino"),
            Self::Version(version) => {
                write!(
                    f,
                    "it was built with layout {version} of sordino, this one knows {VERSION}: rebuild it"
                )
            }
            Self::Nonsense => f.write_str("the header of its area makes no sense"),
            Self::NoSlot => write!(f, "{SLOTS} sessions record it already"),
            Self::NoRoom { needed, left } => {
                write!(f, "its rings need {needed} bytes and it has reserved {left}")
            }
            Self::NoBlocking => f.write_str(
                "it lets nobody block it: start it with SORDINO_ALLOW_BLOCKING=1 in its environment",
            ),
            Self::NoMemory(error) => write!(f, "no memory for its rings: {error}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
