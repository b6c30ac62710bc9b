//! Reasons for which a thread has no performance counters.

use super::kind::{MOST, names};
use super::{THREADS, paranoid::Paranoid};
use std::fmt;
use std::io;

/// The reason for which a thread has no performance counters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoCounters {
    /// There is no counter of this name.
    Unknown(String),
    /// More counters than a thread may have were requested: so many.
    TooMany(usize),
    /// This counter was requested twice; also if that is because the kernel's part of it may not be counted.
    Twice(String),
    /// This machine, or its kernel, does not have it.
    Missing(String),
    /// The user may not open it.
    NotPermitted {
        /// The name of the counter.
        name: String,
        /// The kernel's limit for unprivileged users.
        paranoid: Paranoid,
    },
    /// The processor's counters are in use: by the kernel, or by the counters before this one.
    Taken(String),
    /// The kernel has no room for it, or no descriptor: its error number.
    Kernel(String, i32),
    /// All places for threads with counters are taken by threads of the program.
    TooManyThreads,
    /// The thread is about to end: nobody would close them.
    Ending,
}

impl NoCounters {
    /// The error number that corresponds to the reason.
    pub fn errno(&self) -> i32 {
        match self {
            Self::Unknown(_) | Self::Twice(_) => libc::EINVAL,
            Self::TooMany(_) => libc::E2BIG,
            Self::Missing(_) => libc::ENOENT,
            Self::NotPermitted { .. } => libc::EACCES,
            Self::Taken(_) => libc::ENOSPC,
            Self::Kernel(_, errno) => *errno,
            Self::TooManyThreads => libc::EUSERS,
            Self::Ending => libc::ESRCH,
        }
    }

    /// The reason for an error number of perf_event_open(2) for the counter called `name`.
    pub(super) fn of_errno(errno: i32, name: String, needed: i32) -> Self {
        match errno {
            libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP | libc::ENOSYS => {
                Self::Missing(name)
            }
            libc::EACCES | libc::EPERM => Self::NotPermitted { name, paranoid: Paranoid::read(needed) },
            _ => Self::Kernel(name, errno),
        }
    }
}

impl fmt::Display for NoCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(f, "there is no counter '{name}': there are")?;
                names().enumerate().try_for_each(|(index, name)| {
                    write!(f, "{} {name}", if index == 0 { "" } else { "," })
                })?;
                f.write_str("; ':u' behind what is not the kernel's alone leaves out what the kernel does")
            }
            Self::TooMany(count) => write!(f, "{count} counters: a thread may have {MOST}"),
            Self::Twice(name) => write!(
                f,
                "counter '{name}' twice: where the kernel's part may not be counted, each counts as with ':u'"
            ),
            Self::Missing(name) => write!(
                f,
                "this machine has no counter '{name}': in a virtual machine, its host has to offer one"
            ),
            Self::NotPermitted { name, paranoid } => {
                write!(f, "counter '{name}' is not permitted: {paranoid}")
            }
            Self::Taken(name) => write!(
                f,
                "counter '{name}' is taken: the processor has few, and the kernel may need one itself; ask for fewer"
            ),
            Self::Kernel(name, errno) => {
                write!(f, "counter '{name}': {}", io::Error::from_raw_os_error(*errno))
            }
            Self::TooManyThreads => write!(f, "{THREADS} threads of the program have counters already"),
            Self::Ending => f.write_str("the thread is about to end"),
        }
    }
}

impl std::error::Error for NoCounters {}
