//! What can go wrong with the kernel's tracer.

use sordino_sched::{Right, as_root};
use std::io;
use std::path::{Path, PathBuf};

/// What does instead of being root.
const OTHERWISE: &str = ", or have CAP_SYS_ADMIN and CAP_DAC_OVERRIDE, or be in a group that root lets trace the kernel (sudo sordino \
                         grant GROUP)";

/// Why the kernel's tracer can't be used as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel was built without it.
    #[error("this kernel has no tracefs: it was built without CONFIG_TRACING")]
    NoTracefs,
    /// The kernel has it, but nothing may use it.
    #[error(
        "the kernel is locked down in confidentiality mode, which closes tracefs; \
         boot with lockdown=integrity or none, or without Secure Boot"
    )]
    Lockdown,
    /// The caller may not.
    #[error(
        "no permission for {}; {}{}",
        path.display(),
        Right::Administer.remedy(),
        if as_root().is_empty() { "" } else { OTHERWISE }
    )]
    NotPermitted {
        /// What it may not use.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// This kernel's tracer lacks something that younger or differently configured ones have.
    #[error("this kernel's tracer has no {}", path.display())]
    Missing {
        /// The file that is not there.
        path: PathBuf,
    },
    /// Some other failure at a file.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A file took a value and then read as another.
    #[error("{} was set to '{wanted}' and reads '{got}'", path.display())]
    NotTaken {
        /// The setting.
        path: PathBuf,
        /// What was written.
        wanted: String,
        /// What it reads.
        got: String,
    },
    /// A file of the kernel's does not read as it should.
    #[error("{}: expected {expected}, found '{found}'", path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What it holds.
        found: String,
    },
    /// No name for an instance of ours.
    #[error(
        "'{0}' is no name for an instance: it has to be sordino- (sordino. if it is made ahead) and letters, digits, '-', '_' or '.'"
    )]
    Name(String),
    /// Another process traces under this name.
    #[error("the tracing instance {0} is in use")]
    InUse(String),
    /// A group has instances, and all of them are in use.
    #[error(
        "of the {0} tracing instances that root made for your group, none is free; wait, or have root make more \
         (sudo sordino grant GROUP --instances {more})",
        more = .0 + 1
    )]
    AllTaken(u32),
    /// The events that root lets a group record are others.
    #[error(
        "{event}{} {} not among the events that root lets your group record ({}); leave {} out, or have root give all \
         (sudo sordino grant GROUP --all-events)",
        if *.more > 0 { format!(" and {} more", .more) } else { String::new() },
        if *.more > 0 { "are" } else { "is" },
        crate::USUAL.join(", "),
        if *.more > 0 { "them" } else { "it" }
    )]
    NotGranted {
        /// The first of them, as `system:name`.
        event: String,
        /// How many more.
        more: usize,
    },
    /// An instance of a group's gives all events and is to give some.
    #[error(
        "the tracing instance {0} gives its group all events, and some may be in use: sudo sordino revoke GROUP first"
    )]
    GivesAll(String),
    /// Something still uses the instance, so that it can't be removed.
    #[error("the tracing instance {0} is still busy; some process reads it or follows it")]
    Busy(String),
    /// Nothing matches.
    #[error("no kernel event matches '{pattern}'{}", suggestion(nearest))]
    UnknownEvent {
        /// What was asked for.
        pattern: String,
        /// Names that look like it, nearest first.
        nearest: Vec<String>,
    },
    /// The pattern is not well formed.
    #[error("'{pattern}' is no pattern of kernel events: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel refused a filter.
    #[error("the filter of {event} is refused: {reason}\n{context}")]
    Filter {
        /// The event whose filter it is.
        event: String,
        /// The kernel's words.
        reason: String,
        /// The filter, and in the line below a caret where the kernel stopped.
        context: String,
    },
    /// An event's format can't be understood.
    #[error("format of {event}, line {line}: expected {expected}, found '{found}'")]
    Format {
        /// The event, as far as it is known.
        event: String,
        /// Counted from 1.
        line: usize,
        /// What should be there.
        expected: &'static str,
        /// What is.
        found: String,
    },
}

impl Error {
    /// The error for `source`, which came from trying to `action` (a verb) the file at `path`.
    pub(crate) fn io(action: &'static str, path: &Path, source: rustix::io::Errno) -> Self {
        let path = path.to_owned();
        match source {
            rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => {
                Self::NotPermitted { path, source: source.into() }
            }
            rustix::io::Errno::NOENT => Self::Missing { path },
            _ => Self::Io { action, path, source: source.into() },
        }
    }
}

fn suggestion(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; did you mean {}?", nearest.join(", ")) }
}
