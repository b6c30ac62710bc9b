//! Errors of planning, raising and lowering shields.

use sordino_sched::{CpuList, Right, as_root};
use sordino_undo::{FailedStep, Unreadable};
use std::io;
use std::path::{Path, PathBuf};

/// Reason why a shield could not be planned, raised or lowered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Some of the CPUs do not exist or are offline.
    #[error("CPU {missing} is not online; online are {online}")]
    NotOnline {
        /// Requested CPUs that are not online.
        missing: CpuList,
        /// CPUs that are online.
        online: CpuList,
    },
    /// All CPUs were requested.
    #[error("all CPUs ({online}) would be shielded, and none left for everything else: leave one out")]
    NothingLeft {
        /// CPUs that are online.
        online: CpuList,
    },
    /// A shield is up already.
    #[error("a shield is up, on CPU {cpus}: lower it first, with 'sordino shield down'")]
    Up {
        /// CPUs of that shield.
        cpus: CpuList,
    },
    /// There is no shield to lower.
    #[error("no shield is up")]
    NotUp,
    /// A process can't be where it is to be; the text has the remedy.
    #[error("{0}")]
    Unusable(String),
    /// A request to the kernel about this process failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Another process is raising or lowering a shield.
    #[error("another sordino is raising or lowering a shield now ({} is locked)", path.display())]
    Busy {
        /// Directory that is locked.
        path: PathBuf,
    },
    /// An essential change failed.
    #[error("{what}: {reason}")]
    Essential {
        /// Description of the change.
        what: String,
        /// Reason of the failure, from the kernel or from reading back.
        reason: String,
    },
    /// The user has interrupted the operation.
    #[error("interrupted")]
    Interrupted,
    /// The operation failed halfway, and its changes were undone.
    #[error("{0}; what had been changed is undone")]
    Undone(Box<Self>),
    /// The operation failed, and not all of its changes could be undone.
    #[error("{reason}; and not all could be undone: {}; try again with 'sordino shield down'", failures.iter().map(FailedStep::to_string).collect::<Vec<_>>().join("; "))]
    NotUndone {
        /// Reason why the changes had to be undone.
        reason: String,
        /// Steps that could not be carried out.
        failures: Vec<FailedStep>,
    },
    /// The right to change the machine is missing.
    #[error("{what} can't be changed: {source} ({})", needs(source))]
    Permission {
        /// File or object that cannot be changed.
        what: String,
        /// Error that the kernel returned.
        source: io::Error,
    },
    /// A control group has the name of a shield's, and there is no journal for it: it belongs to a shield of another
    /// container, or the journal was removed.
    #[error("the control group {} is there, and nothing says how to undo what made it: move its threads elsewhere and remove it (rmdir)", group.display())]
    GroupThere {
        /// Directory of the control group.
        group: PathBuf,
    },
    /// Another control group would be left without CPUs.
    #[error("the control group {} has no CPUs but {cpus}: give it others, or shield others", group.display())]
    GroupNeeds {
        /// Directory of the control group.
        group: PathBuf,
        /// CPUs of the control group.
        cpus: CpuList,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] Unreadable),
    /// A file could not be read or written.
    #[error("{}: {source}{}", path.display(), remedy(path, source))]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error that the kernel returned.
        #[source]
        source: io::Error,
    },
}

/// Returns the consequence of a missing or read-only file system, and the remedy.
fn remedy(path: &Path, source: &io::Error) -> &'static str {
    let is_missing = source.kind() == io::ErrorKind::NotFound;
    if !is_missing && source.kind() != io::ErrorKind::ReadOnlyFilesystem {
        return "";
    }
    match path {
        path if path.starts_with("/run") => {
            ": what a shield changes is noted there first; mount a writable /run (mount -t tmpfs tmpfs /run)"
        }
        path if path.starts_with("/proc") && is_missing => {
            ": what is to be kept off the CPUs is read there; mount -t proc proc /proc"
        }
        path if path.starts_with("/sys") && is_missing => {
            ": what is to be kept off the CPUs is read there; mount -t sysfs sysfs /sys"
        }
        _ => "",
    }
}

impl Error {
    /// Returns a function for `map_err` that adds the path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), source }
    }
}

/// Returns the missing condition for changing the machine.
fn needs(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "a shield needs a file system that is writable".to_owned(),
        _ if as_root().is_empty() => Right::Administer.remedy(),
        _ => "a shield needs root".to_owned(),
    }
}
