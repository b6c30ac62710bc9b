//! Why there is no shield.

use sordino_sched::{CpuList, Right, as_root};
use sordino_undo::{Failure, Unreadable};
use std::io;
use std::path::{Path, PathBuf};

/// Why a shield could not be planned, raised or lowered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// CPUs that are not there or switched off.
    #[error("CPU {missing} is not online; online are {online}")]
    NotOnline {
        /// Those.
        missing: CpuList,
        /// The ones that are.
        online: CpuList,
    },
    /// All CPUs.
    #[error("all CPUs ({online}) would be shielded, and none left for everything else: leave one out")]
    NothingLeft {
        /// All.
        online: CpuList,
    },
    /// There is a shield.
    #[error("a shield is up, on CPU {cpus}: lower it first, with 'sordino shield down'")]
    Up {
        /// Its CPUs.
        cpus: CpuList,
    },
    /// There is none.
    #[error("no shield is up")]
    NotUp,
    /// Another process raises or lowers one at this moment.
    #[error("another sordino is raising or lowering a shield now ({} is locked)", path.display())]
    Busy {
        /// What is locked.
        path: PathBuf,
    },
    /// A step without which nothing is shielded did not hold.
    #[error("{what}: {reason}")]
    Essential {
        /// The step.
        what: String,
        /// What the kernel said.
        reason: String,
    },
    /// The user wanted it to end.
    #[error("interrupted")]
    Interrupted,
    /// It ended halfway, and what was done until then is undone.
    #[error("{0}; what had been changed is undone")]
    Undone(Box<Self>),
    /// What was done could not be undone.
    #[error("{reason}; and not all could be undone: {}; try again with 'sordino shield down'", failures.iter().map(Failure::to_string).collect::<Vec<_>>().join("; "))]
    NotUndone {
        /// Why it was to be undone.
        reason: String,
        /// What could not be.
        failures: Vec<Failure>,
    },
    /// The right to change it is missing.
    #[error("{what} can't be changed: {source} ({})", needs(source))]
    Permission {
        /// What.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A control group is there that is called as a shield's, and no journal says whose it is: a shield of another container's, or one
    /// whose journal somebody removed.
    #[error("the control group {} is there, and nothing says how to undo what made it: move its threads elsewhere and remove it (rmdir)", group.display())]
    GroupThere {
        /// Its directory.
        group: PathBuf,
    },
    /// Another control group has no other CPUs.
    #[error("the control group {} has no CPUs but {cpus}: give it others, or shield others", group.display())]
    GroupNeeds {
        /// Its directory.
        group: PathBuf,
        /// Its CPUs.
        cpus: CpuList,
    },
    /// What undoes it can't be read.
    #[error(transparent)]
    Journal(#[from] Unreadable),
    /// A file could not be read or written.
    #[error("{}: {source}{}", path.display(), remedy(path, source))]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What follows from a file system that is missing or not to be changed, and what to do.
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
    /// For `map_err`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), source }
    }
}

/// What it takes to change the machine, and is not there.
fn needs(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "a shield needs a file system that is writable".to_owned(),
        _ if as_root().is_empty() => Right::Administer.remedy(),
        _ => "a shield needs root".to_owned(),
    }
}
