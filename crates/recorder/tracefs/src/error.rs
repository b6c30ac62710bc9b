//! Errors of the kernel's tracer.

use sordino_sched::{Right, as_root};
use std::io;
use std::path::{Path, PathBuf};

/// Alternatives to running as root.
const OTHERWISE: &str = ", or have CAP_SYS_ADMIN and CAP_DAC_OVERRIDE, or be in a group that root lets trace the kernel (sudo sordino \
                         grant GROUP)";

/// Reason why the kernel's tracer cannot be used as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel was built without tracefs.
    #[error("this kernel has no tracefs: it was built without CONFIG_TRACING")]
    NoTracefs,
    /// The kernel's lockdown mode denies tracefs to everybody.
    #[error(
        "the kernel is locked down in confidentiality mode, which closes tracefs; \
         boot with lockdown=integrity or none, or without Secure Boot"
    )]
    Lockdown,
    /// The caller lacks a permission.
    #[error(
        "no permission for {}; {}{}",
        path.display(),
        Right::Administer.remedy(),
        if as_root().is_empty() { "" } else { OTHERWISE }
    )]
    NotPermitted {
        /// Path of the file that may not be used.
        path: PathBuf,
        /// Error that the kernel returned.
        #[source]
        source: io::Error,
    },
    /// This kernel's tracer lacks a file that later or differently configured kernels have.
    #[error("this kernel's tracer has no {}", path.display())]
    Missing {
        /// Path of the missing file.
        path: PathBuf,
    },
    /// An operation on a file failed otherwise.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// Verb for the operation.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error that the kernel returned.
        #[source]
        source: io::Error,
    },
    /// A file accepted a value but reads back another one.
    #[error("{} was set to '{requested}' and reads '{got}'", path.display())]
    NotTaken {
        /// Path of the setting.
        path: PathBuf,
        /// Value that was written.
        requested: String,
        /// Value that was read back.
        got: String,
    },
    /// A file of the kernel has unexpected content.
    #[error("{}: expected {expected}, found '{found}'", path.display())]
    Unexpected {
        /// Path of the file.
        path: PathBuf,
        /// Description of the expected content.
        expected: &'static str,
        /// Content that was found.
        found: String,
    },
    /// The text is not a valid name for one of sordino's instances.
    #[error(
        "'{0}' is no name for an instance: it has to be sordino- (sordino. if it is made ahead) and letters, digits, '-', '_' or '.'"
    )]
    Name(String),
    /// Another process uses the instance of this name.
    #[error("the tracing instance {0} is in use")]
    InUse(String),
    /// All instances of the caller's groups are in use.
    #[error(
        "of the {0} tracing instances that root made for your group, none is free; wait, or have root make more \
         (sudo sordino grant GROUP --instances {more})",
        more = .0 + 1
    )]
    AllTaken(u32),
    /// Root has not granted the group some of the requested events.
    #[error(
        "{event}{} {} not among the events that root lets your group record ({}); leave {} out, or have root give all \
         (sudo sordino grant GROUP --all-events)",
        if *.more > 0 { format!(" and {} more", .more) } else { String::new() },
        if *.more > 0 { "are" } else { "is" },
        crate::USUAL.join(", "),
        if *.more > 0 { "them" } else { "it" }
    )]
    NotGranted {
        /// The first such event, as `system:name`.
        event: String,
        /// Number of further such events.
        more: usize,
    },
    /// An instance grants its group all events and is to grant only some.
    #[error(
        "the tracing instance {0} gives its group all events, and some may be in use: sudo sordino revoke GROUP first"
    )]
    GivesAll(String),
    /// The instance cannot be removed, because a process still uses it.
    #[error("the tracing instance {0} is still busy; some process reads it or follows it")]
    Busy(String),
    /// No event matches the pattern.
    #[error("no kernel event matches '{pattern}'{}", suggestion(nearest))]
    UnknownEvent {
        /// Pattern from the selection.
        pattern: String,
        /// Similar names, the nearest first.
        nearest: Vec<String>,
    },
    /// The pattern is not well formed.
    #[error("'{pattern}' is no pattern of kernel events: {reason}")]
    Pattern {
        /// Text of the pattern.
        pattern: String,
        /// Description of the error.
        reason: String,
    },
    /// The kernel has rejected a filter.
    #[error("the filter of {event} is refused: {reason}\n{context}")]
    Filter {
        /// Event to which the filter belongs.
        event: String,
        /// Reason in the kernel's words.
        reason: String,
        /// The filter, and in the line below it a caret where the kernel stopped.
        context: String,
    },
    /// An event's format cannot be parsed.
    #[error("format of {event}, line {line}: expected {expected}, found '{found}'")]
    Format {
        /// The event, as far as it is known.
        event: String,
        /// Line number, counted from 1.
        line: usize,
        /// Description of the expected text.
        expected: &'static str,
        /// Text that was found.
        found: String,
    },
}

impl Error {
    /// Creates the error for `source`, which the operation `action` (a verb) on the file at `path` returned.
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
